/* node.h - a template as a tree, and the tokens that it is made of. */
#ifndef QKV_SRC_JINJA_NODE_H
#define QKV_SRC_JINJA_NODE_H

#include "jinja/value.h"

typedef enum {
    QKV__T_TEXT,        /* outside of tags */
    QKV__T_BLOCK, QKV__T_BLOCK_END, /* {% %} */
    QKV__T_PRINT, QKV__T_PRINT_END, /* {{ }} */
    QKV__T_NAME,
    QKV__T_STRING,      /* without quotes and escapes */
    QKV__T_INT,
    QKV__T_REAL,
    QKV__T_OPERATOR,
    QKV__T_END
} qkv__jinja_token_kind;

typedef struct {
    qkv__jinja_token_kind kind;
    int line;
    qkv__jinja_str text;
    qkv__jinja_value value; /* INT, REAL */
} qkv__jinja_token;

typedef struct qkv__jinja qkv__jinja;

/* Records "NAME, line N: <what>". */
qkv_status qkv__jinja_fail(const qkv__jinja *t, int line, const char *fmt, ...) QKV_PRINTF(3, 4);

/* The tokens of the template's source, ended by one of kind END. */
qkv_status qkv__jinja_tokens(qkv__jinja *t, const char *source, size_t length,
                             qkv__jinja_token **out);

/* ---- the tree -------------------------------------------------------------------------------- */

typedef enum {
    /* Expressions. */
    QKV__N_CONST,     /* value */
    QKV__N_NAME,      /* name */
    QKV__N_ATTRIBUTE, /* a.name */
    QKV__N_ITEM,      /* a[b] */
    QKV__N_SLICE,     /* the index of an item: list: from, to, step; each may be a None */
    QKV__N_CALL,      /* a(list) */
    QKV__N_FILTER,    /* a|name(list) */
    QKV__N_TEST,      /* a is name(list) */
    QKV__N_BLOCK,     /* what a block printed: its filters begin with it */
    QKV__N_KEYWORD,   /* of an argument or parameter: name, a */
    QKV__N_SPREAD,    /* of arguments: *a, or **a if named */
    QKV__N_NOT,
    QKV__N_UNARY,     /* name: - or + */
    QKV__N_BINARY,    /* a name b */
    QKV__N_COMPARE,   /* a, list of QKV__N_KEYWORD with the operator's name */
    QKV__N_AND, QKV__N_OR,
    QKV__N_CHOICE,    /* b if a else c; c may be NULL */
    QKV__N_LIST, QKV__N_TUPLE, /* list */
    QKV__N_DICT,      /* list: key, value, key, value */
    /* Statements. */
    QKV__N_TEXT,      /* value */
    QKV__N_PRINT,     /* a */
    QKV__N_IF,        /* list: condition in a, statements in body; c: else */
    QKV__N_FOR,       /* b: target, a: what, c: condition, body; list: else */
    QKV__N_SET,       /* b: target, a */
    QKV__N_CAPTURE,   /* b: target, a: filter or NULL; body */
    QKV__N_MACRO,     /* name, list: parameters; body */
    QKV__N_CALLER,    /* a: call, b: the macro that is its caller */
    QKV__N_FILTERED,  /* a: filter, body */
    QKV__N_WITH,      /* list: assignments (b: target, a); body */
    QKV__N_GENERATION, /* body */
    QKV__N_BREAK, QKV__N_CONTINUE,
    QKV__N_MEMBER,    /* target: name.value, of a namespace */
    QKV__N_ELSE       /* holds statements in body */
} qkv__jinja_node_kind;

typedef struct qkv__jinja_node qkv__jinja_node;
struct qkv__jinja_node {
    qkv__jinja_node_kind kind;
    int line;
    qkv__jinja_str name;
    bool named;                    /* of a spread */
    qkv__jinja_value value;
    const void *row;               /* of a filter or test: its row in the table; NULL: none */
    qkv__jinja_node *a, *b, *c;
    qkv__jinja_node *list, *body;  /* the first of each; */
    qkv__jinja_node *next;         /* the others */
};

struct qkv__jinja {
    qkv_context *ctx;
    const char *name; /* of the file, for messages */
    const struct qkv__jinja_library *library;
    qkv__jinja_pool pool;
    qkv__jinja_node *body;
    bool generation; /* it marks what the model says */
};

/* ---- the parser's two halves ----------------------------------------------------------------- */

typedef struct {
    qkv__jinja *t;
    const qkv__jinja_token *at;
    size_t depth, loops; /* nested tags and brackets; loops around the place */
    qkv_status status;
} qkv__jinja_parser;

bool qkv__jinja_at(const qkv__jinja_parser *p, qkv__jinja_token_kind kind, const char *text);
bool qkv__jinja_skip(qkv__jinja_parser *p, qkv__jinja_token_kind kind, const char *text);
bool qkv__jinja_expect(qkv__jinja_parser *p, qkv__jinja_token_kind kind, const char *text);
qkv__jinja_str qkv__jinja_expect_name(qkv__jinja_parser *p);
void qkv__jinja_unexpected(qkv__jinja_parser *p, const char *expected);
qkv__jinja_node *qkv__jinja_node_new(qkv__jinja_parser *p, qkv__jinja_node_kind kind);
bool qkv__jinja_enter(qkv__jinja_parser *p); /* one level deeper; leave it with depth-- */

/* NULL after a failure. With `choice`, x if y else z is allowed outside of brackets. */
qkv__jinja_node *qkv__jinja_expression(qkv__jinja_parser *p);
qkv__jinja_node *qkv__jinja_tuple(qkv__jinja_parser *p, bool choice);
qkv__jinja_node *qkv__jinja_filter_chain(qkv__jinja_parser *p); /* after its first | */
qkv__jinja_node *qkv__jinja_postfix(qkv__jinja_parser *p); /* a call, for example */

qkv_status qkv__jinja_parse(qkv__jinja *t, const char *source, size_t length); /* fills body */

#endif
