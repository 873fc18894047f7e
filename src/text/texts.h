/* texts.h - the ends of texts that jobs learn from, held out. */
#ifndef QKV_SRC_TEXT_TEXTS_H
#define QKV_SRC_TEXT_TEXTS_H

#include "base/base.h"
#include "qkv/records.h"
#include "qkv/texts.h"

/* "N" or "N%" of `total` units ("bytes", "lines"): at least one must be left. */
qkv_status qkv__held_out(qkv_context *ctx, const char *text, size_t total, const char *unit,
                         size_t *count);

size_t qkv__count_lines(const qkv_text_span *part);

/* The texts of a run: what is learnt from, and what is held out. Zeroed: none. */
typedef struct {
    qkv_texts data, valid_file;
    size_t train_count;  /* of data.spans */
    qkv_text_span *held; /* (held_count) */
    size_t held_count;
} qkv__text_split;

/* Opens the files and holds out those of `valid`, or, with valid NULL, the end of the data: `last`
 * ("N" or "N%") lines, else bytes of whole characters. qkv__text_split_close frees it, after a
 * failure too. */
qkv_status qkv__text_split_open(qkv__text_split *x, qkv_context *ctx, const qkv_strings *data,
                                const char *valid, const char *last, bool lines);
void qkv__text_split_close(qkv__text_split *x);

/* Opens records that training kept: an error that names the file unless they have so many fields,
 * the first two of which are ids of the tokenizer. On failure *out is NULL. */
qkv_status qkv__records_open_of(qkv_records **out, qkv_context *ctx, const char *path,
                                size_t fields, const qkv_tokenizer *tokenizer);

#endif
