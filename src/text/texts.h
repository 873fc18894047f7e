/* texts.h - text files that jobs learn from: opened, and their ends held out. */
#ifndef QKV_SRC_TEXT_TEXTS_H
#define QKV_SRC_TEXT_TEXTS_H

#include "io/file.h"
#include "qkv/options.h"
#include "qkv/records.h"
#include "qkv/tokens.h"

/* Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    qkv__map *maps;
    qkv_text_part *parts; /* (count) one for each file */
    size_t count;
} qkv__texts;

/* An empty file is an error. On failure nothing is open. */
qkv_status qkv__texts_open(qkv__texts *x, qkv_context *ctx, const qkv_strings *paths);
qkv_status qkv__texts_open_one(qkv__texts *x, qkv_context *ctx, const char *path);
void qkv__texts_close(qkv__texts *x);

/* "N" or "N%" of `total` units ("bytes", "lines"): at least one must be left. */
qkv_status qkv__held_out(qkv_context *ctx, const char *text, size_t total, const char *unit,
                         size_t *count);

/* The next line of the text between *at and end, without its end ("\n" or "\r\n"); false when
 * there is none. */
typedef struct {
    const char *data;
    size_t len;
} qkv__line;
bool qkv__next_line(const char **at, const char *end, qkv__line *line);
size_t qkv__count_lines(const qkv_text_part *part);

/* Moves the last `lines` lines of parts (*count), fewer than there are, to held, in order: whole
 * parts and the end of one. held has room for as many parts; returns how many it got. */
size_t qkv__cut_lines(qkv_text_part *parts, size_t *count, size_t lines, qkv_text_part *held);

/* Opens records that training kept: an error that names the file unless they have so many fields,
 * the first two of which are ids of the tokenizer. On failure *out is NULL. */
qkv_status qkv__records_open_of(qkv_records **out, qkv_context *ctx, const char *path,
                                size_t fields, const qkv_tokenizer *tokenizer);

#endif
