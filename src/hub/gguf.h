/* gguf.h - models in GGUF files, as llama.cpp has them, whole. */
#ifndef QKV_SRC_HUB_GGUF_H
#define QKV_SRC_HUB_GGUF_H

#include "hub/gguf_parts.h"

/* The model, with changes ("key=value") and its matrices kept as `weights` says, not AUTO; and the
 * tokenizer (tokenizer NULL: it is not read; *tokenizer NULL: the file has none). On failure both
 * are NULL. */
qkv_status qkv__hub_read_gguf(qkv_model **model, qkv_tokenizer **tokenizer, qkv_context *ctx,
                              const char *path, qkv_strings changes, qkv_weights weights);

/* tokenizer may be NULL. What a GGUF file has no place for is refused by its name. */
qkv_status qkv__hub_write_gguf(qkv_model *m, const qkv_tokenizer *tokenizer, const char *path,
                               const qkv__hub_gguf_options *o);

#endif
