/* filters_list.c - filters of several values. */
#include <string.h>

#include "jinja/run.h"
#include "jinja/text.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;
typedef qkv__jinja_arguments arguments;

static value of_kind(run *r, const qkv__jinja_list *list, qkv__jinja_list_kind kind)
{
    qkv__jinja_list *out = list ? qkv__jinja_list_new(&r->pool, kind) : NULL;
    if (!out)
        return qkv__jinja_of_list(r, out);
    *out = *list;
    out->kind = kind;
    return qkv__jinja_of_list(r, out);
}

/* v.name for a dotted name or number: "function.name". */
static value dotted(run *r, value v, value name)
{
    if (name.kind != QKV__J_STRING)
        return qkv__jinja_item(r, v, name);
    for (size_t at = 0; at <= name.s.len && !r->status;) {
        size_t dot = qkv__jinja_index(&r->pool, name.s, (qkv__jinja_str){".", 1}, at);
        size_t end = dot == SIZE_MAX ? name.s.len : dot;
        v = qkv__jinja_item(r, v, qkv__j_str(name.s.data + at, end - at));
        at = end + 1;
    }
    return v;
}

/* ---- items ----------------------------------------------------------------------------------- */

FILTER(list) { NO_ARGUMENTS; return of_kind(r, qkv__jinja_iterate(r, self), QKV__J_PLAIN); }

FILTER(items)
{
    static const qkv__jinja_dict none = {0};
    NO_ARGUMENTS;
    if (self.kind != QKV__J_DICT && self.kind != QKV__J_UNDEFINED)
        return qkv__jinja_error(r, "filter items: a dict expected, found %s",
                                qkv__jinja_kind_name(self));
    return qkv__jinja_entries(r, self.kind == QKV__J_DICT ? self.dict : &none, QKV__J_GENERATOR);
}

FILTER(first)
{
    NO_ARGUMENTS;
    const qkv__jinja_list *list = qkv__jinja_iterate(r, self);
    return list && list->count ? list->items[0]
                               : qkv__j_undefined((qkv__jinja_str){"first", 5});
}

FILTER(last)
{
    NO_ARGUMENTS;
    if (self.kind == QKV__J_LIST && self.list->kind == QKV__J_GENERATOR)
        return qkv__jinja_error(r, "filter last: a generator has no last element");
    const qkv__jinja_list *list = qkv__jinja_iterate(r, self);
    return list && list->count ? list->items[list->count - 1]
                               : qkv__j_undefined((qkv__jinja_str){"last", 4});
}

FILTER(join)
{
    value with = qkv__jinja_argument(args, "d", 0);
    value name = qkv__jinja_argument(args, "attribute", 1);
    qkv__jinja_str between = with.kind == QKV__J_UNDEFINED ? (qkv__jinja_str){"", 0}
                                                           : qkv__jinja_string(r, with);
    const qkv__jinja_list *list = qkv__jinja_iterate(r, self);
    qkv__jinja_text out = {.pool = &r->pool};
    for (size_t i = 0; list && i < list->count && !r->status && !r->pool.full; i++) {
        value v = list->items[i];
        if (i)
            qkv__jinja_add(&out, between.data, between.len);
        qkv__jinja_write(r, &out, name.kind == QKV__J_UNDEFINED ? v : dotted(r, v, name));
    }
    return qkv__jinja_done(&out);
}

static value reversed(run *r, value self, qkv__jinja_list_kind kind)
{
    const qkv__jinja_list *list = qkv__jinja_iterate(r, self);
    qkv__jinja_list *out = list ? qkv__jinja_list_new(&r->pool, kind) : NULL;
    for (size_t i = list ? list->count : 0; i > 0 && !r->pool.full; i--)
        (void)qkv__jinja_push(&r->pool, out, list->items[i - 1]);
    return qkv__jinja_of_list(r, out);
}

FILTER(reverse)
{
    NO_ARGUMENTS;
    if (self.kind == QKV__J_STRING) {
        const value none[] = {qkv__j_none(), qkv__j_none(), qkv__j_int(-1)};
        return qkv__jinja_slice(r, self, none);
    }
    return reversed(r, self, QKV__J_GENERATOR);
}

/* ---- in order -------------------------------------------------------------------------------- */

/* What an element is sorted and found equal by. */
static value order_key(run *r, value v, value attribute, bool cased)
{
    if (attribute.kind != QKV__J_UNDEFINED && attribute.kind != QKV__J_NONE)
        v = dotted(r, v, attribute);
    return v.kind == QKV__J_STRING && !cased ? qkv__jinja_change_case(r, v, qkv__jinja_lower) : v;
}

/* Sorts the keys, and the items with them: a merge sort, so that it is stable and quick. */
static void sort_pairs(run *r, value *keys, value *items, size_t count, value *scratch)
{
    size_t half = count / 2, a = 0, b = half, n = 0;
    if (count < 2 || r->status || r->pool.full)
        return;
    sort_pairs(r, keys, items, half, scratch);
    sort_pairs(r, keys + half, items + half, count - half, scratch);
    for (; n < count && !r->status; n++) {
        int order = 0;
        if (a < half && b < count && !qkv__jinja_compare(&r->pool, keys[b], keys[a], 0, &order)) {
            (void)qkv__jinja_error(r, "%s and %s have no order", qkv__jinja_kind_name(keys[a]),
                                   qkv__jinja_kind_name(keys[b]));
            return;
        }
        size_t from = a == half || (b < count && order < 0) ? b++ : a++;
        scratch[2 * n] = keys[from];
        scratch[2 * n + 1] = items[from];
    }
    for (size_t i = 0; i < n; i++) {
        keys[i] = scratch[2 * i];
        items[i] = scratch[2 * i + 1];
    }
    (void)qkv__jinja_work(&r->pool, count);
}

static value sorted(run *r, const qkv__jinja_list *list, value attribute, bool cased, bool reverse)
{
    size_t count = list ? list->count : 0;
    value *keys = qkv__jinja_alloc(&r->pool, (count + 1) * sizeof *keys);
    value *items = qkv__jinja_alloc(&r->pool, (count + 1) * sizeof *items);
    value *scratch = qkv__jinja_alloc(&r->pool, (count + 1) * 2 * sizeof *scratch);
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
    if (!list || !keys || !items || !scratch || !out)
        return qkv__jinja_of_list(r, NULL);
    for (size_t i = 0; i < count; i++) { /* reversed twice, equal elements keep their order */
        items[i] = list->items[reverse ? count - 1 - i : i];
        keys[i] = order_key(r, items[i], attribute, cased);
    }
    sort_pairs(r, keys, items, count, scratch);
    *out = (qkv__jinja_list){.items = items, .count = count, .capacity = count};
    value v = qkv__jinja_of_list(r, out);
    return reverse && v.kind == QKV__J_LIST ? reversed(r, v, QKV__J_PLAIN) : v;
}

FILTER(sort)
{
    value attribute = qkv__jinja_argument(args, "attribute", 2);
    return sorted(r, qkv__jinja_iterate(r, self), attribute,
                  qkv__jinja_truth(qkv__jinja_argument(args, "case_sensitive", 1)),
                  qkv__jinja_truth(qkv__jinja_argument(args, "reverse", 0)));
}

FILTER(dictsort)
{
    value by = qkv__jinja_argument(args, "by", 1);
    bool values = by.kind == QKV__J_STRING && qkv__jinja_is(by.s, "value");
    if (self.kind != QKV__J_DICT)
        return qkv__jinja_error(r, "filter dictsort: a dict expected, found %s",
                                qkv__jinja_kind_name(self));
    value entries = qkv__jinja_entries(r, self.dict, QKV__J_PLAIN);
    return sorted(r, qkv__jinja_iterate(r, entries), qkv__j_int(values),
                  qkv__jinja_truth(qkv__jinja_argument(args, "case_sensitive", 0)),
                  qkv__jinja_truth(qkv__jinja_argument(args, "reverse", 2)));
}

FILTER(unique)
{
    bool cased = qkv__jinja_truth(qkv__jinja_argument(args, "case_sensitive", 0));
    value attribute = qkv__jinja_argument(args, "attribute", 1);
    const qkv__jinja_list *list = qkv__jinja_iterate(r, self);
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_GENERATOR);
    qkv__jinja_list seen = {0};
    for (size_t i = 0; list && i < list->count && !r->status && !r->pool.full; i++) {
        value key = order_key(r, list->items[i], attribute, cased);
        size_t k = 0;
        while (k < seen.count && !qkv__jinja_equal(&r->pool, seen.items[k], key, 0))
            k++;
        if (k < seen.count)
            continue;
        (void)qkv__jinja_push(&r->pool, &seen, key);
        (void)qkv__jinja_push(&r->pool, out, list->items[i]);
    }
    return qkv__jinja_of_list(r, out);
}

static value extreme(run *r, value self, const arguments *args, int sign)
{
    value attribute = qkv__jinja_argument(args, "attribute", 1);
    bool cased = qkv__jinja_truth(qkv__jinja_argument(args, "case_sensitive", 0));
    value all = sorted(r, qkv__jinja_iterate(r, self), attribute, cased, sign > 0);
    return all.kind == QKV__J_LIST && all.list->count
               ? all.list->items[0] : qkv__j_undefined((qkv__jinja_str){"min or max", 10});
}

FILTER(min) { return extreme(r, self, args, -1); }
FILTER(max) { return extreme(r, self, args, 1); }

FILTER(sum)
{
    value name = qkv__jinja_argument(args, "attribute", 0), out = qkv__j_int(0);
    const qkv__jinja_list *list = qkv__jinja_iterate(r, self);
    for (size_t i = 0; list && i < list->count && !r->status; i++) {
        value v = list->items[i];
        out = qkv__jinja_binary(r, (qkv__jinja_str){"+", 1}, out,
                                name.kind == QKV__J_UNDEFINED ? v : dotted(r, v, name));
    }
    return out;
}

/* ---- for each element ------------------------------------------------------------------------ */

/* jinja2 takes all that is false, as None, for an empty list here, and only here. */
static const qkv__jinja_list *elements_of(run *r, value self)
{
    return qkv__jinja_truth(self) ? qkv__jinja_iterate(r, self)
                                  : qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
}

/* Whether an element is kept: by a test with its arguments, or by its truth. */
static bool element_passes(run *r, const qkv__jinja_row *test, value v, const arguments *rest)
{
    return qkv__jinja_truth(test ? qkv__jinja_apply(r, test, "test ", v, rest) : v);
}

static value choose_elements(run *r, value self, const arguments *args, bool attribute, bool keep)
{
    size_t at = attribute;
    const qkv__jinja_row *test = NULL;
    const qkv__jinja_list *list = elements_of(r, self);
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_GENERATOR);
    if (args->count > at) {
        qkv__jinja_str name = qkv__jinja_string(r, args->items[at]);
        test = qkv__jinja_row_of(r->t->library->tests, name);
        if (!test)
            return qkv__jinja_error(r, "test \"%.*s\" is not known", (int)name.len, name.data);
        at++;
    }
    const arguments rest = {args->items + (args->count ? at : 0), args->count - at, {0}};
    for (size_t i = 0; list && i < list->count && !r->status && !r->pool.full; i++) {
        value v = attribute ? dotted(r, list->items[i], args->items[0]) : list->items[i];
        if (element_passes(r, test, v, &rest) == keep)
            (void)qkv__jinja_push(&r->pool, out, list->items[i]);
    }
    return qkv__jinja_of_list(r, out);
}

FILTER(select) { return choose_elements(r, self, args, false, true); }
FILTER(reject) { return choose_elements(r, self, args, false, false); }
FILTER(selectattr) { return choose_elements(r, self, args, true, true); }
FILTER(rejectattr) { return choose_elements(r, self, args, true, false); }

/* map("filter", ..) or map(attribute="name", default=..). */
FILTER(map)
{
    value name = qkv__jinja_argument(args, "attribute", SIZE_MAX);
    value otherwise = qkv__jinja_argument(args, "default", SIZE_MAX);
    const qkv__jinja_row *row = NULL;
    const qkv__jinja_list *list = elements_of(r, self);
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, QKV__J_GENERATOR);
    if (name.kind == QKV__J_UNDEFINED) {
        qkv__jinja_str filter = args->count ? qkv__jinja_string(r, args->items[0])
                                            : (qkv__jinja_str){"", 0};
        row = qkv__jinja_filter_of(r->t, filter);
        if (!row)
            return qkv__jinja_error(r, "filter \"%.*s\" is not known", (int)filter.len,
                                    filter.data);
    }
    const arguments rest = {row ? args->items + 1 : NULL, row ? args->count - 1 : 0,
                            row ? args->named : (qkv__jinja_dict){0}};
    for (size_t i = 0; list && i < list->count && !r->status && !r->pool.full; i++) {
        value v = list->items[i];
        v = row ? qkv__jinja_apply(r, row, "filter ", v, &rest) : dotted(r, v, name);
        if (!row && v.kind == QKV__J_UNDEFINED && otherwise.kind != QKV__J_UNDEFINED)
            v = otherwise;
        (void)qkv__jinja_push(&r->pool, out, v);
    }
    return qkv__jinja_of_list(r, out);
}

const qkv__jinja_row qkv__jinja_list_filters[] = {
    {"dictsort", filter_dictsort, 0, 3, {"case_sensitive", "by", "reverse"}},
    {"first", filter_first, 0, 0, {NULL}},
    {"items", filter_items, 0, 0, {NULL}},
    {"join", filter_join, 0, 2, {"d", "attribute"}},
    {"last", filter_last, 0, 0, {NULL}},
    {"list", filter_list, 0, 0, {NULL}},
    {"map", filter_map, 1, 100, {"*"}},
    {"max", filter_max, 0, 2, {"case_sensitive", "attribute"}},
    {"min", filter_min, 0, 2, {"case_sensitive", "attribute"}},
    {"reject", filter_reject, 0, 100, {NULL}},
    {"rejectattr", filter_rejectattr, 1, 100, {NULL}},
    {"reverse", filter_reverse, 0, 0, {NULL}},
    {"select", filter_select, 0, 100, {NULL}},
    {"selectattr", filter_selectattr, 1, 100, {NULL}},
    {"sort", filter_sort, 0, 3, {"reverse", "case_sensitive", "attribute"}},
    {"sum", filter_sum, 0, 1, {"attribute"}},
    {"unique", filter_unique, 0, 2, {"case_sensitive", "attribute"}},
    {NULL, NULL, 0, 0, {NULL}}};
