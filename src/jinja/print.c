/* print.c - values as Python prints them, and as json.dumps does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "jinja/value.h"

/* The shortest digits that read back as the number, in repr's form: a point or an exponent of at
 * least 16, or below -4. */
static void print_real(qkv__jinja_text *out, double r)
{
    char digits[40], text[64];
    if (isnan(r) || isinf(r)) {
        qkv__jinja_puts(out, isnan(r) ? "nan" : r > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 0;
    do
        (void)snprintf(digits, sizeof digits, "%.*e", precision, r);
    while (strtod(digits, NULL) != r && ++precision < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = precision - exponent;
        (void)snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, r);
    } else {
        (void)snprintf(text, sizeof text, "%.*e", precision, r);
    }
    qkv__jinja_puts(out, text);
}

static bool is_printable(int32_t cp)
{
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return cp == ' ';
    default: return true;
    }
}

static void repr_character(qkv__jinja_text *out, const char *s, size_t n, int32_t cp, char quote)
{
    static const char *const known[] = {"\\\\", "\n\\n", "\r\\r", "\t\\t"};
    char text[16];
    for (size_t i = 0; i < 4; i++)
        if (cp == known[i][0]) {
            qkv__jinja_puts(out, i ? known[i] + 1 : "\\\\");
            return;
        }
    if (cp == quote)
        qkv__jinja_puts(out, "\\");
    if (is_printable(cp)) {
        qkv__jinja_add(out, s, n);
        return;
    }
    const char *format = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
    (void)snprintf(text, sizeof text, format, (unsigned)cp);
    qkv__jinja_puts(out, text);
}

static void repr_string(qkv__jinja_text *out, qkv__jinja_str s)
{
    bool single = s.len && memchr(s.data, '\'', s.len), twice = s.len && memchr(s.data, '"', s.len);
    const char quote = single && !twice ? '"' : '\'';
    int32_t cp;
    qkv__jinja_add(out, &quote, 1);
    for (size_t i = 0; i < s.len;) {
        size_t n = qkv__utf8_next(s.data + i, s.len - i, &cp);
        repr_character(out, s.data + i, n, cp, quote);
        i += n;
    }
    qkv__jinja_add(out, &quote, 1);
}

static bool print_list(qkv__jinja_text *out, const qkv__jinja_list *list, size_t depth)
{
    bool tuple = list->kind == QKV__J_TUPLE, ok = true;
    if (list->kind > QKV__J_TUPLE)
        return false;
    qkv__jinja_puts(out, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count && ok; i++) {
        qkv__jinja_puts(out, i ? ", " : "");
        ok = qkv__jinja_print(out, list->items[i], true, depth + 1);
    }
    qkv__jinja_puts(out, !tuple ? "]" : list->count == 1 ? ",)" : ")");
    return ok;
}

static bool print_dict(qkv__jinja_text *out, const qkv__jinja_dict *dict, size_t depth)
{
    bool ok = true;
    qkv__jinja_puts(out, "{");
    for (size_t i = 0; i < dict->count && ok; i++) {
        qkv__jinja_puts(out, i ? ", " : "");
        ok = qkv__jinja_print(out, dict->keys[i], true, depth + 1);
        qkv__jinja_puts(out, ": ");
        ok = ok && qkv__jinja_print(out, dict->values[i], true, depth + 1);
    }
    qkv__jinja_puts(out, "}");
    return ok;
}

bool qkv__jinja_print(qkv__jinja_text *out, qkv__jinja_value v, bool repr, size_t depth)
{
    char text[32];
    if (depth > QKV__JINJA_NESTED || !qkv__jinja_work(out->pool, 1))
        return false;
    switch (v.kind) {
    case QKV__J_UNDEFINED: qkv__jinja_puts(out, repr ? "Undefined" : ""); return true;
    case QKV__J_NONE: qkv__jinja_puts(out, "None"); return true;
    case QKV__J_BOOL: qkv__jinja_puts(out, v.i ? "True" : "False"); return true;
    case QKV__J_INT:
        (void)snprintf(text, sizeof text, "%lld", (long long)v.i);
        qkv__jinja_puts(out, text);
        return true;
    case QKV__J_REAL: print_real(out, v.r); return true;
    case QKV__J_STRING:
        if (!repr)
            qkv__jinja_add(out, v.s.data, v.s.len);
        else if (v.safe)
            return false; /* Markup('...') */
        else
            repr_string(out, v.s);
        return true;
    case QKV__J_LIST: return print_list(out, v.list, depth);
    case QKV__J_DICT: return print_dict(out, v.dict, depth);
    default: return false;
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void dump_character(qkv__jinja_text *out, const char *s, size_t n, int32_t cp, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    char text[16];
    const char *known = cp > 0 && cp < 128 ? strchr(from, cp) : NULL;
    if (known)
        (void)snprintf(text, sizeof text, "\\%c", to[known - from]);
    else if (cp >= 0x10000 && ascii)
        (void)snprintf(text, sizeof text, "\\u%04x\\u%04x",
                       0xd800u + (((unsigned)cp - 0x10000u) >> 10),
                       0xdc00u + ((unsigned)cp & 0x3ffu));
    else if (cp < 32 || (cp > 126 && ascii))
        (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)cp);
    else
        *text = 0;
    if (*text)
        qkv__jinja_puts(out, text);
    else
        qkv__jinja_add(out, s, n);
}

static void dump_string(qkv__jinja_text *out, qkv__jinja_str s, bool ascii)
{
    int32_t cp;
    qkv__jinja_puts(out, "\"");
    for (size_t i = 0; i < s.len;) {
        size_t n = qkv__utf8_next(s.data + i, s.len - i, &cp);
        dump_character(out, s.data + i, n, cp, ascii);
        i += n;
    }
    qkv__jinja_puts(out, "\"");
}

static bool dump_scalar(qkv__jinja_text *out, qkv__jinja_value v, bool ascii)
{
    switch (v.kind) {
    case QKV__J_NONE: qkv__jinja_puts(out, "null"); return true;
    case QKV__J_BOOL: qkv__jinja_puts(out, v.i ? "true" : "false"); return true;
    case QKV__J_STRING: dump_string(out, v.s, ascii); return true;
    case QKV__J_INT: return qkv__jinja_print(out, v, false, 0);
    case QKV__J_REAL:
        if (isfinite(v.r))
            print_real(out, v.r);
        else
            qkv__jinja_puts(out, isnan(v.r) ? "NaN" : v.r > 0 ? "Infinity" : "-Infinity");
        return true;
    default: return false;
    }
}

static void dump_line(qkv__jinja_text *out, const qkv__jinja_json *how, size_t depth)
{
    if (how->lines)
        qkv__jinja_puts(out, "\n");
    for (size_t i = 0; i < depth && how->lines; i++)
        qkv__jinja_add(out, how->indent.data, how->indent.len);
}

/* A key that is no string becomes one: 1 is "1". */
static bool dump_key(qkv__jinja_text *out, qkv__jinja_value key, const qkv__jinja_json *how)
{
    if (key.kind == QKV__J_STRING)
        return dump_scalar(out, key, how->ascii);
    qkv__jinja_puts(out, "\"");
    bool ok = dump_scalar(out, key, how->ascii);
    qkv__jinja_puts(out, "\"");
    return ok;
}

/* The places of a dict's entries by rising key; NULL: keys have no order, or no memory. */
static size_t *dump_sorted(qkv__jinja_pool *p, const qkv__jinja_dict *d)
{
    size_t *order = qkv__jinja_alloc(p, (d->count + 1) * sizeof *order);
    for (size_t i = 0; order && i < d->count; i++) {
        size_t at = i;
        for (; at > 0; at--) {
            int compared;
            if (!qkv__jinja_compare(p, d->keys[order[at - 1]], d->keys[i], 0, &compared))
                return NULL;
            if (compared <= 0)
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return order;
}

static bool dump_dict(qkv__jinja_text *out, const qkv__jinja_dict *d, const qkv__jinja_json *how,
                      size_t depth)
{
    size_t *order = how->sort ? dump_sorted(out->pool, d) : NULL;
    bool ok = !how->sort || order;
    qkv__jinja_puts(out, "{");
    for (size_t i = 0; i < d->count && ok; i++) {
        size_t at = order ? order[i] : i;
        if (i)
            qkv__jinja_add(out, how->comma.data, how->comma.len);
        dump_line(out, how, depth + 1);
        ok = dump_key(out, d->keys[at], how);
        qkv__jinja_add(out, how->colon.data, how->colon.len);
        ok = ok && qkv__jinja_dump(out, d->values[at], how, depth + 1);
    }
    if (d->count)
        dump_line(out, how, depth);
    qkv__jinja_puts(out, "}");
    return ok;
}

bool qkv__jinja_dump(qkv__jinja_text *out, qkv__jinja_value v, const qkv__jinja_json *how,
                     size_t depth)
{
    if (depth > QKV__JINJA_NESTED || !qkv__jinja_work(out->pool, 1))
        return false;
    if (v.kind == QKV__J_DICT)
        return dump_dict(out, v.dict, how, depth);
    if (v.kind != QKV__J_LIST)
        return dump_scalar(out, v, how->ascii);
    bool ok = v.list->kind <= QKV__J_TUPLE;
    qkv__jinja_puts(out, "[");
    for (size_t i = 0; i < v.list->count && ok; i++) {
        if (i)
            qkv__jinja_add(out, how->comma.data, how->comma.len);
        dump_line(out, how, depth + 1);
        ok = qkv__jinja_dump(out, v.list->items[i], how, depth + 1);
    }
    if (v.list->count)
        dump_line(out, how, depth);
    qkv__jinja_puts(out, "]");
    return ok;
}
