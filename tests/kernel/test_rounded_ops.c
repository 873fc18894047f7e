/* test_rounded_ops.c - ops on images that a device keeps in bf16 between products: their values and
 * gradients are those of the processor in f32, but for the rounding. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "kernels.h"
#include "tensor/tape.h"

enum { B = 2, SIDE = 10, C = 16, GROUPS = 4, CONVS = 6, VECTORS = 6, PARAMS = CONVS + VECTORS };

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *p[PARAMS]; /* windows of 3 x 3; vectors */
    qkv_tensor *x;
    bool rounds;
} network;

static void fill(qkv_real *x, size_t n, uint64_t seed, double size)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 4);
    for (size_t i = 0; i < n; i++)
        x[i] = (qkv_real)(size * qkv_rng_normal(&r));
}

static void begin(network *m, const char *device, int products)
{
    const size_t window[] = {C, 3, 3, C}, row[] = {C};
    qkv_context_options o = qkv_context_defaults();
    o.device = device;
    o.products = products;
    assert_int_equal(qkv_context_create(&m->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&m->t, m->ctx), QKV_OK);
    assert_int_equal(qkv_params_create(&m->ps, m->ctx), QKV_OK);
    for (int i = 0; i < PARAMS; i++) {
        m->p[i] = qkv_param_create(m->ps, "w", i < CONVS ? 4 : 1, i < CONVS ? window : row);
        assert_non_null(m->p[i]);
        fill(qkv_param_data(m->p[i]), qkv_param_count(m->p[i]), (uint64_t)i, i < CONVS ? 0.1 : 0.7);
        qkv_param_touch(m->p[i]);
    }
    m->rounds = products == QKV_PRODUCTS_BF16;
}

static qkv_tensor *given_images(network *m)
{
    const size_t shape[] = {B, SIDE, SIDE, C};
    qkv_tensor *x = qkv_tensor_from(m->t, NULL, 4, shape);
    assert_non_null(x);
    fill(qkv_tensor_fill(x), qkv_count(x), 99, 1);
    return x;
}

static qkv_tensor *use(network *m, int i) { return qkv_use(m->t, m->p[i]); }

static qkv_tensor *convolve(network *m, qkv_tensor *x, int i, bool within)
{
    const qkv_conv_options same = {.stride = 1, .top = 1, .left = 1, .bottom = 1, .right = 1};
    qkv__for_products(m->t, within);
    x = qkv_conv2d(m->t, x, use(m, i), i % 2 ? use(m, CONVS + 4) : NULL, &same);
    qkv__for_products(m->t, false);
    assert_true(x && qkv__is_rounded(x) == (within && m->rounds));
    return x;
}

static qkv_tensor *normalize(network *m, qkv_tensor *x, int i)
{
    qkv__for_products(m->t, true);
    x = qkv_group_norm(m->t, x, use(m, CONVS + i), use(m, CONVS + i + 1), GROUPS, 1e-5, i == 0);
    qkv__for_products(m->t, false);
    assert_true(x && qkv__is_rounded(x) == m->rounds);
    return x;
}

static qkv_tensor *enlarged(network *m, qkv_tensor *x)
{
    qkv__for_products(m->t, true);
    x = qkv_upsample(m->t, x, 2);
    qkv__for_products(m->t, false);
    assert_true(x && qkv__is_rounded(x) == m->rounds);
    return x;
}

static qkv_tensor *activated(network *m, qkv_tensor *x)
{
    qkv__for_products(m->t, true);
    x = qkv_activate(m->t, x, QKV_ACT_SILU);
    qkv__for_products(m->t, false);
    assert_true(x && qkv__is_rounded(x) == m->rounds);
    return x;
}

/* Every op that gives or takes bf16, one such tensor that two ops read, and ops that know of f32
 * alone. */
static qkv_tensor *run(network *m, qkv_tensor **loss)
{
    qkv_tape *t = m->t;
    m->x = given_images(m);
    qkv_require_grad(t, m->x);
    qkv_tensor *h = normalize(m, m->x, 0), *y = convolve(m, h, 0, true);
    h = normalize(m, y, 2);
    y = qkv_add(t, qkv_add(t, m->x, convolve(m, h, 1, true)), convolve(m, h, 2, false));
    y = convolve(m, enlarged(m, y), 3, true);
    y = convolve(m, activated(m, y), 4, true);
    y = convolve(m, qkv_avg_pool2d(t, y, 2, NULL), 5, true);
    y = qkv_batch_norm(t, qkv_dropout(t, y, 0.25, 3), use(m, CONVS + 5), NULL, NULL, 1e-5);
    *loss = qkv_mean(t, qkv_mul(t, y, qkv_mul(t, y, m->x)));
    return y;
}

static void compare_numbers(const char *what, const qkv_real *got, const qkv_real *want, size_t n)
{
    double off = 0, all = 0;
    assert_true(got && want);
    for (size_t i = 0; i < n; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    if (!(off <= 3e-2 * 3e-2 * all) || all == 0)
        fail_msg("%s is off by %g of its length", what, sqrt(off / all));
}

/* The processor's, and the device's. */
static void begin_both(network m[2])
{
    if (!on_a_device())
        skip();
    for (int i = 0; i < 2; i++) {
        begin(&m[i], i ? "cuda" : "cpu", i ? QKV_PRODUCTS_BF16 : QKV_PRODUCTS_F32);
        qkv_tape_mode(m[i].t, true, true);
    }
}

static void end_both(network m[2])
{
    for (int i = 0; i < 2; i++) {
        qkv_tape_destroy(m[i].t);
        qkv_params_destroy(m[i].ps);
        qkv_context_destroy(m[i].ctx);
    }
}

static void check_gradients(void **state)
{
    network m[2] = {0};
    qkv_tensor *y[2], *loss;
    char name[32];
    (void)state;
    begin_both(m);
    for (int i = 0; i < 2; i++) {
        y[i] = run(&m[i], &loss);
        assert_int_equal(qkv_backward(m[i].t, loss), QKV_OK);
    }
    compare_numbers("y", qkv_data(m[1].t, y[1]), qkv_data(m[0].t, y[0]), qkv_count(y[0]));
    compare_numbers("dx", qkv_data(m[1].t, qkv_grad_of(m[1].t, m[1].x)),
                    qkv_data(m[0].t, qkv_grad_of(m[0].t, m[0].x)), qkv_count(m[0].x));
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "gradient %d", i);
        compare_numbers(name, qkv_param_grad(m[1].p[i]), qkv_param_grad(m[0].p[i]),
                        qkv_param_count(m[0].p[i]));
    }
    end_both(m);
}

/* While recording is paused; a linear layer, which computes as where nothing is recorded, too. */
static void check_paused(void **state)
{
    const size_t square[] = {9 * C, C};
    network m[2] = {0};
    qkv_tensor *y[2];
    (void)state;
    begin_both(m);
    for (int i = 0; i < 2; i++) {
        const bool recorded = qkv__pause(m[i].t);
        const qkv_scope scope = qkv_scope_begin(m[i].t);
        qkv_tensor *h = normalize(&m[i], given_images(&m[i]), 0);
        h = activated(&m[i], convolve(&m[i], h, 0, true));
        qkv__for_products(m[i].t, true);
        y[i] = qkv_linear(m[i].t, h, qkv_reshape(m[i].t, use(&m[i], 1), 2, square), NULL,
                          QKV_ACT_NONE);
        qkv__for_products(m[i].t, false);
        y[i] = qkv_scope_end(m[i].t, scope, qkv_add(m[i].t, y[i], y[i]));
        qkv__resume(m[i].t, recorded);
    }
    compare_numbers("y", qkv_data(m[1].t, y[1]), qkv_data(m[0].t, y[0]), qkv_count(y[0]));
    end_both(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_gradients),
                                       cmocka_unit_test(check_paused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
