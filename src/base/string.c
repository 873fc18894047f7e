/* string.c - strings that grow. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

void qkv_str_init(qkv_str *s, qkv_context *ctx) { *s = (qkv_str){.ctx = ctx}; }

void qkv_str_free(qkv_str *s)
{
    qkv_free(s->ctx, s->data);
    qkv_str_init(s, s->ctx);
}

void qkv_str_clear(qkv_str *s)
{
    s->len = 0;
    if (s->data)
        s->data[0] = 0;
}

static bool string_reserve(qkv_str *s, size_t more)
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
    char *data = qkv_realloc(s->ctx, s->data, s->data ? s->len + 1 : 0, cap);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->cap = cap;
    return true;
}

void qkv_str_add(qkv_str *s, const char *data, size_t len)
{
    if (!string_reserve(s, len))
        return;
    if (len)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = 0;
}

void qkv_str_puts(qkv_str *s, const char *text) { qkv_str_add(s, text, strlen(text)); }

void qkv_str_printf(qkv_str *s, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && string_reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}
