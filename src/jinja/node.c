/* node.c - what the halves of the parser share: messages, places, nodes. */
#include "jinja/node.h"

#include <stdio.h>

typedef qkv__jinja_node node;
typedef qkv__jinja_parser parser;

enum { NESTED = 100 };

qkv_status qkv__jinja_fail(const qkv__jinja *t, int line, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: line %d of the template: %s", t->name, line, what);
}

bool qkv__jinja_at(const parser *p, qkv__jinja_token_kind kind, const char *text)
{
    return p->at->kind == kind && (!text || qkv__jinja_is(p->at->text, text));
}

bool qkv__jinja_skip(parser *p, qkv__jinja_token_kind kind, const char *text)
{
    if (p->status || !qkv__jinja_at(p, kind, text))
        return false;
    p->at++;
    return true;
}

void qkv__jinja_unexpected(parser *p, const char *expected)
{
    int shown = p->at->text.len < 40 ? (int)p->at->text.len : 40;
    if (p->status)
        return;
    p->status = p->at->kind == QKV__T_END
                    ? qkv__jinja_fail(p->t, p->at->line, "%s expected, found the end", expected)
                    : qkv__jinja_fail(p->t, p->at->line, "%s expected, found \"%.*s\"", expected,
                                      shown, p->at->text.data);
}

bool qkv__jinja_expect(parser *p, qkv__jinja_token_kind kind, const char *text)
{
    if (qkv__jinja_skip(p, kind, text))
        return true;
    qkv__jinja_unexpected(p, text ? text : kind == QKV__T_BLOCK_END ? "%}" : "}}");
    return false;
}

qkv__jinja_str qkv__jinja_expect_name(parser *p)
{
    qkv__jinja_str name = p->at->text;
    if (!qkv__jinja_skip(p, QKV__T_NAME, NULL))
        qkv__jinja_unexpected(p, "a name");
    return name;
}

node *qkv__jinja_node_new(parser *p, qkv__jinja_node_kind kind)
{
    if (p->status)
        return NULL;
    node *n = qkv__jinja_alloc(&p->t->pool, sizeof *n);
    if (!n) {
        p->status = qkv__jinja_fail(p->t, p->at->line, "the template is too long");
        return NULL;
    }
    n->kind = kind;
    n->line = p->at->line;
    return n;
}

bool qkv__jinja_enter(parser *p)
{
    if (++p->depth > NESTED && !p->status)
        p->status = qkv__jinja_fail(p->t, p->at->line, "more than %d nested tags and brackets",
                                    NESTED);
    return !p->status;
}
