/* value.h - values of a template: those of Python that JSON has, and a few more. They lie in a pool
 * that is freed at once and has a limit. */
#ifndef QKV_SRC_JINJA_VALUE_H
#define QKV_SRC_JINJA_VALUE_H

#include "jinja/string.h"

typedef enum {
    QKV__J_UNDEFINED, /* s: the name that has no value */
    QKV__J_NONE,
    QKV__J_BOOL,      /* i: 0 or 1 */
    QKV__J_INT,
    QKV__J_REAL,
    QKV__J_STRING,
    QKV__J_LIST,      /* of a kind, below */
    QKV__J_DICT,
    QKV__J_NAMESPACE, /* a dict whose entries templates may set */
    QKV__J_LOOP,      /* the variable `loop` */
    QKV__J_FUNCTION,  /* one of the table, of a string or dict if `self` is one */
    QKV__J_MACRO
} qkv__jinja_kind;

/* What Python distinguishes. A generator is true, has no length, and can be read once. */
typedef enum {
    QKV__J_PLAIN, QKV__J_TUPLE, QKV__J_RANGE, QKV__J_VIEW, QKV__J_GENERATOR
} qkv__jinja_list_kind;

typedef struct qkv__jinja_value qkv__jinja_value;
typedef struct qkv__jinja_list qkv__jinja_list;
typedef struct qkv__jinja_dict qkv__jinja_dict;
typedef struct qkv__jinja_loop qkv__jinja_loop;
typedef struct qkv__jinja_macro qkv__jinja_macro;
typedef struct qkv__jinja_method qkv__jinja_method;

struct qkv__jinja_value {
    qkv__jinja_kind kind;
    bool safe; /* a string that was marked so (markupsafe): + escapes the other one */
    union {
        int64_t i;
        double r;
        qkv__jinja_str s;
        qkv__jinja_list *list;
        qkv__jinja_dict *dict;
        qkv__jinja_loop *loop;
        qkv__jinja_macro *macro;
        const qkv__jinja_method *method;
    };
};

struct qkv__jinja_list {
    qkv__jinja_list_kind kind;
    qkv__jinja_value *items;
    size_t count, capacity;
};

struct qkv__jinja_dict {
    qkv__jinja_value *keys, *values; /* in the order in which they were set */
    size_t count, capacity;
};

static inline qkv__jinja_value qkv__j_none(void)
{
    return (qkv__jinja_value){.kind = QKV__J_NONE};
}
static inline qkv__jinja_value qkv__j_bool(bool b)
{
    return (qkv__jinja_value){.kind = QKV__J_BOOL, .i = b};
}
static inline qkv__jinja_value qkv__j_int(int64_t i)
{
    return (qkv__jinja_value){.kind = QKV__J_INT, .i = i};
}
static inline qkv__jinja_value qkv__j_real(double r)
{
    return (qkv__jinja_value){.kind = QKV__J_REAL, .r = r};
}
static inline qkv__jinja_value qkv__j_str(const char *data, size_t len)
{
    return (qkv__jinja_value){.kind = QKV__J_STRING, .s = {data, len}};
}
qkv__jinja_value qkv__j_text(const char *text); /* which must outlive it */
qkv__jinja_value qkv__j_undefined(qkv__jinja_str name);

static inline bool qkv__jinja_number(qkv__jinja_value v) /* for Python, True is 1 */
{
    return v.kind == QKV__J_BOOL || v.kind == QKV__J_INT || v.kind == QKV__J_REAL;
}
static inline double qkv__jinja_real(qkv__jinja_value v) /* of a number */
{
    return v.kind == QKV__J_REAL ? v.r : (double)v.i;
}

/* Lists and dicts; false, or a list NULL, when the pool is full. */
qkv__jinja_list *qkv__jinja_list_new(qkv__jinja_pool *p, qkv__jinja_list_kind kind);
bool qkv__jinja_push(qkv__jinja_pool *p, qkv__jinja_list *list, qkv__jinja_value v);
qkv__jinja_dict *qkv__jinja_dict_new(qkv__jinja_pool *p);
bool qkv__jinja_set(qkv__jinja_pool *p, qkv__jinja_dict *d, qkv__jinja_value key,
                    qkv__jinja_value v);
/* Keys are strings, numbers and None. */
const qkv__jinja_value *qkv__jinja_find(qkv__jinja_pool *p, const qkv__jinja_dict *d,
                                        qkv__jinja_value key);

/* A string that grows in the pool; no more is added once the pool is full. */
typedef struct {
    qkv__jinja_pool *pool;
    char *data;
    size_t len, capacity;
} qkv__jinja_text;

void qkv__jinja_add(qkv__jinja_text *t, const char *data, size_t len);
void qkv__jinja_puts(qkv__jinja_text *t, const char *text);
static inline qkv__jinja_value qkv__jinja_done(const qkv__jinja_text *t)
{
    return qkv__j_str(t->data ? t->data : "", t->len);
}

/* ---- as text --------------------------------------------------------------------------------- */

/* What str(v), or repr(v), gives. False for what has no such text: a generator, for example. */
bool qkv__jinja_print(qkv__jinja_text *out, qkv__jinja_value v, bool repr, size_t depth);

typedef struct {
    bool ascii, sort;
    qkv__jinja_str indent; /* of a level */
    bool lines;            /* indented, on lines of their own */
    qkv__jinja_str comma, colon;
} qkv__jinja_json;
/* What json.dumps gives. False for what JSON has no value for. */
bool qkv__jinja_dump(qkv__jinja_text *out, qkv__jinja_value v, const qkv__jinja_json *how,
                     size_t depth);

/* ---- comparing; depth bounds the recursion --------------------------------------------------- */

bool qkv__jinja_truth(qkv__jinja_value v);
bool qkv__jinja_equal(qkv__jinja_pool *p, qkv__jinja_value a, qkv__jinja_value b, size_t depth);
/* a < b: -1, a > b: 1. False if Python has no order for them. */
bool qkv__jinja_compare(qkv__jinja_pool *p, qkv__jinja_value a, qkv__jinja_value b, size_t depth,
                         int *out);
const char *qkv__jinja_kind_name(qkv__jinja_value v); /* "a string", for messages */

enum { QKV__JINJA_NESTED = 200 }; /* lists within lists */

#endif
