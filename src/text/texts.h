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

/* Moves the last `lines` lines of parts (*count), fewer than there are, to held, in order: whole
 * parts and the end of one. held has room for as many parts; returns how many it got. */
size_t qkv__cut_lines(qkv_text_span *parts, size_t *count, size_t lines, qkv_text_span *held);

/* Opens records that training kept: an error that names the file unless they have so many fields,
 * the first two of which are ids of the tokenizer. On failure *out is NULL. */
qkv_status qkv__records_open_of(qkv_records **out, qkv_context *ctx, const char *path,
                                size_t fields, const qkv_tokenizer *tokenizer);

#endif
