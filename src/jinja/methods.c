/* methods.c - methods of strings. */
#include <string.h>

#include "base/utf8.h"
#include "jinja/run.h"
#include "jinja/text.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;
typedef qkv__jinja_arguments arguments;

#define METHOD(name) static value method_##name(run *r, value self, const arguments *args)

/* A string as argument i; NULL after a failure, or if it is absent or None. */
static const qkv__jinja_str *string_argument(run *r, const arguments *args, const char *name,
                                             size_t i, value *at)
{
    *at = qkv__jinja_argument(args, name, i);
    if (at->kind == QKV__J_STRING)
        return &at->s;
    if (at->kind != QKV__J_UNDEFINED && at->kind != QKV__J_NONE)
        (void)qkv__jinja_error(r, "a string expected as argument of a string's method, found %s",
                               qkv__jinja_kind_name(*at));
    else if (at->kind == QKV__J_UNDEFINED && i < args->count)
        (void)qkv__jinja_error(r, "\"%.*s\" is undefined", (int)at->s.len, at->s.data);
    return NULL;
}

static value method_strips(run *r, value self, const arguments *args, bool left, bool right)
{
    value chars;
    const qkv__jinja_str *of = string_argument(r, args, NULL, 0, &chars);
    return qkv__jinja_part_of(self, qkv__jinja_strip(&r->pool, self.s, of, left, right));
}

METHOD(strip) { return method_strips(r, self, args, true, true); }
METHOD(lstrip) { return method_strips(r, self, args, true, false); }
METHOD(rstrip) { return method_strips(r, self, args, false, true); }

METHOD(upper) { NO_ARGUMENTS; return qkv__jinja_change_case(r, self, qkv__jinja_upper); }
METHOD(lower) { NO_ARGUMENTS; return qkv__jinja_change_case(r, self, qkv__jinja_lower); }
METHOD(title) { NO_ARGUMENTS; return qkv__jinja_change_case(r, self, qkv__jinja_title); }
METHOD(capitalize)
{
    NO_ARGUMENTS;
    return qkv__jinja_change_case(r, self, qkv__jinja_capitalize);
}

static bool has_affix(run *r, value self, qkv__jinja_str affix, bool end)
{
    (void)qkv__jinja_work(&r->pool, affix.len / 16);
    return end ? qkv__jinja_ends(self.s, affix) : qkv__jinja_begins(self.s, affix);
}

/* The argument may be a tuple of strings. */
static value affix(run *r, value self, const arguments *args, bool end)
{
    value v = args->items[0];
    if (v.kind == QKV__J_STRING)
        return qkv__j_bool(has_affix(r, self, v.s, end));
    if (v.kind != QKV__J_LIST || v.list->kind != QKV__J_TUPLE)
        return qkv__jinja_error(r, "a string or a tuple of strings expected, found %s",
                                qkv__jinja_kind_name(v));
    for (size_t i = 0; i < v.list->count; i++)
        if (v.list->items[i].kind == QKV__J_STRING &&
            has_affix(r, self, v.list->items[i].s, end))
            return qkv__j_bool(true);
    return qkv__j_bool(false);
}

METHOD(startswith) { return affix(r, self, args, false); }
METHOD(endswith) { return affix(r, self, args, true); }

static value without_affix(run *r, value self, const arguments *args, bool end)
{
    value v;
    const qkv__jinja_str *s = string_argument(r, args, NULL, 0, &v);
    qkv__jinja_str out = self.s;
    if (s && has_affix(r, self, *s, end)) {
        out.data += end ? 0 : s->len;
        out.len -= s->len;
    }
    return qkv__jinja_part_of(self, out);
}

METHOD(removeprefix) { return without_affix(r, self, args, false); }
METHOD(removesuffix) { return without_affix(r, self, args, true); }

METHOD(replace)
{
    value from, to, most = qkv__jinja_argument(args, "count", 2);
    const qkv__jinja_str *old = string_argument(r, args, NULL, 0, &from);
    const qkv__jinja_str *with = string_argument(r, args, NULL, 1, &to);
    if (!old || !with)
        return r->status ? self : qkv__jinja_error(r, "replace: two strings expected");
    return qkv__jinja_replace(r, self.s, *old, *with,
                              most.kind == QKV__J_INT && most.i >= 0 ? (size_t)most.i : SIZE_MAX);
}

METHOD(count)
{
    value v;
    int64_t count = 0;
    const qkv__jinja_str *s = string_argument(r, args, NULL, 0, &v);
    if (!s || !s->len)
        return r->status ? self : qkv__jinja_error(r, "count: a string that is not empty expected");
    for (size_t at = 0; (at = qkv__jinja_index(&r->pool, self.s, *s, at)) != SIZE_MAX; at += s->len)
        count++;
    return qkv__j_int(count);
}

/* The place of a string in characters, from one end; -1: it is not there. */
static value place(run *r, value self, const arguments *args, bool from_end)
{
    value v;
    size_t found = SIZE_MAX;
    const qkv__jinja_str *s = string_argument(r, args, NULL, 0, &v);
    if (!s)
        return r->status ? self : qkv__jinja_error(r, "find: a string expected");
    for (size_t at = 0; (at = qkv__jinja_index(&r->pool, self.s, *s, at)) != SIZE_MAX; at++) {
        found = at;
        if (!from_end)
            break;
    }
    return qkv__j_int(found == SIZE_MAX ? -1 : (int64_t)qkv__jinja_length(
                                                   &r->pool, (qkv__jinja_str){self.s.data, found}));
}

METHOD(find) { return place(r, self, args, false); }
METHOD(rfind) { return place(r, self, args, true); }

/* ---- split ----------------------------------------------------------------------------------- */

static void push_part(run *r, qkv__jinja_list *out, value self, size_t from, size_t to)
{
    qkv__jinja_str s = {self.s.data + from, to - from};
    (void)qkv__jinja_work(&r->pool, 1);
    (void)qkv__jinja_push(&r->pool, out, qkv__jinja_part_of(self, s));
}

/* At white space; empty parts are left out. */
static void split_spaces(run *r, value self, size_t most, qkv__jinja_list *out)
{
    qkv__jinja_str rest = self.s;
    while (!r->pool.full) {
        int32_t cp = 0;
        size_t end = 0;
        rest = qkv__jinja_strip(&r->pool, rest, NULL, true, false);
        if (!rest.len)
            return;
        size_t from = (size_t)(rest.data - self.s.data);
        if (!most--) {
            rest = qkv__jinja_strip(&r->pool, rest, NULL, false, true);
            push_part(r, out, self, from, from + rest.len);
            return;
        }
        while (end < rest.len) {
            size_t n = qkv__utf8_next(rest.data + end, rest.len - end, &cp);
            if (qkv__jinja_space(cp))
                break;
            end += n;
        }
        push_part(r, out, self, from, from + end);
        rest.data += end;
        rest.len -= end;
    }
}

/* From the right end: the places first, which are then read backwards. */
static void split_right(run *r, value self, qkv__jinja_str by, size_t most, qkv__jinja_list *out)
{
    size_t end = self.s.len, begin = end >= by.len ? end - by.len + 1 : 0;
    for (; begin > 0 && most && qkv__jinja_work(&r->pool, by.len / 16); begin--) {
        size_t at = begin - 1;
        if (at + by.len > end || memcmp(self.s.data + at, by.data, by.len) != 0)
            continue;
        push_part(r, out, self, at + by.len, end);
        end = at;
        most--;
    }
    push_part(r, out, self, 0, end);
    for (size_t i = 0; out && i < out->count / 2; i++) {
        value v = out->items[i];
        out->items[i] = out->items[out->count - 1 - i];
        out->items[out->count - 1 - i] = v;
    }
}

static value split_string(run *r, value self, const arguments *args, bool right)
{
    value by, limit = qkv__jinja_argument(args, "maxsplit", 1);
    const qkv__jinja_str *s = string_argument(r, args, "sep", 0, &by);
    size_t most = limit.kind == QKV__J_INT && limit.i >= 0 ? (size_t)limit.i : SIZE_MAX, at = 0;
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
    if (r->status || (s && !s->len) || (!s && right && most != SIZE_MAX))
        return r->status ? self : qkv__jinja_error(r, "split: a separator expected");
    if (!s || right)
        (void)qkv__jinja_work(&r->pool, self.s.len / 4);
    if (!s) {
        split_spaces(r, self, most, out);
        return qkv__jinja_of_list(r, out);
    }
    if (right) {
        split_right(r, self, *s, most, out);
        return qkv__jinja_of_list(r, out);
    }
    for (; most && !r->pool.full; most--) {
        size_t found = qkv__jinja_index(&r->pool, self.s, *s, at);
        if (found == SIZE_MAX)
            break;
        push_part(r, out, self, at, found);
        at = found + s->len;
    }
    push_part(r, out, self, at, self.s.len);
    return qkv__jinja_of_list(r, out);
}

METHOD(split) { return split_string(r, self, args, false); }
METHOD(rsplit) { return split_string(r, self, args, true); }

METHOD(splitlines)
{
    value keep = qkv__jinja_argument(args, "keepends", 0);
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
    for (size_t at = 0, next; at < self.s.len && !r->pool.full; at = next) {
        size_t end = qkv__jinja_line_end(&r->pool, self.s, at, &next);
        push_part(r, out, self, at, qkv__jinja_truth(keep) ? next : end);
    }
    return qkv__jinja_of_list(r, out);
}

METHOD(join)
{
    const qkv__jinja_list *list = qkv__jinja_iterate(r, args->items[0]);
    qkv__jinja_text out = {.pool = &r->pool};
    for (size_t i = 0; list && i < list->count && !r->pool.full; i++) {
        value v = list->items[i];
        if (v.kind != QKV__J_STRING)
            return qkv__jinja_error(r, "join: strings expected, found %s", qkv__jinja_kind_name(v));
        if (i)
            qkv__jinja_add(&out, self.s.data, self.s.len);
        qkv__jinja_add(&out, v.s.data, v.s.len);
    }
    return qkv__jinja_done(&out);
}

/* Cuts ":d" or ":s" off name, and says whether there was a ":d". */
static bool wants_integer(qkv__jinja_str *name)
{
    const bool typed = name->len >= 2 && name->data[name->len - 2] == ':';
    const char type = typed ? name->data[name->len - 1] : 0;
    if (type == 'd' || type == 's')
        name->len -= 2;
    return type == 'd';
}

/* "{} and {}".format(..), with {0}, {name} and {name:d}. */
METHOD(format)
{
    qkv__jinja_text out = {.pool = &r->pool};
    const qkv__jinja_str s = self.s;
    size_t next = 0;
    for (size_t i = 0; i < s.len && !r->status; i++) {
        const char c = s.data[i];
        if ((c == '{' || c == '}') && i + 1 < s.len && s.data[i + 1] == c) {
            qkv__jinja_add(&out, s.data + i++, 1);
            continue;
        }
        if (c != '{') {
            qkv__jinja_add(&out, s.data + i, 1);
            continue;
        }
        size_t end = qkv__jinja_index(&r->pool, s, (qkv__jinja_str){"}", 1}, i);
        qkv__jinja_str name = {s.data + i + 1, end == SIZE_MAX ? 0 : end - i - 1};
        const bool integer = wants_integer(&name);
        value key = qkv__j_str(name.data, name.len), v = qkv__j_undefined(name);
        bool digit = name.len == 1 && *name.data >= '0' && *name.data <= '9';
        const value *named = qkv__jinja_find(&r->pool, &args->named, key);
        size_t at = digit ? (size_t)(*name.data - '0') : next;
        if (named)
            v = *named;
        else if ((!name.len || digit) && at < args->count)
            v = args->items[at];
        if (end == SIZE_MAX || (v.kind == QKV__J_UNDEFINED && !named))
            return qkv__jinja_error(r, "format: {%.*s} has no value", (int)name.len, name.data);
        if (integer && v.kind != QKV__J_INT)
            return qkv__jinja_error(r, "format: {%.*s:d}: an integer expected, found %s",
                                    (int)name.len, name.data, qkv__jinja_kind_name(v));
        next += !name.len;
        qkv__jinja_write(r, &out, v);
        i = end;
    }
    return qkv__jinja_done(&out);
}

/* Whether all characters, of which there must be one, are of a kind. */
static bool all_are(run *r, qkv__jinja_str s, bool letters, bool digits)
{
    int32_t cp;
    (void)qkv__jinja_work(&r->pool, s.len / 4);
    for (size_t i = 0; i < s.len;) {
        i += qkv__utf8_next(s.data + i, s.len - i, &cp);
        qkv__char_class class = qkv__class_of(cp);
        if (!(letters && class == QKV__LETTER) && !(digits && class == QKV__NUMBER))
            return false;
    }
    return s.len > 0;
}

METHOD(isdigit) { NO_ARGUMENTS; return qkv__j_bool(all_are(r, self.s, false, true)); }
METHOD(isalpha) { NO_ARGUMENTS; return qkv__j_bool(all_are(r, self.s, true, false)); }
METHOD(isalnum) { NO_ARGUMENTS; return qkv__j_bool(all_are(r, self.s, true, true)); }
METHOD(isspace)
{
    NO_ARGUMENTS;
    return qkv__j_bool(self.s.len && !qkv__jinja_strip(&r->pool, self.s, NULL, true, false).len);
}

const qkv__jinja_row qkv__jinja_string_methods[] = {
    {"capitalize", method_capitalize, 0, 0, {NULL}},
    {"count", method_count, 1, 1, {NULL}},
    {"endswith", method_endswith, 1, 1, {NULL}},
    {"find", method_find, 1, 1, {NULL}},
    {"format", method_format, 0, 100, {"*"}},
    {"isalnum", method_isalnum, 0, 0, {NULL}},
    {"isalpha", method_isalpha, 0, 0, {NULL}},
    {"isdigit", method_isdigit, 0, 0, {NULL}},
    {"isspace", method_isspace, 0, 0, {NULL}},
    {"join", method_join, 1, 1, {NULL}},
    {"lower", method_lower, 0, 0, {NULL}},
    {"lstrip", method_lstrip, 0, 1, {NULL}},
    {"removeprefix", method_removeprefix, 1, 1, {NULL}},
    {"removesuffix", method_removesuffix, 1, 1, {NULL}},
    {"replace", method_replace, 2, 3, {NULL}},
    {"rfind", method_rfind, 1, 1, {NULL}},
    {"rsplit", method_rsplit, 0, 2, {"sep", "maxsplit"}},
    {"rstrip", method_rstrip, 0, 1, {NULL}},
    {"split", method_split, 0, 2, {"sep", "maxsplit"}},
    {"splitlines", method_splitlines, 0, 1, {"keepends"}},
    {"startswith", method_startswith, 1, 1, {NULL}},
    {"strip", method_strip, 0, 1, {NULL}},
    {"title", method_title, 0, 0, {NULL}},
    {"upper", method_upper, 0, 0, {NULL}},
    {NULL, NULL, 0, 0, {NULL}}};
