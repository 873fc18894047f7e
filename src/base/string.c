/* string.c - strings that grow. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

void qkv__str_init(qkv__str *s, qkv_context *ctx) { *s = (qkv__str){.ctx = ctx}; }

void qkv__str_free(qkv__str *s)
{
    qkv__free(s->ctx, s->data);
    qkv__str_init(s, s->ctx);
}

void qkv__str_clear(qkv__str *s)
{
    s->len = 0;
    if (s->data)
        s->data[0] = 0;
}

static bool reserve(qkv__str *s, size_t more)
{
    size_t need;
    if (s->failed)
        return false;
    if (!qkv__add_size(s->len, more, &need) || !qkv__add_size(need, 1, &need)) {
        s->failed = true;
        return false;
    }
    if (need <= s->cap)
        return true;
    size_t cap = s->cap ? s->cap * 2 : 64;
    if (cap < need)
        cap = need;
    char *data = qkv__realloc(s->ctx, s->data, s->data ? s->len + 1 : 0, cap);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->cap = cap;
    return true;
}

void qkv__str_add(qkv__str *s, const char *data, size_t len)
{
    if (!reserve(s, len))
        return;
    if (len)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = 0;
}

void qkv__str_puts(qkv__str *s, const char *text) { qkv__str_add(s, text, strlen(text)); }

void qkv__str_printf(qkv__str *s, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}
