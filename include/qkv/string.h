/* string.h - growing strings.
 * Layer: base
 *
 *     qkv_str s;
 *     qkv_str_init(&s, ctx);
 *     qkv_str_printf(&s, "%zu tokens", count);
 *     if (!s.failed)
 *         use(s.data, s.len);
 *     qkv_str_free(&s);                                                                        */
#ifndef QKV_STRING_H
#define QKV_STRING_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

typedef struct {
    qkv_context *ctx;
    char *data; /* ends in a 0 byte; NULL until something is added */
    size_t len, cap;
    bool failed; /* an allocation failed; further calls do nothing */
} qkv_str;

void qkv_str_init(qkv_str *s, qkv_context *ctx); /* empty; allocates nothing */
void qkv_str_free(qkv_str *s);                   /* s may be reused */
void qkv_str_clear(qkv_str *s);                  /* empties s and keeps its memory */
void qkv_str_add(qkv_str *s, const char *data, size_t len);
void qkv_str_puts(qkv_str *s, const char *text);
void qkv_str_printf(qkv_str *s, const char *fmt, ...) QKV_PRINTF(2, 3);

QKV_END_DECLS
#endif
