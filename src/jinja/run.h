/* run.h - what a rendering knows, shared by statements, expressions, filters and functions. */
#ifndef QKV_SRC_JINJA_RUN_H
#define QKV_SRC_JINJA_RUN_H

#include "jinja/node.h"
#include "jinja/spans.h"

typedef struct qkv__jinja_scope qkv__jinja_scope;
struct qkv__jinja_scope {
    qkv__jinja_dict names;
    qkv__jinja_scope *outer;
};

struct qkv__jinja_loop {
    const qkv__jinja_value *items;
    size_t index, count;
};

struct qkv__jinja_macro {
    const qkv__jinja_node *node;
    qkv__jinja_scope *scope; /* where it was defined */
};

/* Arguments of a call. */
typedef struct {
    qkv__jinja_value *items;
    size_t count;
    qkv__jinja_dict named;
} qkv__jinja_arguments;

typedef struct qkv__jinja_run qkv__jinja_run;
typedef qkv__jinja_value qkv__jinja_macro_fn(qkv__jinja_run *r, const qkv__jinja_macro *m,
                                             const qkv__jinja_arguments *args);

struct qkv__jinja_run {
    const qkv__jinja *t;
    qkv_context *ctx;
    qkv__jinja_pool pool;
    qkv__jinja_text out; /* of the innermost macro or captured block */
    bool inner;          /* out is not the rendering itself */
    qkv__jinja_value block; /* what the block printed whose filters are applied next */
    qkv__jinja_scope *scope;
    qkv__jinja_spans *spans; /* may be NULL */
    int64_t now;
    int line;
    size_t depth;
    enum { QKV__J_GO, QKV__J_BREAK, QKV__J_CONTINUE } flow;
    qkv_status status; /* the first failure; nothing happens after it */
    qkv__jinja_macro_fn *call_macro;
};

/* Functions, filters, tests and methods return any value after this. */
qkv__jinja_value qkv__jinja_error(qkv__jinja_run *r, const char *fmt, ...) QKV_PRINTF(2, 3);

typedef qkv__jinja_value qkv__jinja_fn(qkv__jinja_run *r, qkv__jinja_value self,
                                       const qkv__jinja_arguments *args);

/* A filter, test, method or function of the table: `self` is what it is applied to. */
typedef struct {
    const char *name;
    qkv__jinja_fn *fn;
    size_t least, most;     /* positional and named arguments */
    const char *names[4];   /* of the arguments, in their order */
} qkv__jinja_row;

/* The rows end with one whose name is NULL. */
extern const qkv__jinja_row qkv__jinja_filters[], qkv__jinja_list_filters[], qkv__jinja_tests[],
    qkv__jinja_string_methods[], qkv__jinja_dict_methods[], qkv__jinja_functions[];

/* What a template may use, which the parts that use it do not name. */
typedef struct qkv__jinja_library {
    const qkv__jinja_row *filters, *list_filters, *tests, *string_methods, *dict_methods,
        *functions;
} qkv__jinja_library;

const qkv__jinja_row *qkv__jinja_row_of(const qkv__jinja_row *rows, qkv__jinja_str name);
const qkv__jinja_row *qkv__jinja_filter_of(const qkv__jinja *t, qkv__jinja_str name);
/* A row as a value that can be called, of self if it is a method. */
qkv__jinja_value qkv__jinja_bound(qkv__jinja_run *r, const qkv__jinja_row *row,
                                  qkv__jinja_value self);

struct qkv__jinja_method {
    const qkv__jinja_row *row;
    qkv__jinja_value self;
};

/* Calls a row; checks the number and names of arguments first. */
qkv__jinja_value qkv__jinja_apply(qkv__jinja_run *r, const qkv__jinja_row *row,
                                  const char *what, qkv__jinja_value self,
                                  const qkv__jinja_arguments *args);
/* Argument i, by place or name; undefined if it was not given. */
qkv__jinja_value qkv__jinja_argument(const qkv__jinja_arguments *args, const char *name, size_t i);
qkv__jinja_value qkv__jinja_call(qkv__jinja_run *r, qkv__jinja_value f,
                                 const qkv__jinja_arguments *args);

qkv__jinja_value qkv__jinja_evaluate(qkv__jinja_run *r, const qkv__jinja_node *n);
/* The arguments of a call, filter or test. False: a failure. */
bool qkv__jinja_evaluate_arguments(qkv__jinja_run *r, const qkv__jinja_node *list,
                                   qkv__jinja_arguments *out);
void qkv__jinja_execute(qkv__jinja_run *r, const qkv__jinja_node *first);
/* What a block prints, in a scope of its own. */
qkv__jinja_value qkv__jinja_captured(qkv__jinja_run *r, const qkv__jinja_node *body);
qkv__jinja_macro_fn qkv__jinja_call_macro;

bool qkv__jinja_push_scope(qkv__jinja_run *r, qkv__jinja_scope *outer);
/* The value of a name in the scope and those around it; NULL: it has none. */
const qkv__jinja_value *qkv__jinja_lookup(qkv__jinja_run *r, qkv__jinja_str name);

/* The entries of a dict as tuples. */
qkv__jinja_value qkv__jinja_entries(qkv__jinja_run *r, const qkv__jinja_dict *d,
                                    qkv__jinja_list_kind kind);
/* self.name and self[key], with undefined for what is not there. */
qkv__jinja_value qkv__jinja_attribute(qkv__jinja_run *r, qkv__jinja_value self,
                                      qkv__jinja_str name);
qkv__jinja_value qkv__jinja_item(qkv__jinja_run *r, qkv__jinja_value self, qkv__jinja_value key);
qkv__jinja_value qkv__jinja_slice(qkv__jinja_run *r, qkv__jinja_value self,
                                  const qkv__jinja_value bounds[3]);
qkv__jinja_value qkv__jinja_binary(qkv__jinja_run *r, qkv__jinja_str op, qkv__jinja_value a,
                                   qkv__jinja_value b);
bool qkv__jinja_contains(qkv__jinja_run *r, qkv__jinja_value in, qkv__jinja_value v);

/* The elements of what can be iterated over: characters, keys of a dict. A generator is empty
 * afterwards. NULL: a failure. */
qkv__jinja_list *qkv__jinja_iterate(qkv__jinja_run *r, qkv__jinja_value v);
/* str(v). */
qkv__jinja_str qkv__jinja_string(qkv__jinja_run *r, qkv__jinja_value v);
void qkv__jinja_write(qkv__jinja_run *r, qkv__jinja_text *out, qkv__jinja_value v);
qkv__jinja_value qkv__jinja_of_list(qkv__jinja_run *r, qkv__jinja_list *list);
bool qkv__jinja_enter_run(qkv__jinja_run *r, int line); /* one level deeper; leave: depth-- */
bool qkv__jinja_check(qkv__jinja_run *r); /* false: it has failed, or a limit is reached */

#endif
