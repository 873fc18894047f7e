/* json_write.c - ordered JSON text. Reading is in json.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"

static void new_line(qkv_json_writer *w)
{
    if (w->indent <= 0)
        return;
    qkv_str_puts(&w->text, "\n");
    for (int i = 0; i < w->indent * w->depth; i++)
        qkv_str_puts(&w->text, " ");
}

static void add_escaped(qkv_str *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escape[] = "\"\\bfnrt";
    const char *at = c ? strchr(plain, c) : NULL;
    if (at)
        qkv_str_printf(out, "\\%c", escape[at - plain]);
    else
        qkv_str_printf(out, "\\u%04x", c);
}

static void add_quoted(qkv_str *out, const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    qkv_str_puts(out, "\"");
    size_t begin = 0, i = 0; /* begin: of what is copied as it stands */
    while (i < length) {
        size_t n = qkv__utf8_length(s + i, length - i);
        bool special = n == 0 || (n == 1 && (s[i] < 0x20 || s[i] == '"' || s[i] == '\\'));
        if (special) {
            qkv_str_add(out, text + begin, i - begin);
            if (n == 0)
                qkv_str_puts(out, "\xef\xbf\xbd");
            else
                add_escaped(out, s[i]);
            begin = i + 1;
        }
        i += n ? n : 1;
    }
    qkv_str_add(out, text + begin, length - begin);
    qkv_str_puts(out, "\"");
}

/* What stands before a value: comma, new line, key. */
static void lead(qkv_json_writer *w, const char *key)
{
    if (!w->first)
        qkv_str_puts(&w->text, w->indent ? "," : ", ");
    if (w->depth > 0)
        new_line(w);
    if (key) {
        add_quoted(&w->text, key, strlen(key));
        qkv_str_puts(&w->text, w->indent < 0 ? ":" : ": ");
    }
    w->first = false;
}

static void json_write_begin(qkv_json_writer *w, const char *key, const char *bracket)
{
    lead(w, key);
    qkv_str_puts(&w->text, bracket);
    w->depth++;
    w->first = true;
}

static void json_write_end(qkv_json_writer *w, const char *bracket)
{
    w->depth--;
    if (!w->first)
        new_line(w);
    qkv_str_puts(&w->text, bracket);
    w->first = false;
}

/* The fewest digits that read back as the same number, and a ".0" where it looks whole. */
static void put_number(qkv_json_writer *w, const char *key, double value, bool is_float)
{
    char text[40];
    if (!isfinite(value)) {
        qkv_json_put_null(w, key);
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
    qkv_str_puts(&w->text, text);
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

void qkv_json_writer_init(qkv_json_writer *w, qkv_context *ctx, int indent)
{
    *w = (qkv_json_writer){.indent = indent, .first = true};
    qkv_str_init(&w->text, ctx);
}

void qkv_json_writer_free(qkv_json_writer *w)
{
    qkv_str_free(&w->text);
}

void qkv_json_begin_object(qkv_json_writer *w, const char *key)
{
    json_write_begin(w, key, "{");
}

void qkv_json_end_object(qkv_json_writer *w)
{
    json_write_end(w, "}");
}

void qkv_json_begin_array(qkv_json_writer *w, const char *key)
{
    json_write_begin(w, key, "[");
}

void qkv_json_end_array(qkv_json_writer *w)
{
    json_write_end(w, "]");
}

void qkv_json_put_string(qkv_json_writer *w, const char *key, const char *value)
{
    qkv_json_put_bytes(w, key, value, strlen(value));
}

void qkv_json_put_bytes(qkv_json_writer *w, const char *key, const char *value, size_t length)
{
    lead(w, key);
    add_quoted(&w->text, value, length);
}

void qkv_json_put_int(qkv_json_writer *w, const char *key, int64_t value)
{
    lead(w, key);
    qkv_str_printf(&w->text, "%lld", (long long)value);
}

void qkv_json_put_real(qkv_json_writer *w, const char *key, double value)
{
    put_number(w, key, value, false);
}

void qkv_json_put_float(qkv_json_writer *w, const char *key, float value)
{
    put_number(w, key, (double)value, true);
}

void qkv_json_put_bool(qkv_json_writer *w, const char *key, bool value)
{
    lead(w, key);
    qkv_str_puts(&w->text, value ? "true" : "false");
}

void qkv_json_put_null(qkv_json_writer *w, const char *key)
{
    lead(w, key);
    qkv_str_puts(&w->text, "null");
}

void qkv_json_put_text(qkv_json_writer *w, const char *key, const char *json)
{
    lead(w, key);
    qkv_str_puts(&w->text, json);
}

void qkv__json_put_value(qkv_json_writer *w, const char *key, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        json_write_begin(w, key, "{");
        for (void *i = json_object_iter((json_t *)(uintptr_t)value); i;
             i = json_object_iter_next((json_t *)(uintptr_t)value, i))
            qkv__json_put_value(w, json_object_iter_key(i), json_object_iter_value(i));
        json_write_end(w, "}");
        break;
    case JSON_ARRAY:
        json_write_begin(w, key, "[");
        for (size_t i = 0; i < json_array_size(value); i++)
            qkv__json_put_value(w, NULL, json_array_get(value, i));
        json_write_end(w, "]");
        break;
    case JSON_STRING:
        qkv_json_put_bytes(w, key, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER: qkv_json_put_int(w, key, json_integer_value(value)); break;
    case JSON_REAL: qkv_json_put_real(w, key, json_real_value(value)); break;
    case JSON_TRUE: qkv_json_put_bool(w, key, true); break;
    case JSON_FALSE: qkv_json_put_bool(w, key, false); break;
    default: qkv_json_put_null(w, key); break;
    }
}

void qkv_json_put_strings(qkv_json_writer *w, const char *key, const char *const *values,
                          size_t count)
{
    qkv_json_begin_array(w, key);
    for (size_t i = 0; i < count; i++)
        qkv_json_put_string(w, NULL, values[i]);
    qkv_json_end_array(w);
}

void qkv_json_put_reals(qkv_json_writer *w, const char *key, const double *values, size_t count)
{
    qkv_json_begin_array(w, key);
    for (size_t i = 0; i < count; i++)
        qkv_json_put_real(w, NULL, values[i]);
    qkv_json_end_array(w);
}

void qkv_json_put_sizes(qkv_json_writer *w, const char *key, const size_t *values, size_t count)
{
    qkv_json_begin_array(w, key);
    for (size_t i = 0; i < count; i++)
        qkv_json_put_int(w, NULL, (int64_t)values[i]);
    qkv_json_end_array(w);
}

void qkv_json_put_ids(qkv_json_writer *w, const char *key, const int32_t *values, size_t count)
{
    qkv_json_begin_array(w, key);
    for (size_t i = 0; i < count; i++)
        qkv_json_put_int(w, NULL, values[i]);
    qkv_json_end_array(w);
}

const char *qkv_json_writer_text(const qkv_json_writer *w)
{
    return w->text.failed ? NULL : w->text.data;
}

qkv_status qkv_json_writer_save(qkv_json_writer *w, const char *file)
{
    qkv_str_puts(&w->text, "\n");
    qkv_status status = w->text.failed ? QKV_E_MEMORY : QKV_OK;
    if (!status)
        status = qkv_file_write(w->text.ctx, file, w->text.data, w->text.len);
    qkv_json_writer_free(w);
    return status;
}
