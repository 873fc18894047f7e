/* operators.c - arithmetic and joining, as in Python. */
#include <math.h>
#include <string.h>

#include "jinja/run.h"

typedef qkv__jinja_value value;
typedef qkv__jinja_run run;

static value no_operator(run *r, qkv__jinja_str op, value a, value b)
{
    return qkv__jinja_error(r, "%s %.*s %s is not defined", qkv__jinja_kind_name(a), (int)op.len,
                            op.data, qkv__jinja_kind_name(b));
}

/* ---- strings and lists ----------------------------------------------------------------------- */

/* markupsafe: what was not marked safe is escaped when it is joined with what was. */
static void join_escaped(qkv__jinja_text *out, value v, bool escape)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    if (!escape || v.safe) {
        qkv__jinja_add(out, v.s.data, v.s.len);
        return;
    }
    for (size_t i = 0; i < v.s.len; i++) {
        const char *found = v.s.data[i] ? strchr(from, v.s.data[i]) : NULL;
        if (found)
            qkv__jinja_puts(out, to[found - from]);
        else
            qkv__jinja_add(out, v.s.data + i, 1);
    }
}

static value add_strings(run *r, value a, value b)
{
    qkv__jinja_text out = {.pool = &r->pool};
    bool escape = a.safe || b.safe;
    join_escaped(&out, a, escape);
    join_escaped(&out, b, escape);
    value v = qkv__jinja_done(&out);
    v.safe = escape;
    return v;
}

static value add_lists(run *r, const qkv__jinja_list *a, const qkv__jinja_list *b)
{
    qkv__jinja_list *out = qkv__jinja_list_new(&r->pool, a->kind);
    (void)qkv__jinja_work(&r->pool, a->count + b->count);
    for (size_t i = 0; i < a->count + b->count && !r->pool.full; i++)
        (void)qkv__jinja_push(&r->pool, out,
                              i < a->count ? a->items[i] : b->items[i - a->count]);
    return qkv__jinja_of_list(r, out);
}

static value repeat(run *r, value v, int64_t times)
{
    if (v.kind == QKV__J_LIST) {
        qkv__jinja_list *list = qkv__jinja_list_new(&r->pool, v.list->kind);
        for (; v.list->count && times > 0 && !r->pool.full; times--)
            for (size_t i = 0; i < v.list->count && qkv__jinja_work(&r->pool, 1); i++)
                (void)qkv__jinja_push(&r->pool, list, v.list->items[i]);
        return qkv__jinja_of_list(r, list);
    }
    qkv__jinja_text out = {.pool = &r->pool};
    for (; v.s.len && times > 0 && qkv__jinja_work(&r->pool, 1); times--)
        qkv__jinja_add(&out, v.s.data, v.s.len);
    value text = qkv__jinja_done(&out);
    text.safe = v.safe;
    return text;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool times_fits(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    return y == 0 || x <= (uint64_t)INT64_MAX / y;
}

static bool plus_fits(int64_t a, int64_t b)
{
    return b > 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;
}

static value too_large(run *r) { return qkv__jinja_error(r, "an integer is too large"); }

/* b is not 0. */
static value divide_integers(run *r, char op, int64_t a, int64_t b)
{
    if (b == -1)
        return op == '%' ? qkv__j_int(0) : a == INT64_MIN ? too_large(r) : qkv__j_int(-a);
    int64_t quotient = a / b, rest = a % b;
    if (rest && (rest < 0) != (b < 0)) { /* Python rounds down */
        quotient--;
        rest += b;
    }
    return qkv__j_int(op == '%' ? rest : quotient);
}

static value power_integers(run *r, int64_t a, int64_t b)
{
    int64_t out = 1;
    if (b < 0)
        return qkv__j_real(pow((double)a, (double)b));
    for (; b > 0 && qkv__jinja_work(&r->pool, 1); b--) {
        if (!times_fits(out, a))
            return too_large(r);
        out *= a;
    }
    return qkv__j_int(out);
}

static value compute_integers(run *r, qkv__jinja_str op, int64_t a, int64_t b)
{
    if (qkv__jinja_is(op, "+"))
        return plus_fits(a, b) ? qkv__j_int(a + b) : too_large(r);
    if (qkv__jinja_is(op, "-"))
        return b > INT64_MIN && plus_fits(a, -b) ? qkv__j_int(a - b) : too_large(r);
    if (qkv__jinja_is(op, "*"))
        return times_fits(a, b) ? qkv__j_int(a * b) : too_large(r);
    if (qkv__jinja_is(op, "**"))
        return power_integers(r, a, b);
    if (!b)
        return qkv__jinja_error(r, "division by zero");
    if (qkv__jinja_is(op, "/"))
        return qkv__j_real((double)a / (double)b);
    return divide_integers(r, op.data[0], a, b);
}

static value compute_reals(run *r, qkv__jinja_str op, double a, double b)
{
    if (qkv__jinja_is(op, "+"))
        return qkv__j_real(a + b);
    if (qkv__jinja_is(op, "-"))
        return qkv__j_real(a - b);
    if (qkv__jinja_is(op, "*"))
        return qkv__j_real(a * b);
    if (qkv__jinja_is(op, "**"))
        return qkv__j_real(pow(a, b));
    if (!(b < 0 || b > 0))
        return qkv__jinja_error(r, "division by zero");
    if (qkv__jinja_is(op, "/"))
        return qkv__j_real(a / b);
    double rest = fmod(a, b); /* Python rounds down, so that it has the sign of b */
    if (!(rest < 0 || rest > 0))
        rest = copysign(0, b);
    else if ((rest < 0) != (b < 0))
        rest += b;
    return qkv__j_real(op.data[0] == '%' ? rest : nearbyint((a - rest) / b));
}

/* ---- all ------------------------------------------------------------------------------------- */

static value percent(run *r, value format, value v)
{
    qkv__jinja_arguments args = {.items = &v, .count = 1};
    if (v.kind == QKV__J_LIST && v.list->kind == QKV__J_TUPLE) {
        args.items = v.list->items;
        args.count = v.list->count;
    }
    return qkv__jinja_filter_of(r->t, (qkv__jinja_str){"format", 6})->fn(r, format, &args);
}

value qkv__jinja_binary(run *r, qkv__jinja_str op, value a, value b)
{
    bool plus = qkv__jinja_is(op, "+"), times = qkv__jinja_is(op, "*");
    bool counted = b.kind == QKV__J_INT || b.kind == QKV__J_BOOL;
    if (qkv__jinja_is(op, "~"))
        return add_strings(r, (value){.kind = QKV__J_STRING, .s = qkv__jinja_string(r, a)},
                           (value){.kind = QKV__J_STRING, .s = qkv__jinja_string(r, b)});
    if (qkv__jinja_number(a) && qkv__jinja_number(b)) {
        if (a.kind == QKV__J_REAL || b.kind == QKV__J_REAL)
            return compute_reals(r, op, qkv__jinja_real(a), qkv__jinja_real(b));
        return compute_integers(r, op, a.i, b.i);
    }
    if (a.kind == QKV__J_STRING && qkv__jinja_is(op, "%"))
        return percent(r, a, b);
    if (times && (a.kind == QKV__J_INT || a.kind == QKV__J_BOOL))
        return qkv__jinja_number(b) || b.kind == a.kind ? no_operator(r, op, a, b)
                                                        : qkv__jinja_binary(r, op, b, a);
    if (a.kind == QKV__J_STRING && ((plus && b.kind == a.kind) || (times && counted)))
        return plus ? add_strings(r, a, b) : repeat(r, a, b.i);
    if (a.kind == QKV__J_LIST && a.list->kind <= QKV__J_TUPLE) {
        if (times && counted)
            return repeat(r, a, b.i);
        if (plus && b.kind == QKV__J_LIST && b.list->kind == a.list->kind)
            return add_lists(r, a.list, b.list);
    }
    if (a.kind == QKV__J_UNDEFINED || b.kind == QKV__J_UNDEFINED) {
        qkv__jinja_str name = a.kind == QKV__J_UNDEFINED ? a.s : b.s;
        return qkv__jinja_error(r, "\"%.*s\" is undefined", (int)name.len, name.data);
    }
    return no_operator(r, op, a, b);
}
