/* json.h - tokenizer.json: every part by its name. */
#ifndef QKV_SRC_TOKENIZER_JSON_H
#define QKV_SRC_TOKENIZER_JSON_H

#include "tokenizer/object.h"

/* A tokenizer from what tokenizer.json says, which is taken (NULL: memory is out). name stands for
 * the file in messages. files: where vocabulary and merges are instead, or NULL. */
qkv_status qkv__tokenizer_from_spec(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                    json_t *spec, const qkv__bpe_files *files);
/* The same of a specification without vocabulary (spec.h) and of that; merges: left, right, left,
 * right, .., or NULL. */
qkv_status qkv__tokenizer_build(qkv_tokenizer **out, const char *name, json_t *spec,
                                const qkv__vocab *v, const qkv_ids *merges);
/* The same from text. */
qkv_status qkv__tokenizer_parse(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                const char *text, size_t len);

#endif
