/* test_lend.c - activations in memory of gradients: the numbers of a tape that borrows nothing, to
 * the bit, whatever becomes of the order in which gradients are written. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "tensor/param.h"
#include "tensor/tape.h"

enum { ROWS = 24, C = 32, LAYERS = 5, PER_LAYER = 5 };

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
} fixture;

/* A layer: a linear one that products alone read, then a feed-forward network. */
enum { W, UP, UP_BIAS, DOWN, DOWN_BIAS };

static qkv_params *new_params(qkv_context *ctx)
{
    static const size_t square[] = {C, C}, up[] = {2 * C, C}, down[] = {C, 2 * C};
    static const size_t rows[] = {C, 2 * C};
    const struct {
        int ndim;
        const size_t *shape;
    } kinds[PER_LAYER] = {{2, square}, {2, up}, {1, rows + 1}, {2, down}, {1, rows}};
    qkv_params *ps = NULL;
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    qkv_rng r;
    qkv_rng_init(&r, 7, 1);
    for (int i = 0; i < LAYERS * PER_LAYER; i++) {
        qkv_param *p = qkv_param_create(ps, "w", kinds[i % PER_LAYER].ndim,
                                        kinds[i % PER_LAYER].shape);
        qkv_real *x = qkv_param_data(p);
        for (size_t j = 0; j < qkv_param_count(p); j++)
            x[j] = (qkv_real)(0.2 * qkv_rng_normal(&r));
        qkv_param_touch(p);
    }
    return ps;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    params_begin(&f->ctx, &f->t, &f->ps);
    qkv_params_destroy(f->ps);
    f->ps = new_params(f->ctx);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    params_end(f->ctx, f->t, f->ps);
    free(f);
    return 0;
}

/* ---- passes --------------------------------------------------------------------------------- */

static qkv_tensor *use(qkv_tape *t, qkv_params *ps, int layer, int which)
{
    return qkv_use(t, qkv_params_at(ps, (size_t)(layer * PER_LAYER + which)));
}

static qkv_tensor *run_layer(qkv_tape *t, qkv_params *ps, int i, qkv_tensor *x)
{
    qkv__for_products(t, true);
    qkv_tensor *y = qkv_linear(t, x, use(t, ps, i, W), NULL, QKV_ACT_NONE);
    qkv__for_products(t, false);
    const qkv__layer up = {use(t, ps, i, UP), use(t, ps, i, UP_BIAS)};
    const qkv__layer down = {use(t, ps, i, DOWN), use(t, ps, i, DOWN_BIAS)};
    return qkv_add(t, x, qkv__feed_forward(t, y, &up, QKV_ACT_GELU, &down));
}

/* Through the layers of the list; a probe that is met nowhere keeps the tape from borrowing. */
static qkv_tensor *forward(const fixture *f, qkv_tape *t, const int *layers, int n, bool lend)
{
    enum { N = ROWS * C };
    static qkv_real input[N];
    const size_t shape[] = {ROWS, C};
    qkv_tape_mode(t, true, true);
    qkv_probes_clear(t);
    if (!lend)
        assert_int_equal(qkv_probe_add(t, "nowhere", NULL, NULL), QKV_OK);
    for (int i = 0; i < N; i++)
        input[i] = (qkv_real)(0.5 + i % 11 - 5) / 5;
    qkv_tensor *x = qkv_tensor_from(t, input, 2, shape);
    for (int i = 0; i < n; i++)
        x = run_layer(t, f->ps, layers[i], x);
    qkv_tensor *loss = qkv_mean(t, qkv_mul(t, x, x));
    assert_int_equal(qkv_tape_status(t), QKV_OK);
    return loss;
}

static const int in_turn[LAYERS] = {0, 1, 2, 3, 4};

/* The bytes that are lent now. */
static size_t lent(const fixture *f) { return qkv__lent(qkv__params_lending(f->ps)); }
static bool lends(const fixture *f) { return !qkv__context_device(f->ctx)->keeps; }

/* Every gradient that there is. */
typedef struct {
    qkv_real *x;
    size_t n;
} numbers;

static numbers gradients(const fixture *f)
{
    numbers all = {0};
    for (size_t i = 0; i < qkv_params_count(f->ps); i++) {
        qkv_param *p = qkv_params_at(f->ps, i);
        if (!qkv__param_has_grad(p))
            continue;
        all.x = realloc(all.x, (all.n + qkv_param_count(p)) * sizeof *all.x);
        memcpy(all.x + all.n, qkv_param_grad(p), qkv_param_count(p) * sizeof *all.x);
        all.n += qkv_param_count(p);
    }
    return all;
}

static void same(const fixture *f, const numbers *want)
{
    numbers got = gradients(f);
    assert_int_equal(got.n, want->n);
    assert_memory_equal(got.x, want->x, got.n * sizeof *got.x);
    free(got.x);
}

static void begin_step(const fixture *f)
{
    qkv_tape_reset(f->t);
    qkv_params_zero_grad(f->ps);
}

/* The gradients of a step that borrows nothing. */
static numbers without(const fixture *f, const int *layers, int n)
{
    begin_step(f);
    assert_int_equal(qkv_backward(f->t, forward(f, f->t, layers, n, false)), QKV_OK);
    return gradients(f);
}

/* The gradients are those of a step that borrows nothing, to the bit. */
static void as_without(const fixture *f)
{
    numbers got = gradients(f), want = without(f, in_turn, LAYERS);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.x, want.x, got.n * sizeof *got.x);
    free(got.x);
    free(want.x);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void same_bits(void **state)
{
    fixture *f = *state;
    const size_t layer = ROWS * 3 * C * sizeof(qkv_real);
    size_t bytes = 0; /* of values and gradients: none moves to memory of its own */
    for (int step = 0; step < 3; step++) {
        begin_step(f);
        qkv_tensor *loss = forward(f, f->t, in_turn, LAYERS, true);
        const size_t with = qkv_tape_used(f->t);
        assert_int_equal(lent(f), lends(f) ? (LAYERS - 1) * layer : 0);
        assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        assert_int_equal(lent(f), 0);
        as_without(f);
        if (lends(f))
            assert_true(with + 4 * layer < qkv_tape_used(f->t));
        bytes = step ? bytes : qkv_params_bytes(f->ps);
        assert_int_equal(qkv_params_bytes(f->ps), bytes);
    }
}

/* A layer that is used twice writes its gradients while the second use's neighbours still borrow
 * from them. */
static void used_again(void **state)
{
    static const int twice[] = {0, 1, 2, 0, 3, 4, 1};
    enum { N = sizeof twice / sizeof *twice };
    fixture *f = *state;
    for (int step = 0; step < 2; step++) {
        begin_step(f);
        assert_int_equal(qkv_backward(f->t, forward(f, f->t, twice, N, true)), QKV_OK);
        numbers want = without(f, twice, N);
        begin_step(f);
        assert_int_equal(qkv_backward(f->t, forward(f, f->t, twice, N, true)), QKV_OK);
        same(f, &want);
        free(want.x);
    }
}

/* What an earlier pass left in a gradient stays. */
static void added_up(void **state)
{
    fixture *f = *state;
    numbers want[2];
    for (int lend = 0; lend < 2; lend++) {
        begin_step(f);
        for (int pass = 0; pass < 3; pass++) {
            qkv_tape_reset(f->t);
            qkv_tensor *loss = forward(f, f->t, in_turn, LAYERS - pass, lend);
            assert_int_equal(lent(f) > 0, lend && pass == 0 && lends(f));
            assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        }
        want[lend] = gradients(f);
    }
    assert_int_equal(want[0].n, want[1].n);
    assert_memory_equal(want[0].x, want[1].x, want[0].n * sizeof *want[0].x);
    free(want[0].x);
    free(want[1].x);
}

/* A pass that keeps its graph needs what it borrowed for the next one. */
static void retained(void **state)
{
    fixture *f = *state;
    numbers want = without(f, in_turn, LAYERS);
    begin_step(f);
    qkv_tensor *loss = forward(f, f->t, in_turn, LAYERS, true);
    const qkv_backward_args args = {.n = 1, .outputs = &loss, .retain_graph = true};
    for (int pass = 0; pass < 3; pass++) {
        qkv_params_zero_grad(f->ps);
        assert_int_equal(qkv_backward_from(f->t, &args), QKV_OK);
        same(f, &want);
    }
    free(want.x);
}

/* One of two tapes borrows; the other's gradients go elsewhere. */
static void two_tapes(void **state)
{
    fixture *f = *state;
    qkv_tape *second = NULL;
    numbers want = without(f, in_turn, LAYERS);
    assert_int_equal(qkv_tape_create(&second, f->ctx), QKV_OK);
    begin_step(f);
    qkv_tensor *first = forward(f, f->t, in_turn, LAYERS, true);
    const size_t borrowed = lent(f);
    qkv_tensor *loss = forward(f, second, in_turn, LAYERS, true);
    assert_int_equal(lent(f), borrowed);
    assert_int_equal(qkv_backward(second, loss), QKV_OK);
    same(f, &want);
    qkv_params_zero_grad(f->ps);
    assert_int_equal(qkv_backward(f->t, first), QKV_OK);
    same(f, &want);
    qkv_params_zero_grad(f->ps); /* the first tape's pass is over: the second may borrow */
    qkv_tape_reset(second);
    (void)forward(f, second, in_turn, LAYERS, true);
    assert_int_equal(lent(f) > 0, lends(f));
    qkv_tape_destroy(second);
    free(want.x);
}

/* Tapes and parameters that go while something is lent. */
static void gone(void **state)
{
    fixture *f = *state;
    numbers want = without(f, in_turn, LAYERS);
    begin_step(f);
    (void)forward(f, f->t, in_turn, LAYERS, true);
    qkv_tape_destroy(f->t);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    qkv_tensor *loss = forward(f, f->t, in_turn, LAYERS, true);
    assert_int_equal(lent(f) > 0, lends(f));
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    same(f, &want);
    begin_step(f);
    (void)forward(f, f->t, in_turn, LAYERS, true);
    qkv_params_destroy(f->ps);
    f->ps = new_params(f->ctx);
    begin_step(f);
    assert_int_equal(qkv_backward(f->t, forward(f, f->t, in_turn, LAYERS, true)), QKV_OK);
    same(f, &want);
    free(want.x);
}

/* Frozen parameters and tables have no part in it; what is thawed later has memory of its own. */
static void some_frozen(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 2 * PER_LAYER; i++)
        qkv_param_freeze(qkv_params_at(f->ps, i), true);
    qkv__param_table(qkv_params_at(f->ps, 2 * PER_LAYER + W));
    for (int step = 0; step < 3; step++) {
        if (step == 1)
            qkv_params_freeze(f->ps, false);
        begin_step(f);
        qkv_tensor *loss = forward(f, f->t, in_turn, LAYERS, true);
        assert_int_equal(lent(f) > 0, lends(f));
        assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        as_without(f);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(same_bits), TEST(used_again), TEST(added_up),
                                       TEST(retained), TEST(two_tapes), TEST(gone),
                                       TEST(some_frozen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
