/* read_texts.h - many texts through an encoder, some thousand ids at a time. */
#ifndef QKV_SRC_INFER_READ_TEXTS_H
#define QKV_SRC_INFER_READ_TEXTS_H

#include "qkv/corpus.h"
#include "task/packed.h"

/* What one pass makes of p's texts, into out (sequences, width); p is emptied. */
typedef qkv_status qkv__read_packed_fn(qkv__packed *p, qkv_model *m, qkv_tape *t, qkv_real *out);

typedef struct {
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    size_t vocab, length; /* ids are below vocab; a text has at most length, the rest is cut off */
    size_t width;         /* numbers that are made of a text */
    qkv__read_packed_fn *read;
} qkv__text_reader;

/* out (count, width). cut: how many texts were cut off; or NULL. */
qkv_status qkv__read_texts(const qkv__text_reader *r, const qkv_text_pair *texts, size_t count,
                           qkv_real *out, size_t *cut);

#endif
