/* value.c - lists, dicts, and what Python finds true, equal, or smaller. */
#include "jinja/value.h"

#include <string.h>

/* Room for one more of elements that begin to fill an array. */
static void *pool_grow(qkv__jinja_pool *p, void *old, size_t count, size_t capacity, size_t size)
{
    void *out = qkv__jinja_alloc(p, capacity * size);
    if (out && count)
        memcpy(out, old, count * size);
    return out;
}

/* ---- values ---------------------------------------------------------------------------------- */

qkv__jinja_value qkv__j_text(const char *text) { return qkv__j_str(text, strlen(text)); }

qkv__jinja_value qkv__j_undefined(qkv__jinja_str name)
{
    return (qkv__jinja_value){.kind = QKV__J_UNDEFINED, .s = name};
}

const char *qkv__jinja_kind_name(qkv__jinja_value v)
{
    static const char *const kinds[] = {
        [QKV__J_UNDEFINED] = "an undefined value", [QKV__J_NONE] = "None",
        [QKV__J_BOOL] = "a boolean", [QKV__J_INT] = "an integer", [QKV__J_REAL] = "a number",
        [QKV__J_STRING] = "a string", [QKV__J_DICT] = "a dict", [QKV__J_NAMESPACE] = "a namespace",
        [QKV__J_LOOP] = "the loop", [QKV__J_FUNCTION] = "a function", [QKV__J_MACRO] = "a macro"};
    static const char *const lists[] = {
        [QKV__J_PLAIN] = "a list", [QKV__J_TUPLE] = "a tuple", [QKV__J_RANGE] = "a range",
        [QKV__J_VIEW] = "a view of a dict", [QKV__J_GENERATOR] = "a generator"};
    return v.kind == QKV__J_LIST ? lists[v.list->kind] : kinds[v.kind];
}

/* ---- lists and dicts ------------------------------------------------------------------------- */

qkv__jinja_list *qkv__jinja_list_new(qkv__jinja_pool *p, qkv__jinja_list_kind kind)
{
    qkv__jinja_list *list = qkv__jinja_alloc(p, sizeof *list);
    if (list)
        list->kind = kind;
    return list;
}

bool qkv__jinja_push(qkv__jinja_pool *p, qkv__jinja_list *list, qkv__jinja_value v)
{
    if (!list)
        return false;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        qkv__jinja_value *items = pool_grow(p, list->items, list->count, capacity, sizeof *items);
        if (!items)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = v;
    return true;
}

qkv__jinja_dict *qkv__jinja_dict_new(qkv__jinja_pool *p)
{
    return qkv__jinja_alloc(p, sizeof(qkv__jinja_dict));
}

const qkv__jinja_value *qkv__jinja_find(qkv__jinja_pool *p, const qkv__jinja_dict *d,
                                        qkv__jinja_value key)
{
    (void)qkv__jinja_work(p, d->count / 4);
    for (size_t i = 0; i < d->count; i++)
        if (qkv__jinja_equal(p, d->keys[i], key, 0))
            return &d->values[i];
    return NULL;
}

bool qkv__jinja_set(qkv__jinja_pool *p, qkv__jinja_dict *d, qkv__jinja_value key,
                    qkv__jinja_value v)
{
    if (!d || !qkv__jinja_work(p, d->count / 4))
        return false;
    for (size_t i = 0; i < d->count; i++)
        if (qkv__jinja_equal(p, d->keys[i], key, 0)) {
            d->values[i] = v;
            return true;
        }
    if (d->count == d->capacity) {
        size_t capacity = d->capacity ? d->capacity * 2 : 4;
        qkv__jinja_value *keys = pool_grow(p, d->keys, d->count, capacity, sizeof *keys);
        qkv__jinja_value *values = pool_grow(p, d->values, d->count, capacity, sizeof *values);
        if (!keys || !values)
            return false;
        d->keys = keys;
        d->values = values;
        d->capacity = capacity;
    }
    d->keys[d->count] = key;
    d->values[d->count++] = v;
    return true;
}

void qkv__jinja_add(qkv__jinja_text *t, const char *data, size_t len)
{
    if (len > t->capacity - t->len) {
        size_t need = t->len + len; /* both are in memory */
        size_t capacity = need < 32 ? 64 : need > t->pool->limit ? need : need * 2;
        char *grown = pool_grow(t->pool, t->data, t->len, capacity, 1);
        if (!grown)
            return;
        t->data = grown;
        t->capacity = capacity;
    }
    if (len)
        memcpy(t->data + t->len, data, len);
    t->len += len;
}

void qkv__jinja_puts(qkv__jinja_text *t, const char *text)
{
    qkv__jinja_add(t, text, strlen(text));
}

/* ---- true, equal, smaller -------------------------------------------------------------------- */

bool qkv__jinja_truth(qkv__jinja_value v)
{
    switch (v.kind) {
    case QKV__J_UNDEFINED:
    case QKV__J_NONE: return false;
    case QKV__J_BOOL:
    case QKV__J_INT: return v.i != 0;
    case QKV__J_REAL: return v.r != 0;
    case QKV__J_STRING: return v.s.len > 0;
    case QKV__J_LIST: return v.list->kind == QKV__J_GENERATOR || v.list->count > 0;
    case QKV__J_DICT: return v.dict->count > 0;
    default: return true;
    }
}

static bool lists_equal(qkv__jinja_pool *p, const qkv__jinja_list *a, const qkv__jinja_list *b,
                        size_t depth)
{
    if (a->kind != b->kind || a->kind >= QKV__J_VIEW)
        return a == b;
    bool equal = a->count == b->count;
    for (size_t i = 0; i < a->count && equal; i++)
        equal = qkv__jinja_equal(p, a->items[i], b->items[i], depth + 1);
    return equal;
}

static bool dicts_equal(qkv__jinja_pool *p, const qkv__jinja_dict *a, const qkv__jinja_dict *b,
                        size_t depth)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; i < a->count && equal; i++) {
        const qkv__jinja_value *other = qkv__jinja_find(p, b, a->keys[i]);
        equal = other && qkv__jinja_equal(p, a->values[i], *other, depth + 1);
    }
    return equal;
}

bool qkv__jinja_equal(qkv__jinja_pool *p, qkv__jinja_value a, qkv__jinja_value b, size_t depth)
{
    if (depth > QKV__JINJA_NESTED || !qkv__jinja_work(p, 1))
        return false;
    if (qkv__jinja_number(a) && qkv__jinja_number(b)) {
        if (a.kind != QKV__J_REAL && b.kind != QKV__J_REAL)
            return a.i == b.i;
        return qkv__jinja_real(a) >= qkv__jinja_real(b) && qkv__jinja_real(a) <= qkv__jinja_real(b);
    }
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case QKV__J_UNDEFINED:
    case QKV__J_NONE: return true;
    case QKV__J_STRING:
        return a.s.len == b.s.len && qkv__jinja_work(p, a.s.len / 16) && qkv__jinja_same(a.s, b.s);
    case QKV__J_LIST: return lists_equal(p, a.list, b.list, depth);
    case QKV__J_DICT: return dicts_equal(p, a.dict, b.dict, depth);
    default: return a.dict == b.dict; /* the same object */
    }
}

bool qkv__jinja_compare(qkv__jinja_pool *p, qkv__jinja_value a, qkv__jinja_value b, size_t depth,
                         int *out)
{
    *out = 0;
    (void)qkv__jinja_work(p, 1);
    if (qkv__jinja_number(a) && qkv__jinja_number(b)) {
        if (a.kind != QKV__J_REAL && b.kind != QKV__J_REAL)
            *out = (a.i > b.i) - (a.i < b.i);
        else
            *out = (qkv__jinja_real(a) > qkv__jinja_real(b)) -
                   (qkv__jinja_real(a) < qkv__jinja_real(b));
        return true;
    }
    if (a.kind == QKV__J_STRING && b.kind == QKV__J_STRING) {
        *out = qkv__jinja_order(p, a.s, b.s);
        return true;
    }
    if (a.kind != QKV__J_LIST || b.kind != QKV__J_LIST || a.list->kind != b.list->kind ||
        a.list->kind > QKV__J_TUPLE || depth > QKV__JINJA_NESTED)
        return false;
    size_t both = a.list->count < b.list->count ? a.list->count : b.list->count;
    for (size_t i = 0; i < both; i++)
        if (!qkv__jinja_equal(p, a.list->items[i], b.list->items[i], depth + 1))
            return qkv__jinja_compare(p, a.list->items[i], b.list->items[i], depth + 1, out);
    *out = (a.list->count > b.list->count) - (a.list->count < b.list->count);
    return true;
}
