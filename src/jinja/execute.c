/* execute.c - statements, scopes and macros. */
#include "jinja/run.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_node node;
typedef qkv__jinja_run run;

/* ---- names ----------------------------------------------------------------------------------- */

static void scope_set(run *r, qkv__jinja_str name, value v)
{
    if (!qkv__jinja_set(&r->pool, &r->scope->names, qkv__j_str(name.data, name.len), v))
        (void)qkv__jinja_check(r);
}

static void assign_member(run *r, const node *target, value v)
{
    const value *of = qkv__jinja_lookup(r, target->name);
    if (!of || of->kind != QKV__J_NAMESPACE)
        (void)qkv__jinja_error(r, "a namespace expected in %.*s.%.*s = .., found %s",
                               (int)target->name.len, target->name.data, (int)target->value.s.len,
                               target->value.s.data,
                               of ? qkv__jinja_kind_name(*of) : "an undefined value");
    else if (!qkv__jinja_set(&r->pool, of->dict, target->value, v))
        (void)qkv__jinja_check(r);
}

static void set_target(run *r, const node *target, value v)
{
    if (r->status)
        return;
    if (target->kind == QKV__N_NAME) {
        scope_set(r, target->name, v);
        return;
    }
    if (target->kind == QKV__N_MEMBER) {
        assign_member(r, target, v);
        return;
    }
    const qkv__jinja_list *list = qkv__jinja_iterate(r, v);
    size_t expected = 0;
    for (const node *n = target->list; n; n = n->next)
        expected++;
    if (list && list->count != expected)
        (void)qkv__jinja_error(r, "%zu values expected, found %zu", expected, list->count);
    const node *n = target->list;
    for (size_t i = 0; list && i < list->count && !r->status; i++, n = n->next)
        set_target(r, n, list->items[i]);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

value qkv__jinja_captured(run *r, const node *body)
{
    qkv__jinja_text outside = r->out;
    qkv__jinja_scope *scope = r->scope;
    bool inner = r->inner;
    r->out = (qkv__jinja_text){.pool = &r->pool};
    r->inner = true;
    if (qkv__jinja_push_scope(r, scope))
        qkv__jinja_execute(r, body);
    value v = qkv__jinja_done(&r->out);
    r->out = outside;
    r->scope = scope;
    r->inner = inner;
    return v;
}

/* A text after the filters of its block. */
static value filtered(run *r, const node *filters, value text)
{
    r->block = text;
    return filters && !r->status ? qkv__jinja_evaluate(r, filters) : text;
}

static value call_with_caller(run *r, const node *n)
{
    qkv__jinja_macro *caller = qkv__jinja_alloc(&r->pool, sizeof *caller);
    qkv__jinja_scope *scope = r->scope;
    qkv__jinja_arguments args;
    value f = qkv__jinja_evaluate(r, n->a->a);
    if (!r->status && f.kind != QKV__J_MACRO)
        return qkv__jinja_error(r, "a macro expected in a call block, found %s",
                                qkv__jinja_kind_name(f));
    /* The macro finds `caller` in a scope around its own. */
    if (!qkv__jinja_evaluate_arguments(r, n->a->list, &args) || !caller ||
        !qkv__jinja_push_scope(r, f.macro->scope))
        return qkv__j_none();
    *caller = (qkv__jinja_macro){n->b, scope};
    scope_set(r, n->b->name, (value){.kind = QKV__J_MACRO, .macro = caller});
    const qkv__jinja_macro m = {f.macro->node, r->scope};
    value v = qkv__jinja_call_macro(r, &m, &args);
    r->scope = scope;
    return v;
}

value qkv__jinja_call_macro(run *r, const qkv__jinja_macro *m, const qkv__jinja_arguments *args)
{
    qkv__jinja_scope *scope = r->scope;
    size_t i = 0, named = 0;
    if (!qkv__jinja_push_scope(r, m->scope))
        return qkv__j_none();
    const qkv__jinja_str name = m->node->name;
    for (const node *p = m->node->list; p && !r->status; p = p->next, i++) {
        value key = qkv__j_str(p->name.data, p->name.len), v = qkv__j_undefined(p->name);
        const value *given = qkv__jinja_find(&r->pool, &args->named, key);
        if (given && i < args->count)
            return qkv__jinja_error(r, "macro %.*s: the argument %.*s is there twice",
                                    (int)name.len, name.data, (int)p->name.len, p->name.data);
        if (given)
            named++;
        if (i < args->count || given)
            v = given ? *given : args->items[i];
        else if (p->a)
            v = qkv__jinja_evaluate(r, p->a);
        scope_set(r, p->name, v);
    }
    value v = qkv__j_none();
    if (args->count > i || args->named.count > named)
        v = qkv__jinja_error(r, "macro %.*s: an argument has no parameter", (int)name.len,
                             name.data);
    else if (!r->status)
        v = qkv__jinja_captured(r, m->node->body);
    r->scope = scope;
    return v;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* The items for which the condition holds. */
static qkv__jinja_list *for_items(run *r, const node *n)
{
    value all = qkv__jinja_evaluate(r, n->a);
    qkv__jinja_list *list = r->status ? NULL : qkv__jinja_iterate(r, all), *out = list;
    qkv__jinja_scope *scope = r->scope;
    if (!list || !n->c)
        return list;
    out = qkv__jinja_list_new(&r->pool, QKV__J_PLAIN);
    for (size_t i = 0; i < list->count && qkv__jinja_push_scope(r, scope) && !r->status; i++) {
        set_target(r, n->b, list->items[i]);
        if (qkv__jinja_truth(qkv__jinja_evaluate(r, n->c)))
            (void)qkv__jinja_push(&r->pool, out, list->items[i]);
    }
    r->scope = scope;
    return qkv__jinja_check(r) ? out : NULL;
}

static void execute_for(run *r, const node *n)
{
    const qkv__jinja_list *list = for_items(r, n);
    qkv__jinja_scope *scope = r->scope;
    if (!list)
        return;
    if (!list->count && n->list)
        qkv__jinja_execute(r, n->list->body);
    for (size_t i = 0; i < list->count && !r->status && r->flow != QKV__J_BREAK; i++) {
        qkv__jinja_loop *loop = qkv__jinja_alloc(&r->pool, sizeof *loop);
        if (!loop || !qkv__jinja_push_scope(r, scope))
            break;
        *loop = (qkv__jinja_loop){list->items, i, list->count};
        scope_set(r, (qkv__jinja_str){"loop", 4}, (value){.kind = QKV__J_LOOP, .loop = loop});
        set_target(r, n->b, list->items[i]);
        r->flow = QKV__J_GO;
        qkv__jinja_execute(r, n->body);
    }
    r->flow = QKV__J_GO;
    r->scope = scope;
    (void)qkv__jinja_check(r);
}

static void execute_if(run *r, const node *n)
{
    for (const node *branch = n->list; branch && !r->status; branch = branch->next)
        if (qkv__jinja_truth(qkv__jinja_evaluate(r, branch->a))) {
            qkv__jinja_execute(r, branch->body);
            return;
        }
    if (n->c && !r->status)
        qkv__jinja_execute(r, n->c->body);
}

static void execute_with(run *r, const node *n)
{
    qkv__jinja_scope *scope = r->scope, *inner;
    if (!qkv__jinja_push_scope(r, scope))
        return;
    inner = r->scope;
    for (const node *set = n->list; set && !r->status; set = set->next) {
        r->scope = scope; /* the values do not see each other */
        value v = qkv__jinja_evaluate(r, set->a);
        r->scope = inner;
        set_target(r, set->b, v);
    }
    r->scope = inner;
    qkv__jinja_execute(r, n->body);
    r->scope = scope;
}

static void execute_generation(run *r, const node *n)
{
    qkv__jinja_spans *spans = r->spans;
    size_t from = r->out.len;
    if (r->inner && spans) {
        (void)qkv__jinja_error(r, "{%% generation %%} in a macro or block has no place in the "
                                  "text");
        return;
    }
    value v = qkv__jinja_captured(r, n->body);
    qkv__jinja_add(&r->out, v.s.data, r->status ? 0 : v.s.len);
    if (!spans || r->status)
        return;
    if (!qkv__grow(r->ctx, &spans->ends, &spans->capacity, spans->count * 2 + 2,
                   sizeof *spans->ends)) {
        r->status = QKV_E_MEMORY;
        return;
    }
    spans->ends[spans->count * 2] = from;
    spans->ends[spans->count++ * 2 + 1] = r->out.len;
}

static void execute_macro(run *r, const node *n)
{
    qkv__jinja_macro *m = qkv__jinja_alloc(&r->pool, sizeof *m);
    if (!m)
        return;
    *m = (qkv__jinja_macro){n, r->scope};
    scope_set(r, n->name, (value){.kind = QKV__J_MACRO, .macro = m});
}

static void execute_one(run *r, const node *n)
{
    value v;
    switch (n->kind) {
    case QKV__N_TEXT: qkv__jinja_add(&r->out, n->value.s.data, n->value.s.len); break;
    case QKV__N_PRINT:
        v = qkv__jinja_evaluate(r, n->a);
        if (!r->status)
            qkv__jinja_write(r, &r->out, v);
        break;
    case QKV__N_IF: execute_if(r, n); break;
    case QKV__N_FOR: execute_for(r, n); break;
    case QKV__N_SET: set_target(r, n->b, qkv__jinja_evaluate(r, n->a)); break;
    case QKV__N_CAPTURE:
        v = qkv__jinja_captured(r, n->body);
        set_target(r, n->b, filtered(r, n->a, v));
        break;
    case QKV__N_MACRO: execute_macro(r, n); break;
    case QKV__N_CALLER:
    case QKV__N_FILTERED:
        v = n->kind == QKV__N_CALLER ? call_with_caller(r, n)
                                     : filtered(r, n->a, qkv__jinja_captured(r, n->body));
        if (!r->status)
            qkv__jinja_write(r, &r->out, v);
        break;
    case QKV__N_WITH: execute_with(r, n); break;
    case QKV__N_GENERATION: execute_generation(r, n); break;
    case QKV__N_BREAK: r->flow = QKV__J_BREAK; break;
    default: r->flow = QKV__J_CONTINUE; break;
    }
}

void qkv__jinja_execute(run *r, const node *first)
{
    if (first && !qkv__jinja_enter_run(r, first->line))
        return;
    for (const node *n = first; n && !r->status && r->flow == QKV__J_GO; n = n->next) {
        r->line = n->line;
        (void)qkv__jinja_work(&r->pool, 1);
        if (qkv__jinja_check(r))
            execute_one(r, n);
    }
    r->depth -= first != NULL;
}
