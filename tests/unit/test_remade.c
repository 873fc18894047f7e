/* test_remade.c - tensors that the forward pass lets go and the backward pass makes again: the
 * numbers of a tape that keeps them, to the bit, in less memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "tensor/tape.h"

enum { B = 2, SIDE = 12, C = 32, GROUPS = 4, MATRICES = 6, CONVS = 2 };

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *conv[CONVS], *matrix[MATRICES], *scale, *shift;
    bool remade;
} fixture;

static qkv_param *filled(fixture *f, int ndim, const size_t *shape, uint64_t seed)
{
    qkv_param *p = qkv_param_create(f->ps, "w", ndim, shape);
    qkv_rng r;
    qkv_rng_init(&r, seed, 4);
    for (size_t i = 0; i < qkv_param_count(p); i++)
        qkv_param_data(p)[i] = (qkv_real)(0.3 * qkv_rng_normal(&r));
    return p;
}

static int setup(void **state)
{
    const size_t window[] = {C, 3, 3, C}, square[] = {C, C}, wide[] = {2 * C, C}, row[] = {C};
    fixture *f = calloc(1, sizeof *f);
    params_begin(&f->ctx, &f->t, &f->ps);
    for (int i = 0; i < CONVS; i++)
        f->conv[i] = filled(f, 4, window, (uint64_t)i);
    for (int i = 0; i < MATRICES; i++)
        f->matrix[i] = filled(f, 2, i == 2 ? wide : square, 10 + (uint64_t)i);
    f->scale = filled(f, 1, row, 30);
    f->shift = filled(f, 1, row, 31);
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

/* ---- a network with every op that can be made again ----------------------------------------- */

static qkv_tensor *image(fixture *f, uint64_t seed)
{
    enum { N = B * SIDE * SIDE * C };
    const size_t shape[] = {B, SIDE, SIDE, C};
    qkv_real *x = malloc(N * sizeof *x);
    qkv_rng r;
    qkv_rng_init(&r, seed, 2);
    for (size_t i = 0; i < N; i++)
        x[i] = (qkv_real)qkv_rng_normal(&r);
    qkv_tensor *y = qkv_tensor_from(f->t, x, 4, shape);
    free(x);
    return y;
}

static qkv_tensor *linear(fixture *f, qkv_tensor *x, int i)
{
    return qkv_linear(f->t, x, qkv_use(f->t, f->matrix[i]), NULL, QKV_ACT_NONE);
}

static qkv_tensor *convolve(fixture *f, qkv_tensor *x, int i)
{
    const qkv_conv_options same = {.stride = 1, .top = 1, .left = 1, .bottom = 1, .right = 1};
    return qkv_conv2d(f->t, x, qkv_use(f->t, f->conv[i]), NULL, &same);
}

static void begin(fixture *f) { qkv__for_products(f->t, f->remade); }
static void end(fixture *f) { qkv__for_products(f->t, false); }

static qkv_tensor *convolutions(fixture *f, qkv_tensor *x)
{
    qkv_tape *t = f->t;
    begin(f);
    qkv_tensor *h = qkv_group_norm(t, x, qkv_use(t, f->scale), qkv_use(t, f->shift), GROUPS, 1e-5,
                                   true);
    end(f);
    qkv_tensor *y = convolve(f, h, 0);
    qkv__let_go(t, h);
    begin(f);
    h = qkv_upsample(t, y, 2);
    end(f);
    y = convolve(f, h, 1);
    qkv__let_go(t, h);
    return y;
}

/* Two products of one norm, a view of another's result, a gate of a split. */
static qkv_tensor *products(fixture *f, qkv_tensor *x)
{
    const size_t flat[] = {B * 4 * SIDE * SIDE, C}, halves[] = {C, C};
    qkv_tape *t = f->t;
    qkv_tensor *sum, *part[2];
    begin(f);
    qkv_tensor *h = qkv_norm(t, QKV_NORM_LAYER, x, qkv_use(t, f->scale), qkv_use(t, f->shift),
                             1e-5);
    end(f);
    qkv_tensor *y = qkv_add(t, linear(f, h, 0), linear(f, h, 1));
    qkv__let_go(t, h);
    begin(f);
    h = qkv_residual_norm(t, QKV_NORM_RMS, y, x, qkv_use(t, f->scale), NULL, 1e-5, &sum);
    end(f);
    y = linear(f, qkv_reshape(t, h, 2, flat), 2);
    qkv__let_go(t, h);
    if (!y || !qkv_split(t, y, -1, 2, halves, part))
        return NULL;
    begin(f);
    qkv_tensor *units = qkv_gated(t, part[0], part[1], QKV_ACT_SILU);
    end(f);
    y = linear(f, qkv_dropout(t, units, 0.2, 1), 3);
    qkv__let_go(t, units);
    begin(f);
    h = qkv_activate(t, qkv_add(t, y, qkv_reshape(t, sum, 2, flat)), QKV_ACT_GELU);
    end(f);
    y = linear(f, h, 4);
    qkv__let_go(t, h);
    return linear(f, y, 5);
}

typedef struct {
    qkv_tensor *x, *loss;
} pass;

static pass forward(fixture *f, bool remade)
{
    pass p;
    f->remade = remade;
    qkv_tape_reset(f->t);
    qkv_params_zero_grad(f->ps);
    qkv_tape_mode(f->t, true, true);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 5, .step = 7});
    p.x = qkv_require_grad(f->t, image(f, 1));
    qkv_tensor *y = products(f, convolutions(f, p.x));
    p.loss = qkv_mean(f->t, qkv_mul(f->t, y, y));
    assert_int_equal(qkv_tape_status(f->t), QKV_OK);
    assert_int_equal(f->t->remade_count, 0);
    return p;
}

/* The loss, and every gradient that there is. */
typedef struct {
    qkv_real *x;
    size_t n;
} numbers;

static void keep(numbers *n, const qkv_real *x, size_t count)
{
    n->x = realloc(n->x, (n->n + count) * sizeof *x);
    memcpy(n->x + n->n, x, count * sizeof *x);
    n->n += count;
}

static numbers backward(fixture *f, const pass *p, bool retain)
{
    const qkv_backward_args args = {.n = 1, .outputs = (qkv_tensor *[]){p->loss},
                                    .retain_graph = retain};
    numbers n = {0};
    assert_int_equal(qkv_backward_from(f->t, &args), QKV_OK);
    assert_int_equal(f->t->remade_count, 0);
    keep(&n, qkv_data(f->t, p->loss), 1);
    keep(&n, qkv_data(f->t, qkv_grad_of(f->t, p->x)), qkv_count(p->x));
    for (size_t i = 0; i < qkv_params_count(f->ps); i++) {
        qkv_param *w = qkv_params_at(f->ps, i);
        if (qkv__param_has_grad(w))
            keep(&n, qkv_param_grad(w), qkv_param_count(w));
    }
    return n;
}

static void same(numbers *got, const numbers *want)
{
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->x, want->x, got->n * sizeof *got->x);
    free(got->x);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void compare(fixture *f)
{
    pass p = forward(f, false);
    const size_t kept = qkv_tape_used(f->t);
    numbers want = backward(f, &p, false);
    p = forward(f, true);
    if (!qkv__context_device(f->ctx)->keeps)
        assert_true(qkv_tape_used(f->t) + 8 * qkv_count(p.x) < kept);
    numbers got = backward(f, &p, true);
    same(&got, &want);
    qkv_params_zero_grad(f->ps);
    got = backward(f, &p, false); /* all over again */
    same(&got, &want);
    free(want.x);
}

static void same_bits(void **state) { compare(*state); }

static void frozen_weights(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < CONVS; i++)
        qkv_param_freeze(f->conv[i], true);
    for (int i = 0; i < MATRICES; i += 2)
        qkv_param_freeze(f->matrix[i], true);
    compare(f);
}

/* Other ops than products read what was let go. */
static void other_readers(void **state)
{
    fixture *f = *state;
    numbers n[2] = {{0}, {0}};
    for (int i = 0; i < 8; i++) {
        const bool normed = i / 4, squared = i / 2 % 2, remade = i % 2;
        qkv_tape_reset(f->t);
        qkv_tape_mode(f->t, true, true);
        qkv_tensor *x = qkv_require_grad(f->t, image(f, 3));
        qkv__for_products(f->t, remade);
        qkv_tensor *h = qkv_activate(f->t, x, QKV_ACT_TANH);
        qkv_tensor *g = normed ? qkv_norm(f->t, QKV_NORM_LAYER, h, NULL, NULL, 1e-5)
                               : qkv_activate(f->t, h, QKV_ACT_SILU); /* h is let go, too */
        qkv__for_products(f->t, false);
        qkv_tensor *loss = qkv_sum(f->t, squared ? qkv_mul(f->t, g, h) : g);
        qkv__let_go(f->t, g);
        qkv__let_go(f->t, h);
        assert_int_equal(f->t->remade_count, 0);
        assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        keep(&n[remade], qkv_data(f->t, qkv_grad_of(f->t, x)), qkv_count(x));
    }
    same(&n[1], &n[0]);
    free(n[0].x);
}

/* An adapter's term takes part in the input's gradient though no other gradient is wanted. */
static void terms_of_frozen_weights(void **state)
{
    const size_t down[] = {4, C}, up[] = {C, 4};
    fixture *f = *state;
    numbers n[2] = {{0}, {0}};
    const qkv__low_rank term = {.a = filled(f, 2, down, 40), .b = filled(f, 2, up, 41),
                                .scale = 2, .dropout = 0.25, .dropout_id = 3};
    assert_int_equal(qkv__param_add_term(qkv__param_linear(f->matrix[0]), &term, NULL), QKV_OK);
    for (size_t i = 0; i < qkv_params_count(f->ps); i++)
        qkv_param_freeze(qkv_params_at(f->ps, i), true);
    for (int remade = 0; remade < 2; remade++) {
        qkv_tape_reset(f->t);
        qkv_tape_mode(f->t, true, true);
        qkv_tensor *x = qkv_require_grad(f->t, image(f, 3));
        qkv__for_products(f->t, remade);
        qkv_tensor *h = qkv_norm(f->t, QKV_NORM_LAYER, x, NULL, NULL, 1e-5);
        qkv__for_products(f->t, false);
        qkv_tensor *y = linear(f, h, 0), *loss = qkv_mean(f->t, qkv_mul(f->t, y, y));
        qkv__let_go(f->t, h);
        assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        keep(&n[remade], qkv_data(f->t, qkv_grad_of(f->t, x)), qkv_count(x));
    }
    same(&n[1], &n[0]);
    free(n[0].x);
}

/* Nothing is written over one: its memory is not the op's that would. */
static void not_spent(void **state)
{
    fixture *f = *state;
    if (qkv__context_device(f->ctx)->keeps)
        skip();
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    qkv_tensor *x = qkv_require_grad(f->t, image(f, 3));
    qkv__for_products(f->t, true);
    qkv_tensor *h = qkv_activate(f->t, x, QKV_ACT_GELU);
    qkv__for_products(f->t, false);
    qkv__spend(f->t, h);
    qkv_tensor *y = qkv_add(f->t, h, x);
    assert_ptr_not_equal(y->data, h->data);
}

static void read_too_late(void **state)
{
    fixture *f = *state;
    if (qkv__context_device(f->ctx)->keeps)
        skip();
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    qkv_tensor *x = qkv_require_grad(f->t, image(f, 1));
    qkv__for_products(f->t, true);
    qkv_tensor *h = qkv_activate(f->t, x, QKV_ACT_GELU);
    qkv__let_go(f->t, h);
    assert_null(qkv_add(f->t, h, x));
    assert_non_null(strstr(qkv_context_message(f->ctx), "add: input 0 is gone"));
}

/* Where it does nothing: no tape, a probe, what no op made. */
static void kept(void **state)
{
    fixture *f = *state;
    for (int probed = 0; probed < 2; probed++) {
        qkv_tape_reset(f->t);
        qkv_tape_mode(f->t, probed, true);
        if (probed)
            assert_int_equal(qkv_probe_add(f->t, "nowhere", NULL, NULL), QKV_OK);
        qkv_tensor *x = qkv_require_grad(f->t, image(f, 1));
        qkv__for_products(f->t, true);
        qkv_tensor *h = qkv_activate(f->t, x, QKV_ACT_GELU);
        qkv__let_go(f->t, h);
        qkv__let_go(f->t, x);
        qkv__let_go(f->t, NULL);
        assert_non_null(qkv_add(f->t, h, x));
        qkv_probes_clear(f->t);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(same_bits), TEST(frozen_weights), TEST(other_readers),
                                       TEST(terms_of_frozen_weights), TEST(not_spent),
                                       TEST(read_too_late), TEST(kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
