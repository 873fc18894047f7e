/* gguf_fields.c - fields of an open GGUF file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/gguf_file.h"

static const size_t kind_bytes[QKV__GGUF_KINDS] = {
    [QKV__GGUF_U8] = 1,  [QKV__GGUF_I8] = 1,   [QKV__GGUF_U16] = 2, [QKV__GGUF_I16] = 2,
    [QKV__GGUF_U32] = 4, [QKV__GGUF_I32] = 4,  [QKV__GGUF_F32] = 4, [QKV__GGUF_BOOL] = 1,
    [QKV__GGUF_U64] = 8, [QKV__GGUF_I64] = 8,  [QKV__GGUF_F64] = 8};

size_t qkv__gguf_kind_bytes(qkv__gguf_kind kind) { return kind_bytes[kind]; }

qkv_status qkv__gguf_fail(const qkv__gguf *g, const char *key, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: field \"%.120s\": %s", g->path, key, what);
}

int qkv__gguf_by_key(const void *a, const void *b)
{
    const qkv__gguf_field *x = a, *y = b;
    return strcmp(x->key, y->key);
}

int qkv__gguf_by_name(const void *a, const void *b)
{
    return strcmp(((const qkv__gguf_tensor *)a)->name, ((const qkv__gguf_tensor *)b)->name);
}

bool qkv__gguf_printable(int32_t cp) { return cp >= ' ' && (cp < 0x7f || cp >= 0xa0); }

size_t qkv_gguf_fields(const qkv__gguf *g) { return g->field_count; }
const qkv__gguf_field *qkv__gguf_field_at(const qkv__gguf *g, size_t i) { return &g->fields[i]; }

const qkv__gguf_field *qkv__gguf_find(const qkv__gguf *g, const char *key)
{
    const qkv__gguf_field wanted = {.key = key};
    return g->field_count
               ? bsearch(&wanted, g->fields, g->field_count, sizeof wanted, qkv__gguf_by_key)
               : NULL;
}

const char *qkv__gguf_text(const qkv__gguf_field *f, size_t i, size_t *len)
{
    uint64_t bytes;
    memcpy(&bytes, f->texts[i], sizeof bytes);
    *len = (size_t)bytes;
    return (const char *)f->texts[i] + sizeof bytes;
}

static bool is_gguf_number(qkv__gguf_kind kind)
{
    return kind != QKV__GGUF_STRING && kind != QKV__GGUF_ARRAY && kind != QKV__GGUF_BOOL;
}

static bool is_fraction(qkv__gguf_kind kind)
{
    return kind == QKV__GGUF_F32 || kind == QKV__GGUF_F64;
}

double qkv__gguf_real(const qkv__gguf_field *f, size_t i)
{
    const uint8_t *p = f->data + i * kind_bytes[f->kind];
    float single;
    double twice;
    if (f->kind == QKV__GGUF_F32) {
        memcpy(&single, p, sizeof single);
        return (double)single;
    }
    if (f->kind != QKV__GGUF_F64)
        return (double)qkv__gguf_int(f, i);
    memcpy(&twice, p, sizeof twice);
    return twice;
}

/* U64 beyond 2^63 - 1 and fractions beyond it become the largest integer. */
int64_t qkv__gguf_int(const qkv__gguf_field *f, size_t i)
{
    size_t bytes = kind_bytes[f->kind];
    uint64_t word = 0, sign = (uint64_t)1 << (8 * bytes - 1);
    int64_t value;
    if (is_fraction(f->kind)) {
        double x = qkv__gguf_real(f, i);
        return x > -9e18 && x < 9e18 ? (int64_t)x : INT64_MAX;
    }
    memcpy(&word, f->data + i * bytes, bytes);
    if (f->kind == QKV__GGUF_I8 || f->kind == QKV__GGUF_I16 || f->kind == QKV__GGUF_I32)
        word = (word ^ sign) - sign;
    if (f->kind == QKV__GGUF_U64 && word > INT64_MAX)
        word = INT64_MAX;
    memcpy(&value, &word, sizeof value);
    return value;
}

qkv_status qkv__gguf_opt_string(const qkv__gguf *g, const char *key, const char **out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    size_t len;
    if (!f)
        return QKV_OK;
    if (f->array || f->kind != QKV__GGUF_STRING)
        return qkv__gguf_fail(g, key, "expected a text");
    const char *text = qkv__gguf_text(f, 0, &len);
    if (memchr(text, 0, len))
        return qkv__gguf_fail(g, key, "expected a text without a 0 byte");
    const size_t valid = qkv__utf8_valid(text, len);
    if (valid < len)
        return qkv__gguf_fail(g, key, "expected UTF-8, found another byte at %zu", valid);
    char *copy = qkv__arena_alloc(g->arena, len + 1);
    if (!copy)
        return QKV_E_MEMORY;
    memcpy(copy, text, len);
    copy[len] = 0;
    *out = copy;
    return QKV_OK;
}

qkv_status qkv__gguf_get_string(const qkv__gguf *g, const char *key, const char **out)
{
    return qkv__gguf_find(g, key) ? qkv__gguf_opt_string(g, key, out)
                                  : qkv__gguf_fail(g, key, "is missing");
}

qkv_status qkv__gguf_opt_int(const qkv__gguf *g, const char *key, int64_t min, int64_t max,
                             int64_t *out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    if (!f)
        return QKV_OK;
    if (f->array || !is_gguf_number(f->kind) || is_fraction(f->kind))
        return qkv__gguf_fail(g, key, "expected an integer");
    int64_t value = qkv__gguf_int(f, 0);
    if (value < min || value > max)
        return qkv__gguf_fail(g, key, "expected %lld to %lld, found %lld", (long long)min,
                              (long long)max, (long long)value);
    *out = value;
    return QKV_OK;
}

/* The shortest decimal that gives the same float: 1e-06, not 9.99999997e-07. */
static double shortest_decimal(double x)
{
    char text[32];
    double found = x;
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, x);
        found = strtod(text, NULL);
        if ((float)found == (float)x)
            break;
    }
    return found;
}

qkv_status qkv__gguf_opt_real(const qkv__gguf *g, const char *key, double *out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    if (!f)
        return QKV_OK;
    if (f->array || !is_gguf_number(f->kind))
        return qkv__gguf_fail(g, key, "expected a number");
    const double value = qkv__gguf_real(f, 0);
    if (!isfinite(value))
        return qkv__gguf_fail(g, key, "expected a finite number, found %g", value);
    *out = f->kind == QKV__GGUF_F32 ? shortest_decimal(value) : value;
    return QKV_OK;
}

qkv_status qkv__gguf_opt_bool(const qkv__gguf *g, const char *key, bool *out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    if (!f)
        return QKV_OK;
    if (f->array || f->kind != QKV__GGUF_BOOL)
        return qkv__gguf_fail(g, key, "expected a truth value");
    *out = f->data[0] != 0;
    return QKV_OK;
}

qkv_status qkv__gguf_opt_strings(const qkv__gguf *g, const char *key, const qkv__gguf_field **out)
{
    *out = qkv__gguf_find(g, key);
    if (*out && (!(*out)->array || (*out)->kind != QKV__GGUF_STRING))
        return qkv__gguf_fail(g, key, "expected an array of texts");
    return QKV_OK;
}

qkv_status qkv__gguf_opt_numbers(const qkv__gguf *g, const char *key, const qkv__gguf_field **out)
{
    *out = qkv__gguf_find(g, key);
    if (*out && (!(*out)->array || !is_gguf_number((*out)->kind)))
        return qkv__gguf_fail(g, key, "expected an array of numbers");
    return QKV_OK;
}
