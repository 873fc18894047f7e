/* tests.c - `x is name`. */
#include <math.h>

#include "jinja/run.h"
#include "jinja/text.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;
typedef qkv__jinja_arguments arguments;

/* A test of the value alone. */
#define TEST(name, condition)                                                                      \
    static value test_##name(run *r, value v, const arguments *args)                               \
    {                                                                                              \
        (void)r;                                                                                   \
        (void)args;                                                                                \
        return qkv__j_bool(condition);                                                             \
    }
/* A test that compares it with the argument. */
#define TEST_WITH(name, operator, condition)                                                       \
    static value test_##name(run *r, value v, const arguments *args)                               \
    {                                                                                              \
        int order = 0;                                                                             \
        (void)order;                                                                               \
        value with = args->items[0];                                                               \
        if (operator && !qkv__jinja_compare(&r->pool, v, with, 0, &order))                         \
            return qkv__jinja_error(r, "%s and %s have no order", qkv__jinja_kind_name(v),         \
                                    qkv__jinja_kind_name(with));                                   \
        return qkv__j_bool(condition);                                                             \
    }

static bool same_case(run *r, value v, qkv__jinja_case *change)
{
    return qkv__jinja_same(qkv__jinja_change_case(r, v, change).s, qkv__jinja_string(r, v)) &&
           !qkv__jinja_same(qkv__jinja_change_case(r, v, qkv__jinja_lower).s,
                            qkv__jinja_change_case(r, v, qkv__jinja_upper).s);
}

TEST(defined, v.kind != QKV__J_UNDEFINED)
TEST(undefined, v.kind == QKV__J_UNDEFINED)
TEST(none, v.kind == QKV__J_NONE)
TEST(boolean, v.kind == QKV__J_BOOL)
TEST(true, v.kind == QKV__J_BOOL && v.i)
TEST(false, v.kind == QKV__J_BOOL && !v.i)
TEST(integer, v.kind == QKV__J_INT)
TEST(float, v.kind == QKV__J_REAL)
TEST(number, qkv__jinja_number(v))
TEST(string, v.kind == QKV__J_STRING)
TEST(mapping, v.kind == QKV__J_DICT)
TEST(iterable, v.kind == QKV__J_STRING || v.kind == QKV__J_LIST || v.kind == QKV__J_DICT ||
                   v.kind == QKV__J_UNDEFINED)
/* What has a length and items: a view of a dict has no items. */
TEST(sequence, v.kind == QKV__J_STRING || v.kind == QKV__J_DICT || v.kind == QKV__J_UNDEFINED ||
                   (v.kind == QKV__J_LIST && v.list->kind <= QKV__J_RANGE))
TEST(callable, v.kind == QKV__J_FUNCTION || v.kind == QKV__J_MACRO || v.kind == QKV__J_UNDEFINED)
TEST(lower, same_case(r, v, qkv__jinja_lower))
TEST(upper, same_case(r, v, qkv__jinja_upper))

/* Is v % by == rest? */
static bool leaves(run *r, value v, value by, int64_t rest)
{
    value found = qkv__jinja_binary(r, (qkv__jinja_str){"%", 1}, v, by);
    return qkv__jinja_equal(&r->pool, found, qkv__j_int(rest), 0);
}

TEST(even, leaves(r, v, qkv__j_int(2), 0))
TEST(odd, leaves(r, v, qkv__j_int(2), 1))
TEST_WITH(divisibleby, false, leaves(r, v, with, 0))
TEST_WITH(eq, false, qkv__jinja_equal(&r->pool, v, with, 0))
TEST_WITH(ne, false, !qkv__jinja_equal(&r->pool, v, with, 0))
TEST_WITH(lt, true, order < 0)
TEST_WITH(le, true, order <= 0)
TEST_WITH(gt, true, order > 0)
TEST_WITH(ge, true, order >= 0)
TEST_WITH(in, false, qkv__jinja_contains(r, with, v))
/* Of objects: the same; of others, which Python may keep once or not: equal and of one kind. */
TEST_WITH(sameas, false, v.kind == with.kind && (v.kind == QKV__J_LIST || v.kind == QKV__J_DICT
                                                     ? v.list == with.list
                                                     : qkv__jinja_equal(&r->pool, v, with, 0)))

static value test_filter(run *r, value v, const arguments *args)
{
    (void)args;
    return qkv__j_bool(qkv__jinja_filter_of(r->t, qkv__jinja_string(r, v)) != NULL);
}

#define ALONE(name) {#name, test_##name, 0, 0, {NULL}}
#define WITH(name, fn) {name, test_##fn, 1, 1, {NULL}}
const qkv__jinja_row qkv__jinja_tests[] = {
    ALONE(boolean), ALONE(callable), ALONE(defined), ALONE(even), ALONE(false), ALONE(filter),
    ALONE(float), ALONE(integer), ALONE(iterable), ALONE(lower), ALONE(mapping), ALONE(none),
    ALONE(number), ALONE(odd), ALONE(sequence), ALONE(string), ALONE(true), ALONE(undefined),
    ALONE(upper),
    WITH("divisibleby", divisibleby), WITH("eq", eq), WITH("==", eq), WITH("equalto", eq),
    WITH("ne", ne), WITH("!=", ne), WITH("lt", lt), WITH("<", lt), WITH("lessthan", lt),
    WITH("le", le), WITH("<=", le), WITH("gt", gt), WITH(">", gt), WITH("greaterthan", gt),
    WITH("ge", ge), WITH(">=", ge), WITH("in", in), WITH("sameas", sameas),
    {NULL, NULL, 0, 0, {NULL}}};
