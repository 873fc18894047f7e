/* filters.c - filters of one value: text and numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/run.h"
#include "jinja/text.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;
typedef qkv__jinja_arguments arguments;

FILTER(upper) { NO_ARGUMENTS; return qkv__jinja_change_case(r, self, qkv__jinja_upper); }
FILTER(lower) { NO_ARGUMENTS; return qkv__jinja_change_case(r, self, qkv__jinja_lower); }
FILTER(title) { NO_ARGUMENTS; return qkv__jinja_change_case(r, self, qkv__jinja_title_of_filter); }
FILTER(capitalize)
{
    NO_ARGUMENTS;
    return qkv__jinja_change_case(r, self, qkv__jinja_capitalize);
}

FILTER(trim)
{
    value chars = qkv__jinja_argument(args, "chars", 0);
    qkv__jinja_str s = qkv__jinja_string(r, self);
    return qkv__jinja_part_of(
        self, qkv__jinja_strip(&r->pool, s, chars.kind == QKV__J_STRING ? &chars.s : NULL, true,
                               true));
}

FILTER(string)
{
    NO_ARGUMENTS;
    return qkv__jinja_part_of(self, qkv__jinja_string(r, self));
}

FILTER(safe)
{
    NO_ARGUMENTS;
    value v = qkv__jinja_part_of(self, qkv__jinja_string(r, self));
    v.safe = true;
    return v;
}

FILTER(default)
{
    value with = qkv__jinja_argument(args, "default_value", 0);
    value falsy = qkv__jinja_argument(args, "boolean", 1);
    (void)r;
    if (self.kind != QKV__J_UNDEFINED && !(qkv__jinja_truth(falsy) && !qkv__jinja_truth(self)))
        return self;
    return with.kind == QKV__J_UNDEFINED ? qkv__j_text("") : with;
}

FILTER(length)
{
    NO_ARGUMENTS;
    switch (self.kind) {
    case QKV__J_UNDEFINED: return qkv__j_int(0);
    case QKV__J_STRING: return qkv__j_int((int64_t)qkv__jinja_length(&r->pool, self.s));
    case QKV__J_DICT: return qkv__j_int((int64_t)self.dict->count);
    case QKV__J_LIST:
        if (self.list->kind != QKV__J_GENERATOR)
            return qkv__j_int((int64_t)self.list->count);
        break;
    default: break;
    }
    return qkv__jinja_error(r, "%s has no length", qkv__jinja_kind_name(self));
}

FILTER(replace)
{
    value from = qkv__jinja_argument(args, "old", 0), to = qkv__jinja_argument(args, "new", 1);
    value most = qkv__jinja_argument(args, "count", 2);
    return qkv__jinja_replace(r, qkv__jinja_string(r, self), qkv__jinja_string(r, from),
                              qkv__jinja_string(r, to),
                              most.kind == QKV__J_INT && most.i >= 0 ? (size_t)most.i : SIZE_MAX);
}

/* Adds indent to the lines of s that are not empty (or `blank`), but for the first. */
static value indent_lines(run *r, qkv__jinja_str s, qkv__jinja_str indent, bool first, bool blank)
{
    qkv__jinja_text out = {.pool = &r->pool};
    bool begins = true;
    for (size_t at = 0; begins || at < s.len; begins = false) {
        size_t next, end = qkv__jinja_line_end(&r->pool, s, at, &next);
        if (!begins)
            qkv__jinja_puts(&out, "\n");
        if (begins ? first : blank || end > at)
            qkv__jinja_add(&out, indent.data, indent.len);
        qkv__jinja_add(&out, s.data + at, end - at);
        at = next;
    }
    if (qkv__jinja_ends_line(s)) { /* jinja2 adds a line's end before it splits: a line follows */
        qkv__jinja_puts(&out, "\n");
        if (blank)
            qkv__jinja_add(&out, indent.data, indent.len);
    }
    return qkv__jinja_done(&out);
}

FILTER(indent)
{
    value width = qkv__jinja_argument(args, "width", 0);
    value first = qkv__jinja_argument(args, "first", 1);
    value blank = qkv__jinja_argument(args, "blank", 2);
    value spaces = qkv__j_text("    ");
    if (width.kind == QKV__J_STRING)
        spaces = width;
    else if (width.kind == QKV__J_INT)
        spaces = qkv__jinja_binary(r, (qkv__jinja_str){"*", 1}, qkv__j_text(" "), width);
    else if (width.kind != QKV__J_UNDEFINED)
        return qkv__jinja_error(r, "filter indent: a width expected, found %s",
                                qkv__jinja_kind_name(width));
    if (self.kind != QKV__J_STRING)
        return qkv__jinja_error(r, "filter indent: a string expected, found %s",
                                qkv__jinja_kind_name(self));
    return indent_lines(r, self.s, spaces.s, qkv__jinja_truth(first), qkv__jinja_truth(blank));
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The number that a text says, as int() or float() reads it. */
static bool read_number(run *r, qkv__jinja_str s, bool real, value *out)
{
    char text[64], *end;
    s = qkv__jinja_strip(&r->pool, s, NULL, true, true);
    if (!s.len || s.len >= sizeof text || memchr(s.data, 'x', s.len) || memchr(s.data, 'X', s.len))
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = 0;
    if (real)
        *out = qkv__j_real(strtod(text, &end));
    else if (s.len > 18)
        return false;
    else
        *out = qkv__j_int(strtoll(text, &end, 10));
    return !*end && end > text;
}

static value cut_real(run *r, double v)
{
    if (!(fabs(v) < 9.2e18))
        return qkv__jinja_error(r, "a number is too large for an integer");
    return qkv__j_int((int64_t)v);
}

static value no_number(run *r, value undefined)
{
    return qkv__jinja_error(r, "\"%.*s\" is undefined", (int)undefined.s.len, undefined.s.data);
}

FILTER(int)
{
    value otherwise = qkv__jinja_argument(args, "default", 0), v;
    if (qkv__jinja_argument(args, "base", 1).kind != QKV__J_UNDEFINED)
        return qkv__jinja_error(r, "filter int: the argument base is not known");
    if (qkv__jinja_number(self))
        return self.kind == QKV__J_REAL ? cut_real(r, self.r) : qkv__j_int(self.i);
    if (self.kind == QKV__J_STRING && read_number(r, self.s, false, &v))
        return v;
    if (self.kind == QKV__J_STRING && read_number(r, self.s, true, &v) && isfinite(v.r))
        return cut_real(r, v.r);
    if (self.kind == QKV__J_UNDEFINED)
        return no_number(r, self);
    return otherwise.kind == QKV__J_UNDEFINED ? qkv__j_int(0) : otherwise;
}

FILTER(float)
{
    value otherwise = qkv__jinja_argument(args, "default", 0), v;
    if (qkv__jinja_number(self))
        return qkv__j_real(qkv__jinja_real(self));
    if (self.kind == QKV__J_STRING && read_number(r, self.s, true, &v))
        return v;
    if (self.kind == QKV__J_UNDEFINED)
        return no_number(r, self);
    return otherwise.kind == QKV__J_UNDEFINED ? qkv__j_real(0) : otherwise;
}

FILTER(abs)
{
    NO_ARGUMENTS;
    if (self.kind == QKV__J_REAL)
        return qkv__j_real(fabs(self.r));
    if (!qkv__jinja_number(self) || self.i == INT64_MIN)
        return qkv__jinja_error(r, "filter abs: a number expected, found %s",
                                qkv__jinja_kind_name(self));
    return qkv__j_int(self.i < 0 ? -self.i : self.i);
}

FILTER(round)
{
    value digits = qkv__jinja_argument(args, "precision", 0);
    value method = qkv__jinja_argument(args, "method", 1);
    double scale = digits.kind == QKV__J_INT ? pow(10, (double)digits.i) : 1;
    if (!qkv__jinja_number(self))
        return qkv__jinja_error(r, "filter round: a number expected, found %s",
                                qkv__jinja_kind_name(self));
    double v = qkv__jinja_real(self) * scale;
    if (method.kind == QKV__J_STRING && qkv__jinja_is(method.s, "floor"))
        v = floor(v);
    else if (method.kind == QKV__J_STRING && qkv__jinja_is(method.s, "ceil"))
        v = ceil(v);
    else if (self.kind != QKV__J_REAL)
        return scale < 1 ? cut_real(r, nearbyint(v) / scale) : qkv__j_int(self.i);
    else
        v = nearbyint(v);
    return qkv__j_real(v / scale);
}

/* ---- JSON and formats ------------------------------------------------------------------------ */

FILTER(tojson)
{
    value indent = qkv__jinja_argument(args, "indent", 1);
    value separators = qkv__jinja_argument(args, "separators", 2);
    qkv__jinja_text out = {.pool = &r->pool};
    qkv__jinja_json how = {
        .ascii = qkv__jinja_truth(qkv__jinja_argument(args, "ensure_ascii", 0)),
        .sort = qkv__jinja_truth(qkv__jinja_argument(args, "sort_keys", 3)),
        .lines = indent.kind == QKV__J_INT || indent.kind == QKV__J_STRING,
        .colon = {": ", 2}, .comma = {", ", 2}};
    if (how.lines) {
        how.comma.len = 1;
        how.indent = indent.kind == QKV__J_STRING ? indent.s
                     : qkv__jinja_binary(r, (qkv__jinja_str){"*", 1}, qkv__j_text(" "), indent).s;
    }
    if (separators.kind == QKV__J_LIST && separators.list->count == 2 &&
        separators.list->items[0].kind == QKV__J_STRING &&
        separators.list->items[1].kind == QKV__J_STRING) {
        how.comma = separators.list->items[0].s;
        how.colon = separators.list->items[1].s;
    }
    if (!qkv__jinja_dump(&out, self, &how, 0) && qkv__jinja_check(r))
        return qkv__jinja_error(r, "filter tojson: %s, or what is in it, has no JSON",
                                qkv__jinja_kind_name(self));
    return qkv__jinja_done(&out);
}

FILTER(format)
{
    qkv__jinja_text out = {.pool = &r->pool};
    qkv__jinja_str s = qkv__jinja_string(r, self);
    size_t used = 0;
    for (size_t i = 0; i < s.len && !r->status; i++) {
        const char kind = i + 1 < s.len ? s.data[i + 1] : 0;
        if (s.data[i] != '%') {
            qkv__jinja_add(&out, s.data + i, 1);
            continue;
        }
        i++;
        if (kind == '%')
            qkv__jinja_puts(&out, "%");
        else if ((kind != 's' && kind != 'd' && kind != 'i') || used >= args->count ||
                 (kind != 's' && args->items[used].kind != QKV__J_INT))
            return qkv__jinja_error(r, "filter format: %%s, %%d and as many values expected");
        else
            qkv__jinja_write(r, &out, args->items[used++]);
    }
    if (used < args->count)
        return qkv__jinja_error(r, "filter format: a value has no %%s");
    return qkv__jinja_done(&out);
}

const qkv__jinja_row qkv__jinja_filters[] = {
    {"abs", filter_abs, 0, 0, {NULL}},
    {"capitalize", filter_capitalize, 0, 0, {NULL}},
    {"count", filter_length, 0, 0, {NULL}},
    {"d", filter_default, 0, 2, {"default_value", "boolean"}},
    {"default", filter_default, 0, 2, {"default_value", "boolean"}},
    {"float", filter_float, 0, 1, {"default"}},
    {"format", filter_format, 0, 100, {NULL}},
    {"indent", filter_indent, 0, 3, {"width", "first", "blank"}},
    {"int", filter_int, 0, 2, {"default", "base"}},
    {"length", filter_length, 0, 0, {NULL}},
    {"lower", filter_lower, 0, 0, {NULL}},
    {"replace", filter_replace, 2, 3, {"old", "new", "count"}},
    {"round", filter_round, 0, 2, {"precision", "method"}},
    {"safe", filter_safe, 0, 0, {NULL}},
    {"string", filter_string, 0, 0, {NULL}},
    {"title", filter_title, 0, 0, {NULL}},
    {"tojson", filter_tojson, 0, 4, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", filter_trim, 0, 1, {"chars"}},
    {"upper", filter_upper, 0, 0, {NULL}},
    {NULL, NULL, 0, 0, {NULL}}};
