/* json_write.c - ordered JSON text. Reading is in json.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"

static void new_line(qkv__json_out *w)
{
    if (w->indent <= 0)
        return;
    qkv__str_puts(&w->text, "\n");
    for (int i = 0; i < w->indent * w->depth; i++)
        qkv__str_puts(&w->text, " ");
}

static void add_escaped(qkv__str *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escape[] = "\"\\bfnrt";
    const char *at = c ? strchr(plain, c) : NULL;
    if (at)
        qkv__str_printf(out, "\\%c", escape[at - plain]);
    else
        qkv__str_printf(out, "\\u%04x", c);
}

static void add_quoted(qkv__str *out, const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    qkv__str_puts(out, "\"");
    size_t begin = 0, i = 0; /* begin: of what is copied as it stands */
    while (i < length) {
        size_t n = qkv__utf8_length(s + i, length - i);
        bool special = n == 0 || (n == 1 && (s[i] < 0x20 || s[i] == '"' || s[i] == '\\'));
        if (special) {
            qkv__str_add(out, text + begin, i - begin);
            if (n == 0)
                qkv__str_puts(out, "\xef\xbf\xbd");
            else
                add_escaped(out, s[i]);
            begin = i + 1;
        }
        i += n ? n : 1;
    }
    qkv__str_add(out, text + begin, length - begin);
    qkv__str_puts(out, "\"");
}

/* What stands before a value: comma, new line, key. */
static void lead(qkv__json_out *w, const char *key)
{
    if (!w->first)
        qkv__str_puts(&w->text, w->indent ? "," : ", ");
    if (w->depth > 0)
        new_line(w);
    if (key) {
        add_quoted(&w->text, key, strlen(key));
        qkv__str_puts(&w->text, w->indent < 0 ? ":" : ": ");
    }
    w->first = false;
}

static void begin(qkv__json_out *w, const char *key, const char *bracket)
{
    lead(w, key);
    qkv__str_puts(&w->text, bracket);
    w->depth++;
    w->first = true;
}

static void end(qkv__json_out *w, const char *bracket)
{
    w->depth--;
    if (!w->first)
        new_line(w);
    qkv__str_puts(&w->text, bracket);
    w->first = false;
}

/* The fewest digits that read back as the same number, and a ".0" where it looks whole. */
static void put_number(qkv__json_out *w, const char *key, double value, bool is_float)
{
    char text[40];
    if (!isfinite(value)) {
        qkv__json_put_null(w, key);
        return;
    }
    int most = is_float ? 9 : 17;
    for (int digits = is_float ? 6 : 15; digits <= most; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (is_float ? (float)back == (float)value : back == value)
            break;
    }
    char *comma = strchr(text, ','); /* a locale's decimal point */
    if (comma)
        *comma = '.';
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    lead(w, key);
    qkv__str_puts(&w->text, text);
}

size_t qkv__utf8_length(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
    bool too_large = s[0] == 0xf4 && s[1] >= 0x90;
    return overlong || surrogate || too_large ? 0 : n;
}

void qkv__json_out_init(qkv__json_out *w, qkv_context *ctx, int indent)
{
    *w = (qkv__json_out){.indent = indent, .first = true};
    qkv__str_init(&w->text, ctx);
}

void qkv__json_out_free(qkv__json_out *w)
{
    qkv__str_free(&w->text);
}

void qkv__json_begin_object(qkv__json_out *w, const char *key)
{
    begin(w, key, "{");
}

void qkv__json_end_object(qkv__json_out *w)
{
    end(w, "}");
}

void qkv__json_begin_array(qkv__json_out *w, const char *key)
{
    begin(w, key, "[");
}

void qkv__json_end_array(qkv__json_out *w)
{
    end(w, "]");
}

void qkv__json_put_string(qkv__json_out *w, const char *key, const char *value)
{
    qkv__json_put_bytes(w, key, value, strlen(value));
}

void qkv__json_put_bytes(qkv__json_out *w, const char *key, const char *value, size_t length)
{
    lead(w, key);
    add_quoted(&w->text, value, length);
}

void qkv__json_put_int(qkv__json_out *w, const char *key, int64_t value)
{
    lead(w, key);
    qkv__str_printf(&w->text, "%lld", (long long)value);
}

void qkv__json_put_real(qkv__json_out *w, const char *key, double value)
{
    put_number(w, key, value, false);
}

void qkv__json_put_float(qkv__json_out *w, const char *key, float value)
{
    put_number(w, key, (double)value, true);
}

void qkv__json_put_bool(qkv__json_out *w, const char *key, bool value)
{
    lead(w, key);
    qkv__str_puts(&w->text, value ? "true" : "false");
}

void qkv__json_put_null(qkv__json_out *w, const char *key)
{
    lead(w, key);
    qkv__str_puts(&w->text, "null");
}

void qkv__json_put_value(qkv__json_out *w, const char *key, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        begin(w, key, "{");
        for (void *i = json_object_iter((json_t *)(uintptr_t)value); i;
             i = json_object_iter_next((json_t *)(uintptr_t)value, i))
            qkv__json_put_value(w, json_object_iter_key(i), json_object_iter_value(i));
        end(w, "}");
        break;
    case JSON_ARRAY:
        begin(w, key, "[");
        for (size_t i = 0; i < json_array_size(value); i++)
            qkv__json_put_value(w, NULL, json_array_get(value, i));
        end(w, "]");
        break;
    case JSON_STRING:
        qkv__json_put_bytes(w, key, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER: qkv__json_put_int(w, key, json_integer_value(value)); break;
    case JSON_REAL: qkv__json_put_real(w, key, json_real_value(value)); break;
    case JSON_TRUE: qkv__json_put_bool(w, key, true); break;
    case JSON_FALSE: qkv__json_put_bool(w, key, false); break;
    default: qkv__json_put_null(w, key); break;
    }
}

const char *qkv__json_out_text(const qkv__json_out *w)
{
    return w->text.failed ? NULL : w->text.data;
}

qkv_status qkv__json_out_save(qkv__json_out *w, const char *file)
{
    qkv__str_puts(&w->text, "\n");
    qkv_status status = w->text.failed ? QKV_E_MEMORY : QKV_OK;
    if (!status)
        status = qkv__file_write(w->text.ctx, file, w->text.data, w->text.len);
    qkv__json_out_free(w);
    return status;
}
