/* run.c - what all parts of a rendering use: failures, limits, rows of tables, iterating. */
#include "jinja/run.h"

#include <stdio.h>

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;

enum { DEEPEST = 1000 }; /* calls, blocks and operators within each other */

value qkv__jinja_error(run *r, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (!r->status)
        r->status = qkv__jinja_fail(r->t, r->line, "%s", what);
    return qkv__j_none();
}

bool qkv__jinja_check(run *r)
{
    if (r->status || !r->pool.full)
        return !r->status;
    if (qkv__arena_failed(r->pool.arena))
        r->status = qkv_fail(r->ctx, QKV_E_MEMORY, "%s: out of memory for the template's text",
                             r->t->name);
    else
        (void)qkv__jinja_error(r, "the template is stopped: it takes more than %zu MB or "
                               "%zu million steps", r->pool.limit >> 20, r->pool.most / 1000000);
    return false;
}

value qkv__jinja_of_list(run *r, qkv__jinja_list *list)
{
    if (!list || !qkv__jinja_check(r))
        return qkv__j_none();
    return (value){.kind = QKV__J_LIST, .list = list};
}

qkv__jinja_str qkv__jinja_string(run *r, value v)
{
    qkv__jinja_text text = {.pool = &r->pool};
    if (v.kind == QKV__J_STRING)
        return v.s;
    qkv__jinja_write(r, &text, v);
    return qkv__jinja_done(&text).s;
}

void qkv__jinja_write(run *r, qkv__jinja_text *out, value v)
{
    if (qkv__jinja_print(out, v, false, 0) || !qkv__jinja_check(r))
        return;
    (void)qkv__jinja_error(r, "%s cannot be printed", qkv__jinja_kind_name(v));
}

qkv__jinja_list *qkv__jinja_iterate(run *r, value v)
{
    const bool whole = v.kind == QKV__J_LIST && v.list->kind != QKV__J_GENERATOR;
    qkv__jinja_list *list = whole ? v.list : qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
    if (!list)
        return NULL;
    if (v.kind == QKV__J_LIST && !whole) {
        *list = *v.list;
        list->kind = QKV__J_PLAIN;
        v.list->count = 0;
    } else if (v.kind == QKV__J_DICT) {
        for (size_t i = 0; i < v.dict->count; i++)
            (void)qkv__jinja_push(&r->pool, list, v.dict->keys[i]);
    } else if (v.kind == QKV__J_STRING) {
        for (size_t i = 0, n; i < v.s.len && !r->pool.full; i += n) {
            qkv__jinja_str rest = {v.s.data + i, v.s.len - i};
            n = qkv__jinja_offset(&r->pool, rest, 1);
            (void)qkv__jinja_push(&r->pool, list, qkv__j_str(rest.data, n));
        }
    } else if (!whole && v.kind != QKV__J_UNDEFINED) {
        (void)qkv__jinja_error(r, "%s cannot be iterated over", qkv__jinja_kind_name(v));
        return NULL;
    }
    (void)qkv__jinja_work(&r->pool, list->count);
    return qkv__jinja_check(r) ? list : NULL;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

bool qkv__jinja_push_scope(run *r, qkv__jinja_scope *outer)
{
    qkv__jinja_scope *s = qkv__jinja_alloc(&r->pool, sizeof *s);
    if (!s)
        return qkv__jinja_check(r);
    s->outer = outer;
    r->scope = s;
    return true;
}

const value *qkv__jinja_lookup(run *r, qkv__jinja_str name)
{
    const value key = qkv__j_str(name.data, name.len), *found = NULL;
    for (const qkv__jinja_scope *s = r->scope; s && !found; s = s->outer)
        found = qkv__jinja_find(&r->pool, &s->names, key);
    return found;
}

/* ---- rows of tables -------------------------------------------------------------------------- */

const qkv__jinja_row *qkv__jinja_row_of(const qkv__jinja_row *rows, qkv__jinja_str name)
{
    for (; rows->name; rows++)
        if (qkv__jinja_is(name, rows->name))
            return rows;
    return NULL;
}

const qkv__jinja_row *qkv__jinja_filter_of(const qkv__jinja *t, qkv__jinja_str name)
{
    const qkv__jinja_row *row = qkv__jinja_row_of(t->library->filters, name);
    return row ? row : qkv__jinja_row_of(t->library->list_filters, name);
}

value qkv__jinja_bound(run *r, const qkv__jinja_row *row, value self)
{
    qkv__jinja_method *method = qkv__jinja_alloc(&r->pool, sizeof *method);
    if (!method)
        return qkv__j_none();
    *method = (qkv__jinja_method){row, self};
    return (value){.kind = QKV__J_FUNCTION, .method = method};
}

value qkv__jinja_argument(const qkv__jinja_arguments *args, const char *name, size_t i)
{
    static const qkv__jinja_str absent = {"argument", 8};
    if (i < args->count)
        return args->items[i];
    for (size_t k = 0; name && k < args->named.count; k++)
        if (qkv__jinja_is(args->named.keys[k].s, name))
            return args->named.values[k];
    return qkv__j_undefined(absent);
}

value qkv__jinja_apply(run *r, const qkv__jinja_row *row, const char *what, value self,
                       const qkv__jinja_arguments *args)
{
    size_t given = args->count + args->named.count;
    (void)qkv__jinja_work(&r->pool, 1);
    bool any = row->names[0] && row->names[0][0] == '*';
    if (given < row->least || (!any && given > row->most) || args->count > row->most)
        return qkv__jinja_error(r, "%s%s: %zu to %zu arguments expected, found %zu", what,
                                row->name, row->least, row->most, given);
    for (size_t k = 0; k < args->named.count && !any; k++) {
        const qkv__jinja_str name = args->named.keys[k].s;
        size_t i = 0;
        while (i < 4 && row->names[i] && !qkv__jinja_is(name, row->names[i]))
            i++;
        if (i == 4 || !row->names[i] || i < args->count)
            return qkv__jinja_error(r, "%s%s: the argument %.*s is not known", what, row->name,
                                    (int)name.len, name.data);
    }
    return row->fn(r, self, args);
}

bool qkv__jinja_enter_run(run *r, int line)
{
    (void)qkv__jinja_work(&r->pool, 1);
    if (!qkv__jinja_check(r))
        return false;
    r->line = line;
    if (r->depth >= DEEPEST) {
        (void)qkv__jinja_error(r, "the template is stopped: more than %d calls, blocks and "
                               "operators within each other", DEEPEST);
        return false;
    }
    r->depth++;
    return true;
}
