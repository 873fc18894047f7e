/* jinja.c - a template as a whole: read, rendered. */
#include "jinja/jinja.h"

#include <string.h>

#include "jinja/run.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;

enum { MEMORY = 64 << 20, LONGEST = 1 << 20 }; /* bytes of the tree; of a template */
enum { MOST_STEPS = 20000000 };                /* of a rendering: a second or two */
static const size_t most_memory = (size_t)256 << 20;

static const qkv__jinja_library library = {
    qkv__jinja_filters, qkv__jinja_list_filters, qkv__jinja_tests, qkv__jinja_string_methods,
    qkv__jinja_dict_methods, qkv__jinja_functions};

qkv_status qkv__jinja_open(qkv__jinja **out, qkv_context *ctx, const char *name,
                           const char *source, size_t length)
{
    qkv__jinja *t = *out = qkv_calloc(ctx, 1, sizeof *t);
    if (!t)
        return QKV_E_MEMORY;
    t->ctx = ctx;
    t->name = name;
    t->library = &library;
    qkv_status status = qkv__jinja_pool_open(&t->pool, ctx, MEMORY, SIZE_MAX);
    if (!status && length > LONGEST)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: a template of at most %d bytes expected, found "
                          "%zu", name, LONGEST, length);
    char *kept = status ? NULL : qkv__jinja_alloc(&t->pool, strlen(name) + 1);
    if (kept)
        t->name = strcpy(kept, name);
    if (!status)
        status = qkv__jinja_parse(t, source, length);
    if (status && t->pool.arena && qkv__arena_failed(t->pool.arena))
        status = qkv_fail(ctx, QKV_E_MEMORY, "%s: out of memory for the template", name);
    if (status) {
        qkv__jinja_close(t);
        *out = NULL;
    }
    return status;
}

void qkv__jinja_close(qkv__jinja *t)
{
    if (!t)
        return;
    qkv__jinja_pool_close(&t->pool);
    qkv_free(t->ctx, t);
}

bool qkv__jinja_marks(const qkv__jinja *t) { return t->generation; }

/* ---- a rendering ----------------------------------------------------------------------------- */

static value from_json(run *r, const json_t *json, size_t depth)
{
    const char *key;
    json_t *item;
    size_t i;
    (void)qkv__jinja_work(&r->pool, 1);
    if (depth > QKV__JINJA_NESTED)
        return qkv__jinja_error(r, "the data are nested more than %d deep",
                               QKV__JINJA_NESTED);
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        qkv__jinja_dict *d = qkv__jinja_dict_new(&r->pool);
        json_object_foreach((json_t *)json, key, item)
            (void)qkv__jinja_set(&r->pool, d, qkv__j_text(key), from_json(r, item, depth + 1));
        return d ? (value){.kind = QKV__J_DICT, .dict = d} : qkv__j_none();
    }
    case JSON_ARRAY: {
        qkv__jinja_list *list = qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
        json_array_foreach(json, i, item)
            (void)qkv__jinja_push(&r->pool, list, from_json(r, item, depth + 1));
        return list ? (value){.kind = QKV__J_LIST, .list = list} : qkv__j_none();
    }
    case JSON_STRING: return qkv__j_str(json_string_value(json), json_string_length(json));
    case JSON_INTEGER: return qkv__j_int(json_integer_value(json));
    case JSON_REAL: return qkv__j_real(json_real_value(json));
    case JSON_NULL: return qkv__j_none();
    default: return qkv__j_bool(json_is_true(json));
    }
}

qkv_status qkv__jinja_render(const qkv__jinja *t, const json_t *variables, int64_t now,
                             qkv_text *out, qkv__jinja_spans *spans)
{
    run r = {.t = t, .ctx = t->ctx, .spans = spans, .now = now, .line = 1,
             .call_macro = qkv__jinja_call_macro};
    r.status = qkv__jinja_pool_open(&r.pool, t->ctx, most_memory, MOST_STEPS);
    r.out.pool = &r.pool;
    if (!r.status && qkv__jinja_push_scope(&r, NULL)) {
        value all = from_json(&r, variables, 0);
        if (qkv__jinja_check(&r))
            r.scope->names = *all.dict;
        if (!r.status && qkv__jinja_push_scope(&r, r.scope))
            qkv__jinja_execute(&r, t->body);
        if (qkv__jinja_check(&r) && !qkv__text_add(t->ctx, out, r.out.data ? r.out.data : "",
                                                   r.out.len))
            r.status = QKV_E_MEMORY;
    }
    qkv__jinja_pool_close(&r.pool);
    return r.status;
}
