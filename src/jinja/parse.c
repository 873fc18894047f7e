/* parse.c - statements: from tokens to the tree. */
#include <string.h>

#include "jinja/run.h"

typedef qkv__jinja_node node;
typedef qkv__jinja_parser parser;

/* ---- targets and bodies ---------------------------------------------------------------------- */

static node *parse_body(parser *p, const char *const *ends);

/* Is the tag at the place one of these? */
static bool at_end_tag(const parser *p, const char *const *ends)
{
    if (p->at->kind != QKV__T_BLOCK)
        return false;
    for (; *ends; ends++)
        if (p->at[1].kind == QKV__T_NAME && qkv__jinja_is(p->at[1].text, *ends))
            return true;
    return false;
}

/* After a tag: its end, then the statements up to the tag of one of these, whose name is next. */
static node *parse_up_to(parser *p, const char *const *ends)
{
    (void)qkv__jinja_expect(p, QKV__T_BLOCK_END, NULL);
    node *body = parse_body(p, ends);
    if (p->status)
        return NULL;
    if (at_end_tag(p, ends))
        p->at++;
    else
        qkv__jinja_unexpected(p, ends[0]);
    return body;
}

/* The same up to `end`, whose tag is skipped. */
static node *parse_until(parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    node *body = parse_up_to(p, ends);
    (void)qkv__jinja_skip(p, QKV__T_NAME, end);
    (void)qkv__jinja_expect(p, QKV__T_BLOCK_END, NULL);
    return body;
}

/* Where a tag is `else` or `end`: what is to be done else, or NULL. */
static node *parse_else(parser *p, const char *end)
{
    node *n = NULL;
    if (qkv__jinja_skip(p, QKV__T_NAME, end))
        (void)qkv__jinja_expect(p, QKV__T_BLOCK_END, NULL);
    else if (qkv__jinja_expect(p, QKV__T_NAME, "else") && (n = qkv__jinja_node_new(p, QKV__N_ELSE)))
        n->body = parse_until(p, end);
    return n;
}

static node *parse_targets(parser *p, bool member);

/* `a` or `(a, b)`; with `member` also a.b. */
static node *parse_target(parser *p, bool member)
{
    node *n;
    if (qkv__jinja_skip(p, QKV__T_OPERATOR, "(")) {
        n = qkv__jinja_enter(p) ? parse_targets(p, member) : NULL;
        p->depth--;
        (void)qkv__jinja_expect(p, QKV__T_OPERATOR, ")");
        return n;
    }
    n = qkv__jinja_node_new(p, QKV__N_NAME);
    if (!n)
        return NULL;
    n->name = qkv__jinja_expect_name(p);
    if (member && qkv__jinja_skip(p, QKV__T_OPERATOR, ".")) {
        qkv__jinja_str name = qkv__jinja_expect_name(p);
        n->kind = QKV__N_MEMBER;
        n->value = qkv__j_str(name.data, name.len);
    }
    return n;
}

/* One target, or several between commas. */
static node *parse_targets(parser *p, bool member)
{
    node *first = parse_target(p, member), *last = first;
    if (!first || !qkv__jinja_at(p, QKV__T_OPERATOR, ","))
        return first;
    node *n = qkv__jinja_node_new(p, QKV__N_TUPLE);
    if (n)
        n->list = first;
    while (last && qkv__jinja_skip(p, QKV__T_OPERATOR, ",")) {
        last->next = parse_target(p, member);
        last = last->next;
    }
    return n;
}

/* ---- statements: each after its name --------------------------------------------------------- */

static node *parse_if(parser *p)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    node *n = qkv__jinja_node_new(p, QKV__N_IF);
    node **last = n ? &n->list : NULL;
    do {
        node *branch = qkv__jinja_node_new(p, QKV__N_ELSE);
        if (!branch)
            return NULL;
        branch->a = qkv__jinja_tuple(p, false);
        branch->body = parse_up_to(p, ends);
        *last = branch;
        last = &branch->next;
    } while (qkv__jinja_skip(p, QKV__T_NAME, "elif"));
    n->c = parse_else(p, "endif");
    return n;
}

static node *parse_for(parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    node *n = qkv__jinja_node_new(p, QKV__N_FOR);
    if (!n)
        return NULL;
    n->b = parse_targets(p, false);
    (void)qkv__jinja_expect(p, QKV__T_NAME, "in");
    n->a = qkv__jinja_tuple(p, false);
    if (qkv__jinja_skip(p, QKV__T_NAME, "if"))
        n->c = qkv__jinja_expression(p);
    p->loops++;
    n->body = parse_up_to(p, ends);
    p->loops--;
    n->list = parse_else(p, "endfor");
    return n;
}

static node *parse_set(parser *p)
{
    node *n = qkv__jinja_node_new(p, QKV__N_SET);
    if (!n)
        return NULL;
    n->b = parse_targets(p, true);
    if (qkv__jinja_skip(p, QKV__T_OPERATOR, "=")) {
        n->a = qkv__jinja_tuple(p, true);
        (void)qkv__jinja_expect(p, QKV__T_BLOCK_END, NULL);
        return n;
    }
    n->kind = QKV__N_CAPTURE;
    if (qkv__jinja_skip(p, QKV__T_OPERATOR, "|"))
        n->a = qkv__jinja_filter_chain(p);
    n->body = parse_until(p, "endset");
    return n;
}

/* After the opening bracket. */
static node *parse_parameters(parser *p)
{
    node *first = NULL, **last = &first;
    while (!p->status && !qkv__jinja_at(p, QKV__T_OPERATOR, ")")) {
        if (first && !qkv__jinja_expect(p, QKV__T_OPERATOR, ","))
            break;
        if (qkv__jinja_at(p, QKV__T_OPERATOR, ")"))
            break;
        node *n = *last = qkv__jinja_node_new(p, QKV__N_KEYWORD);
        if (!n)
            break;
        n->name = qkv__jinja_expect_name(p);
        if (qkv__jinja_skip(p, QKV__T_OPERATOR, "="))
            n->a = qkv__jinja_expression(p);
        last = &n->next;
    }
    (void)qkv__jinja_expect(p, QKV__T_OPERATOR, ")");
    return first;
}

/* A macro's body is not in the loop around it. */
static node *parse_apart(parser *p, const char *end)
{
    size_t loops = p->loops;
    p->loops = 0;
    node *body = parse_until(p, end);
    p->loops = loops;
    return body;
}

static node *parse_macro(parser *p)
{
    node *n = qkv__jinja_node_new(p, QKV__N_MACRO);
    if (!n)
        return NULL;
    n->name = qkv__jinja_expect_name(p);
    if (qkv__jinja_expect(p, QKV__T_OPERATOR, "("))
        n->list = parse_parameters(p);
    n->body = parse_apart(p, "endmacro");
    return n;
}

static node *parse_caller(parser *p)
{
    node *n = qkv__jinja_node_new(p, QKV__N_CALLER), *macro;
    if (!n)
        return NULL;
    n->b = macro = qkv__jinja_node_new(p, QKV__N_MACRO);
    if (!macro)
        return NULL;
    macro->name = (qkv__jinja_str){"caller", 6};
    if (qkv__jinja_skip(p, QKV__T_OPERATOR, "("))
        macro->list = parse_parameters(p);
    n->a = qkv__jinja_postfix(p);
    if (n->a && n->a->kind != QKV__N_CALL)
        qkv__jinja_unexpected(p, "a call");
    macro->body = parse_apart(p, "endcall");
    return n;
}

static node *parse_filtered(parser *p)
{
    node *n = qkv__jinja_node_new(p, QKV__N_FILTERED);
    if (!n)
        return NULL;
    n->a = qkv__jinja_filter_chain(p);
    n->body = parse_until(p, "endfilter");
    return n;
}

static node *parse_with(parser *p)
{
    node *n = qkv__jinja_node_new(p, QKV__N_WITH);
    node **last = n ? &n->list : NULL;
    while (n && !p->status && p->at->kind != QKV__T_BLOCK_END) {
        if (n->list && !qkv__jinja_expect(p, QKV__T_OPERATOR, ","))
            return NULL;
        node *set = *last = qkv__jinja_node_new(p, QKV__N_SET);
        if (!set)
            return NULL;
        set->b = parse_targets(p, false);
        (void)qkv__jinja_expect(p, QKV__T_OPERATOR, "=");
        set->a = qkv__jinja_expression(p);
        last = &set->next;
    }
    if (n)
        n->body = parse_until(p, "endwith");
    return n;
}

static node *parse_generation(parser *p)
{
    node *n = qkv__jinja_node_new(p, QKV__N_GENERATION);
    p->t->generation = true;
    if (n)
        n->body = parse_apart(p, "endgeneration");
    return n;
}

static node *parse_leave(parser *p, qkv__jinja_node_kind kind)
{
    node *n = qkv__jinja_node_new(p, kind);
    if (!p->loops && !p->status)
        p->status = qkv__jinja_fail(p->t, p->at->line, "break and continue belong in a loop");
    (void)qkv__jinja_expect(p, QKV__T_BLOCK_END, NULL);
    return n;
}
static node *parse_break(parser *p) { return parse_leave(p, QKV__N_BREAK); }
static node *parse_continue(parser *p) { return parse_leave(p, QKV__N_CONTINUE); }

static const struct {
    const char *name;
    node *(*parse)(parser *p);
} statements[] = {{"if", parse_if}, {"for", parse_for}, {"set", parse_set},
                  {"macro", parse_macro}, {"call", parse_caller}, {"filter", parse_filtered},
                  {"with", parse_with}, {"generation", parse_generation},
                  {"break", parse_break}, {"continue", parse_continue}};

static node *parse_tag(parser *p)
{
    qkv__jinja_token tag = *p->at;
    qkv__jinja_str name = qkv__jinja_expect_name(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (qkv__jinja_is(name, statements[i].name))
            return statements[i].parse(p);
    if (!p->status)
        p->status = qkv__jinja_fail(p->t, tag.line, "tag \"%.*s\" is not known",
                                    name.len < 40 ? (int)name.len : 40, name.data);
    return NULL;
}

static node *parse_statement(parser *p)
{
    node *n = NULL;
    if (p->at->kind == QKV__T_TEXT) {
        n = qkv__jinja_node_new(p, QKV__N_TEXT);
        if (n)
            n->value = qkv__j_str(p->at->text.data, p->at->text.len);
        p->at++;
    } else if (qkv__jinja_skip(p, QKV__T_PRINT, NULL)) {
        n = qkv__jinja_node_new(p, QKV__N_PRINT);
        if (n)
            n->a = qkv__jinja_tuple(p, true);
        (void)qkv__jinja_expect(p, QKV__T_PRINT_END, NULL);
    } else if (qkv__jinja_skip(p, QKV__T_BLOCK, NULL)) {
        n = parse_tag(p);
    }
    return p->status ? NULL : n;
}

/* Statements up to one of the tags, or the end of the template. */
static node *parse_body(parser *p, const char *const *ends)
{
    node *first = NULL, **last = &first;
    if (!qkv__jinja_enter(p))
        return NULL;
    while (!p->status && p->at->kind != QKV__T_END && !at_end_tag(p, ends)) {
        node *n = parse_statement(p);
        if (!n)
            break;
        *last = n;
        last = &n->next;
    }
    p->depth--;
    return first;
}

qkv_status qkv__jinja_parse(qkv__jinja *t, const char *source, size_t length)
{
    static const char *const none[] = {NULL};
    qkv__jinja_token *tokens;
    qkv_status status = qkv__jinja_tokens(t, source, length, &tokens);
    if (status)
        return status;
    parser p = {.t = t, .at = tokens};
    t->body = parse_body(&p, none);
    return p.status;
}
