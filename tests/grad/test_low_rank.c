/* test_low_rank.c - low-rank terms of frozen matrices: gradients of linear layers and feed-forward
 * networks that have them, and the same numbers once they are merged. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "qkv/extend.h"
#include "qkv/nn.h"
#include "tensor/make.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 2, T = 20, IN = 5, WIDE = 7, OUT = 4, R = 2, MOST_TERMS = 4 };
static const double tolerance = 1e-7, same = 1e-12;

/* A term of the first or of the second matrix. */
typedef struct {
    bool second;
    size_t from, rows;
    double scale, dropout;
} term;

typedef struct {
    const char *name;
    qkv_activation act;
    bool network, trains; /* two layers as one op; dropout drops */
    term terms[MOST_TERMS];
} low_rank_case;

static const low_rank_case cases[] = {
    {"linear", QKV_ACT_NONE, .terms = {{.rows = WIDE, .scale = 0.7}}},
    {"rows", QKV_ACT_NONE, .terms = {{.from = 2, .rows = 3, .scale = 2},
                                     {.from = 5, .rows = 2, .scale = -1}}},
    {"activation", QKV_ACT_GELU, .terms = {{.rows = WIDE, .scale = 0.5},
                                           {.rows = WIDE, .scale = 0.25}}},
    {"left out", QKV_ACT_SILU, .terms = {{.rows = WIDE}, {.from = 1, .rows = 4, .scale = 1.5}}},
    {"dropout", QKV_ACT_NONE, .trains = true, .terms = {{.rows = WIDE, .scale = 1, .dropout = 0.4},
                                                        {.rows = 3, .scale = 1, .dropout = 0.4}}},
    {"network, first", QKV_ACT_GELU, .network = true, .terms = {{.rows = WIDE, .scale = 1.1}}},
    {"network, second", QKV_ACT_RELU, .network = true,
     .terms = {{.second = true, .rows = OUT, .scale = 0.9}}},
    {"network, both", QKV_ACT_GELU_TANH, .network = true, .trains = true,
     .terms = {{.rows = WIDE, .scale = 1},
               {.second = true, .rows = OUT, .scale = 1, .dropout = 0.3},
               {.from = 3, .rows = 4, .scale = 0.5, .dropout = 0.3},
               {.second = true, .from = 1, .rows = 2, .scale = 2}}},
};

typedef struct {
    const low_rank_case *c;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *x, *up, *up_bias, *down, *down_bias;
} fixture;

static qkv_param *param(fixture *f, const char *name, int ndim, const size_t *shape)
{
    qkv_param *p = qkv_param_create(f->ps, name, ndim, shape);
    assert_non_null(p);
    assert_int_equal(qkv_param_init(p, QKV_INIT_NORMAL, 0.6, 4), QKV_OK);
    return p;
}

static void add_terms(fixture *f)
{
    for (size_t i = 0; i < MOST_TERMS && f->c->terms[i].rows; i++) {
        const term *x = &f->c->terms[i];
        char a[16], b[16];
        snprintf(a, sizeof a, "A%zu", i);
        snprintf(b, sizeof b, "B%zu", i);
        const size_t a_shape[] = {R, x->second ? WIDE : IN}, b_shape[] = {x->rows, R};
        const qkv__low_rank l = {.a = param(f, a, 2, a_shape), .b = param(f, b, 2, b_shape),
                                 .from = x->from, .scale = x->scale, .dropout = x->dropout,
                                 .dropout_id = (uint32_t)i};
        assert_int_equal(qkv__param_add_term(x->second ? f->down : f->up, &l, NULL), QKV_OK);
        qkv_param_freeze(l.a, x->scale == 0);
        qkv_param_freeze(l.b, x->scale == 0);
    }
}

static void make(fixture *f, const low_rank_case *c)
{
    *f = (fixture){.c = c};
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    assert_int_equal(qkv_params_create(&f->ps, f->ctx), QKV_OK);
    f->x = param(f, "x", 3, (const size_t[]){B, T, IN});
    f->up = qkv__param_linear(param(f, "up", 2, (const size_t[]){WIDE, IN}));
    f->down = qkv__param_linear(param(f, "down", 2, (const size_t[]){OUT, WIDE}));
    f->up_bias = param(f, "up_bias", 1, (const size_t[]){WIDE});
    f->down_bias = param(f, "down_bias", 1, (const size_t[]){OUT});
    qkv_params_freeze(f->ps, true);
    qkv_param_freeze(f->x, false);
    add_terms(f);
}

static void drop(fixture *f)
{
    qkv_params_destroy(f->ps);
    qkv_tape_destroy(f->t);
    qkv_context_destroy(f->ctx);
}

static qkv_tensor *forward(const fixture *f, qkv_tape *t)
{
    const qkv__layer up = {qkv_use(t, f->up), qkv_use(t, f->up_bias)};
    const qkv__layer down = {qkv_use(t, f->down), qkv_use(t, f->down_bias)};
    qkv_tensor *x = qkv_use(t, f->x);
    return f->c->network ? qkv__feed_forward(t, x, &up, f->c->act, &down)
                         : qkv_linear(t, x, up.weight, up.bias, f->c->act);
}

static qkv_tensor *loss(void *user, qkv_tape *t)
{
    qkv_tensor *y = forward(user, t);
    return qkv_sum(t, qkv_mul(t, y, y));
}

static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fixture f;
        make(&f, &cases[i]);
        const qkv_gradient_options o = {.tolerance = tolerance, .train = cases[i].trains,
                                        .samples = 1000};
        if (qkv_gradient_check(f.ps, loss, &f, &o, NULL))
            fail_msg("%s: %s", cases[i].name, qkv_context_message(f.ctx));
        drop(&f);
    }
}

/* Recorded, not recorded, row by row on an invariant tape, and merged: without dropout all are the
 * same numbers but for rounding. */
static void values(const fixture *f, bool records, bool invariant, double *out)
{
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, records, false);
    qkv_tape_batch_invariant(f->t, invariant);
    const qkv_tensor *y = forward(f, f->t);
    if (!y)
        fail_msg("%s: %s", f->c->name, qkv_context_message(f->ctx));
    const double *data = qkv_data(f->t, y);
    for (size_t i = 0; i < qkv_count(y); i++)
        out[i] = data[i];
}

static void test_merged(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fixture f;
        static double at[4][B * T * WIDE];
        make(&f, &cases[i]);
        values(&f, true, false, at[0]);
        values(&f, false, false, at[1]);
        values(&f, false, true, at[2]);
        qkv_tape_reset(f.t);
        assert_int_equal(qkv__param_merge_terms(f.up), QKV_OK);
        assert_int_equal(qkv__param_merge_terms(f.down), QKV_OK);
        values(&f, false, false, at[3]);
        for (size_t k = 1; k < 4; k++)
            for (size_t j = 0; j < B * T * (cases[i].network ? OUT : WIDE); j++)
                if (!(fabs(at[k][j] - at[0][j]) <= same * (1 + fabs(at[0][j]))))
                    fail_msg("%s: way %zu, number %zu is %.17g, recorded %.17g", cases[i].name, k,
                             j, at[k][j], at[0][j]);
        drop(&f);
    }
}

static void expect(const fixture *f, qkv_status status, const char *sentence)
{
    assert_int_not_equal(status, QKV_OK);
    assert_string_equal(qkv_context_message(f->ctx), sentence);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f;
    make(&f, &cases[0]);
    qkv_param *a = param(&f, "a", 2, (const size_t[]){R, IN});
    qkv_param *b = param(&f, "b", 2, (const size_t[]){3, R});
    qkv__low_rank l = {.a = a, .b = b, .from = WIDE - 2, .scale = 1};
    expect(&f, qkv__param_add_term(f.up, &l, NULL),
           "up, 7 x 5: a low-rank term of 3 x 2 times 2 x 5 at row 5 does not fit");
    l.from = SIZE_MAX;
    assert_int_equal(qkv__param_add_term(f.up, &l, NULL), QKV_E_SHAPE);
    l.from = 0;
    expect(&f, qkv__param_add_term(f.down, &l, NULL),
           "down, 4 x 7: a low-rank term of 3 x 2 times 2 x 5 at row 0 does not fit");
    expect(&f, qkv__param_add_term(f.x, &l, NULL),
           "x is not the matrix of a linear layer: it cannot have a low-rank term");
    qkv_status status = QKV_OK;
    size_t n = 0;
    for (; !status && n < 2 * QKV__TERMS; n++)
        status = qkv__param_add_term(f.up, &l, NULL);
    expect(&f, status, "up: at most 24 low-rank terms expected");
    assert_int_equal(n, QKV__TERMS); /* one was there */
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_merged),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
