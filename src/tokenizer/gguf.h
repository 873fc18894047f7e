/* gguf.h - tokenizers in GGUF files, as llama.cpp has them. */
#ifndef QKV_SRC_TOKENIZER_GGUF_H
#define QKV_SRC_TOKENIZER_GGUF_H

#include "io/gguf.h"
#include "tokenizer/object.h"

/* *out NULL: the file has no tokenizer. */
qkv_status qkv__tokenizer_from_gguf(qkv_tokenizer **out, const qkv__gguf *g);

typedef struct {
    qkv_context *ctx;
    const char *dir;           /* the tokenizer's folder, for messages */
    const char *chat_template; /* NULL: that of t->config */
    size_t count;              /* tokens of the model; those without a text get a filler */
} qkv__gguf_tokenizer_options;

/* The tokenizer's fields but ids of special tokens. t NULL: a field that says so.
 * QKV_E_UNSUPPORTED, with the name: a part that llama.cpp has nothing for. */
qkv_status qkv__tokenizer_to_gguf(const qkv_tokenizer *t, qkv__gguf_fields *f,
                                  const qkv__gguf_tokenizer_options *o);

/* "chat_template" of tokenizer_config.json: a text or [{"name": .., "template": ..}]; *out NULL:
 * the file has none. The way back: text, or if it is NULL own, which may be NULL. */
qkv_status qkv__gguf_read_template(json_t **out, const qkv__gguf *g);
void qkv__gguf_put_template(qkv__gguf_fields *f, qkv_context *ctx, const char *text,
                            const json_t *own);

#endif
