/* evaluate.c - the value of an expression. */
#include "jinja/run.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_node node;
typedef qkv__jinja_run run;

static value evaluate_name(run *r, const node *n)
{
    const value *found = qkv__jinja_lookup(r, n->name);
    if (found)
        return *found;
    const qkv__jinja_row *row = qkv__jinja_row_of(r->t->library->functions, n->name);
    return row ? qkv__jinja_bound(r, row, qkv__j_none()) : qkv__j_undefined(n->name);
}

static void add_named_argument(run *r, qkv__jinja_arguments *out, value name, value v)
{
    if (name.kind != QKV__J_STRING)
        (void)qkv__jinja_error(r, "%s cannot name an argument", qkv__jinja_kind_name(name));
    else if (qkv__jinja_find(&r->pool, &out->named, name))
        (void)qkv__jinja_error(r, "the argument %.*s is there twice", (int)name.s.len, name.s.data);
    else
        (void)qkv__jinja_set(&r->pool, &out->named, name, v);
}

/* *v and **v. */
static void spread_arguments(run *r, const node *n, qkv__jinja_list *items,
                             qkv__jinja_arguments *out)
{
    value v = qkv__jinja_evaluate(r, n->a);
    if (r->status)
        return;
    if (n->named && v.kind != QKV__J_DICT) {
        (void)qkv__jinja_error(r, "a dict expected after **, found %s", qkv__jinja_kind_name(v));
        return;
    }
    const qkv__jinja_list *list = n->named ? NULL : qkv__jinja_iterate(r, v);
    for (size_t i = 0; n->named && i < v.dict->count && !r->status; i++)
        add_named_argument(r, out, v.dict->keys[i], v.dict->values[i]);
    for (size_t i = 0; list && i < list->count; i++)
        (void)qkv__jinja_push(&r->pool, items, list->items[i]);
}

bool qkv__jinja_evaluate_arguments(run *r, const node *list, qkv__jinja_arguments *out)
{
    qkv__jinja_list items = {0};
    *out = (qkv__jinja_arguments){0};
    for (const node *n = list; n && !r->status; n = n->next) {
        if (n->kind == QKV__N_SPREAD)
            spread_arguments(r, n, &items, out);
        else if (n->kind == QKV__N_KEYWORD)
            add_named_argument(r, out, qkv__j_str(n->name.data, n->name.len),
                               qkv__jinja_evaluate(r, n->a));
        else
            (void)qkv__jinja_push(&r->pool, &items, qkv__jinja_evaluate(r, n));
    }
    out->items = items.items;
    out->count = items.count;
    return qkv__jinja_check(r);
}

value qkv__jinja_call(run *r, value f, const qkv__jinja_arguments *args)
{
    if (f.kind == QKV__J_MACRO)
        return r->call_macro(r, f.macro, args);
    if (f.kind == QKV__J_FUNCTION)
        return qkv__jinja_apply(r, f.method->row, "", f.method->self, args);
    if (f.kind == QKV__J_UNDEFINED)
        return qkv__jinja_error(r, "function \"%.*s\" is not known", (int)f.s.len, f.s.data);
    return qkv__jinja_error(r, "%s cannot be called", qkv__jinja_kind_name(f));
}

/* ---- kinds of nodes -------------------------------------------------------------------------- */

static value evaluate_call(run *r, const node *n)
{
    qkv__jinja_arguments args;
    value f = qkv__jinja_evaluate(r, n->a);
    if (!qkv__jinja_evaluate_arguments(r, n->list, &args))
        return qkv__j_none();
    r->line = n->line;
    return qkv__jinja_call(r, f, &args);
}

static value evaluate_filter(run *r, const node *n)
{
    qkv__jinja_arguments args;
    value self = qkv__jinja_evaluate(r, n->a);
    const char *what = n->kind == QKV__N_TEST ? "test " : "filter ";
    if (!qkv__jinja_evaluate_arguments(r, n->list, &args))
        return qkv__j_none();
    r->line = n->line;
    if (!n->row) /* jinja2 minds only where it is used */
        return qkv__jinja_error(r, "%s\"%.*s\" is not known", what, (int)n->name.len, n->name.data);
    return qkv__jinja_apply(r, n->row, what, self, &args);
}

static value evaluate_item(run *r, const node *n)
{
    value self = qkv__jinja_evaluate(r, n->a), bounds[3];
    if (n->b->kind != QKV__N_SLICE) {
        value key = qkv__jinja_evaluate(r, n->b);
        r->line = n->line;
        return r->status ? qkv__j_none() : qkv__jinja_item(r, self, key);
    }
    const node *at = n->b->list;
    for (size_t i = 0; i < 3; i++, at = at->next)
        bounds[i] = qkv__jinja_evaluate(r, at);
    r->line = n->line;
    return r->status ? qkv__j_none() : qkv__jinja_slice(r, self, bounds);
}

static value evaluate_list(run *r, const node *n)
{
    bool tuple = n->kind == QKV__N_TUPLE;
    qkv__jinja_list *list =
        qkv__jinja_list_new(&r->pool, tuple ? QKV__J_TUPLE : QKV__J_PLAIN);
    for (const node *at = n->list; at && !r->status; at = at->next)
        (void)qkv__jinja_push(&r->pool, list, qkv__jinja_evaluate(r, at));
    return qkv__jinja_of_list(r, list);
}

static value evaluate_dict(run *r, const node *n)
{
    qkv__jinja_dict *d = qkv__jinja_dict_new(&r->pool);
    for (const node *at = n->list; at && !r->status; at = at->next->next) {
        value key = qkv__jinja_evaluate(r, at), v = qkv__jinja_evaluate(r, at->next);
        if (key.kind > QKV__J_STRING || key.kind == QKV__J_UNDEFINED)
            return qkv__jinja_error(r, "%s cannot be the key of a dict",
                                    qkv__jinja_kind_name(key));
        (void)qkv__jinja_set(&r->pool, d, key, v);
    }
    return d && qkv__jinja_check(r) ? (value){.kind = QKV__J_DICT, .dict = d} : qkv__j_none();
}

static bool compare_values(run *r, qkv__jinja_str op, value a, value b)
{
    int order;
    if (qkv__jinja_is(op, "==") || qkv__jinja_is(op, "!="))
        return qkv__jinja_equal(&r->pool, a, b, 0) == (op.data[0] == '=');
    if (qkv__jinja_is(op, "in") || qkv__jinja_is(op, "not in"))
        return qkv__jinja_contains(r, b, a) == (op.data[0] == 'i');
    if (!qkv__jinja_compare(&r->pool, a, b, 0, &order)) {
        (void)qkv__jinja_error(r, "%s and %s have no order", qkv__jinja_kind_name(a),
                               qkv__jinja_kind_name(b));
        return false;
    }
    bool equal = op.len == 2 && order == 0;
    return equal || (op.data[0] == '<' ? order < 0 : order > 0);
}

static value evaluate_compare(run *r, const node *n)
{
    value a = qkv__jinja_evaluate(r, n->a);
    bool holds = true;
    for (const node *with = n->list; with && holds && !r->status; with = with->next) {
        value b = qkv__jinja_evaluate(r, with->a);
        r->line = n->line;
        holds = !r->status && compare_values(r, with->name, a, b);
        a = b;
    }
    return qkv__j_bool(holds);
}

static value evaluate_unary(run *r, const node *n)
{
    value v = qkv__jinja_evaluate(r, n->a);
    bool minus = n->name.data[0] == '-';
    if (!r->status && !qkv__jinja_number(v))
        return qkv__jinja_error(r, "%s has no sign", qkv__jinja_kind_name(v));
    if (v.kind == QKV__J_REAL)
        return qkv__j_real(minus ? -v.r : v.r);
    return qkv__j_int(minus && v.i > INT64_MIN ? -v.i : v.i);
}

static value evaluate_inner(run *r, const node *n)
{
    value a;
    switch (n->kind) {
    case QKV__N_CONST: return n->value;
    case QKV__N_BLOCK: return r->block;
    case QKV__N_NAME: return evaluate_name(r, n);
    case QKV__N_ATTRIBUTE:
        a = qkv__jinja_evaluate(r, n->a);
        r->line = n->line;
        return r->status ? a : qkv__jinja_attribute(r, a, n->name);
    case QKV__N_ITEM: return evaluate_item(r, n);
    case QKV__N_CALL: return evaluate_call(r, n);
    case QKV__N_FILTER:
    case QKV__N_TEST: return evaluate_filter(r, n);
    case QKV__N_NOT: return qkv__j_bool(!qkv__jinja_truth(qkv__jinja_evaluate(r, n->a)));
    case QKV__N_UNARY: return evaluate_unary(r, n);
    case QKV__N_BINARY:
        a = qkv__jinja_evaluate(r, n->a);
        value b = qkv__jinja_evaluate(r, n->b);
        r->line = n->line;
        return r->status ? a : qkv__jinja_binary(r, n->name, a, b);
    case QKV__N_COMPARE: return evaluate_compare(r, n);
    case QKV__N_AND:
        a = qkv__jinja_evaluate(r, n->a);
        return qkv__jinja_truth(a) ? qkv__jinja_evaluate(r, n->b) : a;
    case QKV__N_OR:
        a = qkv__jinja_evaluate(r, n->a);
        return qkv__jinja_truth(a) ? a : qkv__jinja_evaluate(r, n->b);
    case QKV__N_CHOICE:
        if (qkv__jinja_truth(qkv__jinja_evaluate(r, n->a)))
            return qkv__jinja_evaluate(r, n->b);
        return n->c ? qkv__jinja_evaluate(r, n->c)
                    : qkv__j_undefined((qkv__jinja_str){"if without else", 15});
    case QKV__N_DICT: return evaluate_dict(r, n);
    default: return evaluate_list(r, n);
    }
}

value qkv__jinja_evaluate(run *r, const node *n)
{
    if (!qkv__jinja_enter_run(r, n->line))
        return qkv__j_none();
    value v = evaluate_inner(r, n);
    r->depth--;
    return qkv__jinja_check(r) ? v : qkv__j_none();
}
