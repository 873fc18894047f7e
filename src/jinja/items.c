/* items.c - what is in a value: attributes, items, slices, `in`. */
#include "jinja/run.h"
#include "jinja/text.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;

static value loop_attribute(run *r, const qkv__jinja_loop *l, qkv__jinja_str name)
{
    const size_t i = l->index, last = l->count - 1;
    const struct { const char *name; value v; } all[] = {
        {"index", qkv__j_int((int64_t)i + 1)}, {"index0", qkv__j_int((int64_t)i)},
        {"revindex", qkv__j_int((int64_t)(last - i) + 1)},
        {"revindex0", qkv__j_int((int64_t)(last - i))}, {"first", qkv__j_bool(i == 0)},
        {"last", qkv__j_bool(i == last)}, {"length", qkv__j_int((int64_t)l->count)},
        {"depth", qkv__j_int(1)}, {"depth0", qkv__j_int(0)}, /* of recursive loops alone */
        {"previtem", i > 0 ? l->items[i - 1] : qkv__j_undefined(name)},
        {"nextitem", i < last ? l->items[i + 1] : qkv__j_undefined(name)}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (qkv__jinja_is(name, all[k].name))
            return all[k].v;
    return qkv__jinja_error(r, "loop.%.*s is not known", (int)name.len, name.data);
}

value qkv__jinja_entries(run *r, const qkv__jinja_dict *d, qkv__jinja_list_kind kind)
{
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, kind);
    for (size_t i = 0; i < d->count && !r->pool.full; i++) {
        qkv__jinja_list *pair = qkv__jinja_list_new(&r->pool, QKV__J_TUPLE);
        (void)qkv__jinja_push(&r->pool, pair, d->keys[i]);
        (void)qkv__jinja_push(&r->pool, pair, d->values[i]);
        (void)qkv__jinja_push(&r->pool, out, qkv__jinja_of_list(r, pair));
    }
    return qkv__jinja_of_list(r, out);
}

value qkv__jinja_attribute(run *r, value self, qkv__jinja_str name)
{
    const value key = qkv__j_str(name.data, name.len);
    const qkv__jinja_row *row = NULL;
    if (self.kind == QKV__J_UNDEFINED)
        return qkv__jinja_error(r, "\"%.*s\" is undefined, and has no .%.*s", (int)self.s.len,
                                self.s.data, (int)name.len, name.data);
    if (self.kind == QKV__J_LOOP)
        return loop_attribute(r, self.loop, name);
    if (self.kind == QKV__J_STRING)
        row = qkv__jinja_row_of(r->t->library->string_methods, name);
    if (self.kind == QKV__J_DICT)
        row = qkv__jinja_row_of(r->t->library->dict_methods, name);
    if (row)
        return qkv__jinja_bound(r, row, self);
    const value *found = self.kind == QKV__J_DICT || self.kind == QKV__J_NAMESPACE
                             ? qkv__jinja_find(&r->pool, self.dict, key) : NULL;
    return found ? *found : qkv__j_undefined(name);
}

/* The place of an index from either end; false: there is none. */
static bool index_of(int64_t index, size_t count, size_t *out)
{
    if (index < 0)
        index += (int64_t)count;
    *out = (size_t)index;
    return index >= 0 && *out < count;
}

value qkv__jinja_item(run *r, value self, value key)
{
    static const qkv__jinja_str element = {"element", 7};
    size_t at;
    bool number = key.kind == QKV__J_INT || key.kind == QKV__J_BOOL;
    if (self.kind == QKV__J_UNDEFINED)
        return qkv__jinja_attribute(r, self, key.kind == QKV__J_STRING ? key.s : element);
    if (self.kind == QKV__J_DICT) {
        const value *found = qkv__jinja_find(&r->pool, self.dict, key);
        if (found)
            return *found;
    }
    if (self.kind == QKV__J_LIST && number && self.list->kind <= QKV__J_RANGE)
        return index_of(key.i, self.list->count, &at) ? self.list->items[at]
                                                      : qkv__j_undefined(element);
    if (self.kind == QKV__J_STRING && number) {
        if (!index_of(key.i, qkv__jinja_length(&r->pool, self.s), &at))
            return qkv__j_undefined(element);
        size_t from = qkv__jinja_offset(&r->pool, self.s, at);
        qkv__jinja_str rest = {self.s.data + from, self.s.len - from};
        rest.len = qkv__jinja_offset(&r->pool, rest, 1);
        return qkv__jinja_part_of(self, rest);
    }
    return key.kind == QKV__J_STRING ? qkv__jinja_attribute(r, self, key.s)
                                     : qkv__j_undefined(element);
}

bool qkv__jinja_contains(run *r, value in, value v)
{
    if (in.kind == QKV__J_STRING) {
        if (v.kind != QKV__J_STRING) {
            (void)qkv__jinja_error(r, "%s cannot be in a string", qkv__jinja_kind_name(v));
            return false;
        }
        return qkv__jinja_index(&r->pool, in.s, v.s, 0) != SIZE_MAX;
    }
    if (in.kind == QKV__J_DICT)
        return qkv__jinja_find(&r->pool, in.dict, v) != NULL;
    const qkv__jinja_list *list = qkv__jinja_iterate(r, in);
    for (size_t i = 0; list && i < list->count && !r->pool.full; i++)
        if (qkv__jinja_equal(&r->pool, list->items[i], v, 0))
            return true;
    return false;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static int64_t slice_bound(value v, int64_t count, int64_t step, int64_t initial)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1, i = v.i;
    if (v.kind == QKV__J_NONE)
        return initial;
    if (i < 0)
        i = i < -count ? low : i + count;
    return i < low ? low : i > high ? high : i;
}

static value slice_string(run *r, value self, int64_t from, int64_t to, int64_t step)
{
    qkv__jinja_text out = {.pool = &r->pool};
    const qkv__jinja_list *all = step == 1 ? NULL : qkv__jinja_iterate(r, self);
    if (step == 1 && from < to) {
        size_t begin = qkv__jinja_offset(&r->pool, self.s, (size_t)from);
        qkv__jinja_str rest = {self.s.data + begin, self.s.len - begin};
        qkv__jinja_add(&out, rest.data, qkv__jinja_offset(&r->pool, rest, (size_t)(to - from)));
    }
    for (; all && (step > 0 ? from < to : from > to); from += step)
        qkv__jinja_add(&out, all->items[from].s.data, all->items[from].s.len);
    return qkv__jinja_part_of(self, qkv__jinja_done(&out).s);
}

value qkv__jinja_slice(run *r, value self, const value bounds[3])
{
    bool string = self.kind == QKV__J_STRING;
    if (!string && (self.kind != QKV__J_LIST || self.list->kind > QKV__J_RANGE))
        return self.kind == QKV__J_UNDEFINED
                   ? qkv__jinja_error(r, "\"%.*s\" is undefined", (int)self.s.len, self.s.data)
                   : qkv__jinja_error(r, "%s has no slices", qkv__jinja_kind_name(self));
    for (size_t i = 0; i < 3; i++)
        if (bounds[i].kind != QKV__J_NONE && bounds[i].kind != QKV__J_INT)
            return qkv__jinja_error(r, "an integer expected in a slice, found %s",
                                    qkv__jinja_kind_name(bounds[i]));
    size_t length = string ? qkv__jinja_length(&r->pool, self.s) : self.list->count;
    int64_t count = (int64_t)length, step = bounds[2].kind == QKV__J_NONE ? 1 : bounds[2].i;
    if (!step)
        return qkv__jinja_error(r, "the step of a slice is 0");
    if (step > count + 1 || step < -count - 1) /* only the first one is met */
        step = step > 0 ? count + 1 : -count - 1;
    int64_t from = slice_bound(bounds[0], count, step, step > 0 ? 0 : count - 1);
    int64_t to = slice_bound(bounds[1], count, step, step > 0 ? count : -1);
    if (string)
        return slice_string(r, self, from, to, step);
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, self.list->kind);
    for (; (step > 0 ? from < to : from > to) && !r->pool.full; from += step)
        (void)qkv__jinja_push(&r->pool, out, self.list->items[from]);
    return qkv__jinja_of_list(r, out);
}
