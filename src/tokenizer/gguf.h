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

/* ---- what both share ------------------------------------------------------------------------- */

/* A kind of token. */
enum { QKV__GGUF_NORMAL = 1, QKV__GGUF_UNKNOWN, QKV__GGUF_CONTROL, QKV__GGUF_USER, QKV__GGUF_UNUSED,
       QKV__GGUF_BYTE };

/* How byte-level BPE cuts a text, under the name that llama.cpp gives it. */
typedef struct {
    const char *name; /* tokenizer.ggml.pre */
    bool digits;      /* each digit alone, before all */
    const char *pattern; /* NULL: GPT-2's */
    bool nfc;            /* Unicode's form C, before all */
    bool ignore_merges;
    bool add_bos; /* where the file does not say it */
} qkv__gguf_pre;

const qkv__gguf_pre *qkv__gguf_pre_named(const char *name); /* NULL: none */
/* The first that cuts as tokenizer.json says; NULL: none does. */
const qkv__gguf_pre *qkv__gguf_pre_of(const qkv_tokenizer *t);
/* The parts of tokenizer.json. */
json_t *qkv__gguf_pre_normalizer(const qkv__gguf_pre *p);
json_t *qkv__gguf_pre_splitter(const qkv__gguf_pre *p);

/* "chat_template" of tokenizer_config.json: a text or [{"name": .., "template": ..}]; *out NULL:
 * the file has none. The way back: text, or if it is NULL own, which may be NULL. */
qkv_status qkv__gguf_read_template(json_t **out, const qkv__gguf *g);
void qkv__gguf_put_template(qkv__gguf_fields *f, qkv_context *ctx, const char *text,
                            const json_t *own);

/* A filler's text: of an id that has no token. */
enum { QKV__GGUF_FILLER = 32 };
size_t qkv__gguf_filler(char out[QKV__GGUF_FILLER], size_t id);

#endif
