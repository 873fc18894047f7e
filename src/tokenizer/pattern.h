/* pattern.h - regular expressions. */
#ifndef QKV_SRC_TOKENIZER_PATTERN_H
#define QKV_SRC_TOKENIZER_PATTERN_H

#include "io/json.h"

typedef struct qkv__pattern qkv__pattern;

/* The field "pattern": {"String": text} (literal) or {"Regex": text}. */
qkv_status qkv__pattern_read(const qkv__json *at, const char **text, bool *literal);
/* at is named when the text cannot be used. On failure *out is NULL. */
qkv_status qkv__pattern_create(qkv__pattern **out, const qkv__json *at, const char *text,
                               bool literal);
void qkv__pattern_destroy(qkv__pattern *p, qkv_context *ctx); /* NULL is allowed */
/* The next match that is not empty, at or after from; *start = *end = len: there is none. */
qkv_status qkv__pattern_next(const qkv__pattern *p, qkv_context *ctx, const char *text, size_t len,
                             size_t from, size_t *start, size_t *end);

#endif
