/* pairs.h - sentence pairs: two text files, line by line translations of each other. */
#ifndef QKV_SRC_TEXT_PAIRS_H
#define QKV_SRC_TEXT_PAIRS_H

#include "text/texts.h"
#include "qkv/records.h"

enum { QKV__SOURCE, QKV__TARGET, QKV__SIDES };

/* Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    qkv_texts text[QKV__SIDES];
    size_t lines; /* of each */
} qkv__pairs;

/* Unequal numbers of lines are an error. Close p after a failure too. */
qkv_status qkv__pairs_open(qkv__pairs *p, qkv_context *ctx, const char *source, const char *target);
void qkv__pairs_close(qkv__pairs *p);

/* One side up to line `lines`. */
qkv_text_span qkv__pairs_text(const qkv__pairs *p, int side, size_t lines);

/* How a translator reads text. */
typedef struct {
    qkv_tokenizer *tokenizer;
    int32_t eos;      /* the token that ends a side */
    size_t positions; /* most tokens of a side, its end among them */
} qkv__pairs_coding;

/* Lines [from, to) as records for the translator: ids of the source and of the target, each with
 * the token that ends it; in a file at path, or in memory when it is NULL. Pairs with an empty
 * side, or one longer than the model's positions, are left out, and a note says how many. */
qkv_status qkv__pairs_records(qkv_records **out, const qkv__pairs *p,
                              const qkv__pairs_coding *coding, size_t from, size_t to,
                              const char *path);

#endif
