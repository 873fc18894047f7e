/* parse_expression.c - expressions, with jinja2's precedence: a choice, or, and, not, comparisons,
 * + -, ~, * / // %, **, a sign, then what follows a value: . [] () | is. */
#include <string.h>

#include "jinja/run.h"

typedef qkv__jinja_node node;
typedef qkv__jinja_parser parser;

static bool at_operator(const parser *p, const char *op)
{
    return qkv__jinja_at(p, QKV__T_OPERATOR, op);
}

static bool skip_operator(parser *p, const char *op)
{
    return qkv__jinja_skip(p, QKV__T_OPERATOR, op);
}

static bool at_word(const parser *p, const char *word)
{
    return qkv__jinja_at(p, QKV__T_NAME, word);
}

static bool skip_word(parser *p, const char *word)
{
    return qkv__jinja_skip(p, QKV__T_NAME, word);
}

static node *node_of(parser *p, qkv__jinja_node_kind kind, node *a, node *b)
{
    node *n = qkv__jinja_node_new(p, kind);
    if (n) {
        n->a = a;
        n->b = b;
    }
    return n;
}

static node *node_const(parser *p, qkv__jinja_value value)
{
    node *n = qkv__jinja_node_new(p, QKV__N_CONST);
    if (n)
        n->value = value;
    return n;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Expressions up to a bracket; the last comma may be followed by nothing. */
static node *parse_elements(parser *p, qkv__jinja_node_kind kind, const char *close)
{
    node *n = qkv__jinja_node_new(p, kind);
    node **last = n ? &n->list : NULL;
    while (n && !p->status && !at_operator(p, close)) {
        if (n->list && !qkv__jinja_expect(p, QKV__T_OPERATOR, ","))
            break;
        if (at_operator(p, close))
            break;
        *last = qkv__jinja_expression(p);
        if (*last && kind == QKV__N_DICT && qkv__jinja_expect(p, QKV__T_OPERATOR, ":")) {
            last = &(*last)->next;
            *last = qkv__jinja_expression(p);
        }
        if (!*last)
            break;
        last = &(*last)->next;
    }
    (void)qkv__jinja_expect(p, QKV__T_OPERATOR, close);
    return n;
}

static node *parse_strings(parser *p)
{
    qkv__jinja_text all = {.pool = &p->t->pool};
    for (; p->at->kind == QKV__T_STRING; p->at++)
        qkv__jinja_add(&all, p->at->text.data, p->at->text.len);
    return node_const(p, qkv__jinja_done(&all));
}

static node *parse_name(parser *p)
{
    static const struct { const char *name; qkv__jinja_value value; } known[] = {
        {"true", {.kind = QKV__J_BOOL, .i = 1}}, {"True", {.kind = QKV__J_BOOL, .i = 1}},
        {"false", {.kind = QKV__J_BOOL}}, {"False", {.kind = QKV__J_BOOL}},
        {"none", {.kind = QKV__J_NONE}}, {"None", {.kind = QKV__J_NONE}}};
    qkv__jinja_str name = qkv__jinja_expect_name(p);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (qkv__jinja_is(name, known[i].name))
            return node_const(p, known[i].value);
    node *n = qkv__jinja_node_new(p, QKV__N_NAME);
    if (n)
        n->name = name;
    return n;
}

static node *parse_primary(parser *p)
{
    node *n = NULL;
    switch (p->at->kind) {
    case QKV__T_NAME: return parse_name(p);
    case QKV__T_STRING: return parse_strings(p);
    case QKV__T_INT:
    case QKV__T_REAL:
        n = node_const(p, p->at->value);
        p->at++;
        return n;
    default: break;
    }
    if (!qkv__jinja_enter(p))
        return NULL;
    if (skip_operator(p, "(")) {
        n = at_operator(p, ")") ? qkv__jinja_node_new(p, QKV__N_TUPLE) : qkv__jinja_tuple(p, true);
        (void)qkv__jinja_expect(p, QKV__T_OPERATOR, ")");
    } else if (skip_operator(p, "[")) {
        n = parse_elements(p, QKV__N_LIST, "]");
    } else if (skip_operator(p, "{")) {
        n = parse_elements(p, QKV__N_DICT, "}");
    } else {
        qkv__jinja_unexpected(p, "a value");
    }
    p->depth--;
    return n;
}

/* ---- what follows a value -------------------------------------------------------------------- */

static node *parse_argument(parser *p)
{
    bool named = skip_operator(p, "**");
    if (named || skip_operator(p, "*")) {
        node *spread = node_of(p, QKV__N_SPREAD, qkv__jinja_expression(p), NULL);
        if (spread)
            spread->named = named;
        return spread;
    }
    if (p->at->kind != QKV__T_NAME || p->at[1].kind != QKV__T_OPERATOR ||
        !qkv__jinja_is(p->at[1].text, "="))
        return qkv__jinja_expression(p);
    node *n = qkv__jinja_node_new(p, QKV__N_KEYWORD);
    if (n) {
        n->name = p->at->text;
        p->at += 2;
        n->a = qkv__jinja_expression(p);
    }
    return n;
}

/* After the opening bracket. */
static node *parse_arguments(parser *p)
{
    node *first = NULL, **last = &first;
    bool named = false;
    if (!qkv__jinja_enter(p))
        return NULL;
    while (!p->status && !at_operator(p, ")")) {
        if (first && !qkv__jinja_expect(p, QKV__T_OPERATOR, ","))
            break;
        if (at_operator(p, ")"))
            break;
        *last = parse_argument(p);
        if (!*last)
            break;
        if (named && (*last)->kind != QKV__N_KEYWORD && (*last)->kind != QKV__N_SPREAD)
            qkv__jinja_unexpected(p, "a named argument");
        named |= (*last)->kind == QKV__N_KEYWORD || (*last)->kind == QKV__N_SPREAD;
        last = &(*last)->next;
    }
    (void)qkv__jinja_expect(p, QKV__T_OPERATOR, ")");
    p->depth--;
    return first;
}

static node *parse_bound(parser *p)
{
    if (at_operator(p, ":") || at_operator(p, "]"))
        return node_const(p, qkv__j_none());
    return qkv__jinja_expression(p);
}

/* [key] or [from:to:step], after the opening bracket. */
static node *parse_index(parser *p)
{
    node *key = at_operator(p, ":") ? node_const(p, qkv__j_none()) : qkv__jinja_expression(p);
    if (key && skip_operator(p, ":")) {
        node *slice = qkv__jinja_node_new(p, QKV__N_SLICE);
        node *to = parse_bound(p), *step = NULL;
        step = skip_operator(p, ":") ? parse_bound(p) : node_const(p, qkv__j_none());
        if (!slice || !to || !step)
            return NULL;
        slice->list = key;
        key->next = to;
        to->next = step;
        key = slice;
    }
    return qkv__jinja_expect(p, QKV__T_OPERATOR, "]") ? key : NULL;
}

static node *parse_attribute(parser *p, node *of)
{
    if (p->at->kind == QKV__T_INT) {
        node *key = node_const(p, p->at->value);
        p->at++;
        return node_of(p, QKV__N_ITEM, of, key);
    }
    node *n = node_of(p, QKV__N_ATTRIBUTE, of, NULL);
    if (n)
        n->name = qkv__jinja_expect_name(p);
    return n;
}

/* After the opening bracket. */
static node *parse_call(parser *p, node *of)
{
    node *n = node_of(p, QKV__N_CALL, of, NULL);
    if (n)
        n->list = parse_arguments(p);
    return n;
}

/* `.name`, `[key]` and `(arguments)` behind a value. */
static node *parse_postfix(parser *p, node *n)
{
    while (n && !p->status) {
        if (skip_operator(p, ".")) {
            n = parse_attribute(p, n);
        } else if (skip_operator(p, "[")) {
            n = node_of(p, QKV__N_ITEM, n, NULL);
            if (n && qkv__jinja_enter(p)) {
                n->b = parse_index(p);
                p->depth--;
            }
        } else if (skip_operator(p, "(")) {
            n = parse_call(p, n);
        } else {
            break;
        }
    }
    return n;
}

static node *parse_filter(parser *p, node *of)
{
    node *n = node_of(p, QKV__N_FILTER, of, NULL);
    if (!n)
        return NULL;
    n->name = qkv__jinja_expect_name(p);
    n->row = qkv__jinja_filter_of(p->t, n->name);
    if (skip_operator(p, "("))
        n->list = parse_arguments(p);
    return n;
}

/* An argument of a test may stand without brackets: `x is divisibleby 3`. */
static bool at_test_argument(const parser *p)
{
    static const char *const others[] = {"else", "or", "and", "if", "is", "in", "not"};
    bool other = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        other |= at_word(p, others[i]);
    return (p->at->kind == QKV__T_NAME && !other) || p->at->kind == QKV__T_STRING ||
           p->at->kind == QKV__T_INT || p->at->kind == QKV__T_REAL || at_operator(p, "[") ||
           at_operator(p, "{");
}

static node *parse_test(parser *p, node *of)
{
    bool negated = skip_word(p, "not");
    node *n = node_of(p, QKV__N_TEST, of, NULL);
    if (!n)
        return NULL;
    n->name = qkv__jinja_expect_name(p);
    n->row = qkv__jinja_row_of(p->t->library->tests, n->name);
    if (skip_operator(p, "("))
        n->list = parse_arguments(p);
    else if (at_test_argument(p))
        n->list = parse_postfix(p, parse_primary(p));
    else if (at_word(p, "is"))
        qkv__jinja_unexpected(p, "one test of a value");
    return negated ? node_of(p, QKV__N_NOT, n, NULL) : n;
}

static node *parse_filters(parser *p, node *n)
{
    while (n && !p->status) {
        if (skip_operator(p, "|")) {
            n = parse_filter(p, n);
        } else if (skip_word(p, "is")) {
            n = parse_test(p, n);
        } else if (skip_operator(p, "(")) {
            n = parse_call(p, n);
        } else {
            break;
        }
    }
    return n;
}

node *qkv__jinja_filter_chain(parser *p)
{
    node *n = parse_filter(p, qkv__jinja_node_new(p, QKV__N_BLOCK));
    while (n && !p->status && skip_operator(p, "|"))
        n = parse_filter(p, n);
    return n;
}

node *qkv__jinja_postfix(parser *p) { return parse_postfix(p, parse_primary(p)); }

/* ---- operators ------------------------------------------------------------------------------- */

static node *parse_unary(parser *p, bool filters)
{
    node *n = NULL;
    if (at_operator(p, "-") || at_operator(p, "+")) {
        qkv__jinja_str sign = p->at++->text;
        if (!qkv__jinja_enter(p))
            return NULL;
        n = node_of(p, QKV__N_UNARY, parse_unary(p, false), NULL);
        p->depth--;
        if (n)
            n->name = sign;
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    return filters ? parse_filters(p, n) : n;
}

/* Levels of operators between comparisons and signs, the loosest first. */
static const char *const operators[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
enum { LEVELS = sizeof operators / sizeof *operators };

/* The one of these that is at the place, skipped; an empty name: none. */
static qkv__jinja_str skip_one_of(parser *p, const char *const *all)
{
    const qkv__jinja_str op = p->at->text;
    for (; *all; all++)
        if (skip_operator(p, *all))
            return op;
    return (qkv__jinja_str){"", 0};
}

static node *parse_binary(parser *p, size_t level)
{
    if (level == LEVELS)
        return parse_unary(p, true);
    node *n = parse_binary(p, level + 1);
    for (qkv__jinja_str op; n && (op = skip_one_of(p, operators[level])).len;) {
        n = node_of(p, QKV__N_BINARY, n, parse_binary(p, level + 1));
        if (n)
            n->name = op;
    }
    return n;
}

static qkv__jinja_str skip_comparison(parser *p)
{
    static const char *const all[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
    const qkv__jinja_str op = p->at->text;
    if (skip_word(p, "in"))
        return op;
    if (at_word(p, "not") && p->at[1].kind == QKV__T_NAME && qkv__jinja_is(p->at[1].text, "in")) {
        p->at += 2;
        return (qkv__jinja_str){"not in", 6};
    }
    return skip_one_of(p, all);
}

static node *parse_compare(parser *p)
{
    node *first = parse_binary(p, 0), *n = NULL, **last = NULL;
    while (first && !p->status) {
        qkv__jinja_str op = skip_comparison(p);
        if (!op.len)
            break;
        if (!n) {
            n = node_of(p, QKV__N_COMPARE, first, NULL);
            last = n ? &n->list : NULL;
        }
        node *with = node_of(p, QKV__N_KEYWORD, parse_binary(p, 0), NULL);
        if (!n || !with)
            return NULL;
        with->name = op;
        *last = with;
        last = &with->next;
    }
    return n ? n : first;
}

static node *parse_not(parser *p)
{
    if (!skip_word(p, "not"))
        return parse_compare(p);
    if (!qkv__jinja_enter(p))
        return NULL;
    node *n = node_of(p, QKV__N_NOT, parse_not(p), NULL);
    p->depth--;
    return n;
}

static node *parse_and(parser *p)
{
    node *n = parse_not(p);
    while (n && !p->status && skip_word(p, "and"))
        n = node_of(p, QKV__N_AND, n, parse_not(p));
    return n;
}

static node *parse_or(parser *p)
{
    node *n = parse_and(p);
    while (n && !p->status && skip_word(p, "or"))
        n = node_of(p, QKV__N_OR, n, parse_and(p));
    return n;
}

static node *parse_choice(parser *p)
{
    node *n = parse_or(p);
    while (n && !p->status && skip_word(p, "if")) {
        n = node_of(p, QKV__N_CHOICE, parse_or(p), n);
        if (n && skip_word(p, "else"))
            n->c = qkv__jinja_expression(p);
    }
    return n;
}

node *qkv__jinja_expression(parser *p)
{
    if (p->status || !qkv__jinja_enter(p))
        return NULL;
    node *n = parse_choice(p);
    p->depth--;
    return p->status ? NULL : n;
}

node *qkv__jinja_tuple(parser *p, bool choice)
{
    node *first = choice ? qkv__jinja_expression(p) : parse_or(p);
    if (!first || !at_operator(p, ","))
        return p->status ? NULL : first;
    node *n = qkv__jinja_node_new(p, QKV__N_TUPLE), *last = first;
    if (n)
        n->list = first;
    while (n && !p->status && skip_operator(p, ",")) {
        if (at_operator(p, ")") || at_operator(p, "=") || p->at->kind == QKV__T_BLOCK_END ||
            p->at->kind == QKV__T_PRINT_END || at_word(p, "in"))
            break;
        last->next = choice ? qkv__jinja_expression(p) : parse_or(p);
        if (!last->next)
            break;
        last = last->next;
    }
    return p->status ? NULL : n;
}
