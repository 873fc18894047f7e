/* functions.c - functions that a template may call, and the methods of a dict. */
#include <string.h>
#include <time.h>

#include "jinja/run.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;
typedef qkv__jinja_arguments arguments;

#define FUNCTION(name) static value function_##name(run *r, value self, const arguments *args)
enum { MOST_RANGE = 100000, LONGEST_TIME = 4096 }; /* MOST_RANGE: as in jinja2's sandbox */

FUNCTION(range)
{
    int64_t bounds[3] = {0, 0, 1};
    (void)self;
    for (size_t i = 0; i < args->count; i++) {
        if (args->items[i].kind != QKV__J_INT)
            return qkv__jinja_error(r, "range: an integer expected, found %s",
                                    qkv__jinja_kind_name(args->items[i]));
        bounds[args->count == 1 ? 1 : i] = args->items[i].i;
    }
    qkv__jinja_list *list = qkv__jinja_list_new(&r->pool, QKV__J_RANGE);
    int64_t step = bounds[2], at = bounds[0], end = bounds[1];
    if (!step)
        return qkv__jinja_error(r, "range: the step is 0");
    while ((step > 0 ? at < end : at > end) && !r->pool.full) {
        if (list && list->count == MOST_RANGE)
            return qkv__jinja_error(r, "range: at most %d numbers expected", MOST_RANGE);
        (void)qkv__jinja_push(&r->pool, list, qkv__j_int(at));
        if (step > 0 ? at > INT64_MAX - step : at < INT64_MIN - step)
            break;
        at += step;
    }
    return qkv__jinja_of_list(r, list);
}

/* The entries of a dict, then the named arguments. */
static value new_dict(run *r, const arguments *args, qkv__jinja_kind kind)
{
    qkv__jinja_dict *d = qkv__jinja_dict_new(&r->pool);
    if (args->count && args->items[0].kind != QKV__J_DICT)
        return qkv__jinja_error(r, "a dict expected, found %s",
                                qkv__jinja_kind_name(args->items[0]));
    for (size_t k = 0; k < 2; k++) {
        const qkv__jinja_dict *from = k ? &args->named : args->count ? args->items[0].dict : NULL;
        for (size_t i = 0; from && i < from->count; i++)
            (void)qkv__jinja_set(&r->pool, d, from->keys[i], from->values[i]);
    }
    return d && qkv__jinja_check(r) ? (value){.kind = kind, .dict = d} : qkv__j_none();
}

FUNCTION(dict) { return (void)self, new_dict(r, args, QKV__J_DICT); }
FUNCTION(namespace) { return (void)self, new_dict(r, args, QKV__J_NAMESPACE); }

FUNCTION(raise_exception)
{
    qkv__jinja_str s = qkv__jinja_string(r, args->items[0]);
    (void)self;
    return qkv__jinja_error(r, "the template refuses this: %.*s", (int)(s.len < 300 ? s.len : 300),
                            s.data);
}

FUNCTION(strftime_now)
{
    char format[256], text[LONGEST_TIME];
    qkv__jinja_str s = qkv__jinja_string(r, args->items[0]);
    time_t now = (time_t)r->now;
    struct tm parts;
    (void)self;
    if (s.len >= sizeof format || memchr(s.data, 0, s.len))
        return qkv__jinja_error(r, "strftime_now: a format of at most %zu bytes expected",
                                sizeof format - 1);
    memcpy(format, s.data, s.len);
    format[s.len] = 0;
    if (!localtime_r(&now, &parts))
        return qkv__jinja_error(r, "strftime_now: there is no time");
    size_t len = strftime(text, sizeof text, format, &parts);
    char *kept = qkv__jinja_alloc(&r->pool, len + 1);
    if (!kept)
        return qkv__j_none();
    memcpy(kept, text, len);
    return qkv__j_str(kept, len);
}

const qkv__jinja_row qkv__jinja_functions[] = {
    {"dict", function_dict, 0, 1, {"*"}},
    {"namespace", function_namespace, 0, 1, {"*"}},
    {"raise_exception", function_raise_exception, 1, 1, {NULL}},
    {"range", function_range, 1, 3, {NULL}},
    {"strftime_now", function_strftime_now, 1, 1, {NULL}},
    {NULL, NULL, 0, 0, {NULL}}};

/* ---- methods of a dict ----------------------------------------------------------------------- */

FUNCTION(get)
{
    const value *found = qkv__jinja_find(&r->pool, self.dict, args->items[0]);
    return found ? *found : args->count > 1 ? args->items[1] : qkv__j_none();
}

static value dict_view(run *r, const value *of, size_t count)
{
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_VIEW);
    for (size_t i = 0; i < count && !r->pool.full; i++)
        (void)qkv__jinja_push(&r->pool, out, of[i]);
    return qkv__jinja_of_list(r, out);
}

FUNCTION(keys) { return (void)args, dict_view(r, self.dict->keys, self.dict->count); }
FUNCTION(values) { return (void)args, dict_view(r, self.dict->values, self.dict->count); }
FUNCTION(items) { return (void)args, qkv__jinja_entries(r, self.dict, QKV__J_VIEW); }
FUNCTION(copy) { return (void)args, (void)r, self; } /* it cannot be changed */

const qkv__jinja_row qkv__jinja_dict_methods[] = {
    {"copy", function_copy, 0, 0, {NULL}},
    {"get", function_get, 1, 2, {NULL}},
    {"items", function_items, 0, 0, {NULL}},
    {"keys", function_keys, 0, 0, {NULL}},
    {"values", function_values, 0, 0, {NULL}},
    {NULL, NULL, 0, 0, {NULL}}};
