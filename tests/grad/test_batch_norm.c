/* test_batch_norm.c - batch norm: gradients, what it keeps of its batches, what it refuses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"
#include "params.h"
#include "qkv/nn.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { C = 3 };

static int norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_batch_norm(t, in[0], in[1], in[2], user, 1e-3);
    out[1] = qkv_batch_norm(t, in[0], NULL, in[2], user, 1e-5);
    return 2;
}

static void test_gradients(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_params *ps;
    qkv_batch_norm_layer layer;
    params_begin(&ctx, NULL, &ps);
    assert_true(qkv_batch_norm_create(&layer, ps, "norm", C));
    const qkv_running kept = {.mean = layer.mean, .variance = layer.variance};
    const gradcheck_case cases[] = {
        {.name = "batch", .fn = norm, .inputs = 3,
         .input = {{4, {2, 3, 2, C}}, {1, {C}}, {1, {C}}}},
        {.name = "rows", .fn = norm, .inputs = 3,
         .input = {{2, {7, C}, 2, 5}, {1, {C}}, {1, {C}}}},
        {.name = "train", .fn = norm, .user = &kept, .inputs = 3, .train = true,
         .input = {{4, {2, 3, 2, C}}, {1, {C}}, {1, {C}}}},
        {.name = "running", .fn = norm, .user = &kept, .inputs = 3,
         .input = {{4, {2, 3, 2, C}}, {1, {C}}, {1, {C}}}},
    };
    gradcheck_all(cases, COUNT(cases));
    params_end(ctx, NULL, ps);
}

/* By hand: what two batches leave in the running statistics, with momentum and as a plain mean. */
static void test_running(void **state)
{
    (void)state;
    const double batch[2][4] = {{1, 2, 3, 6}, {-1, 0, 0, 5}};
    const double mean[] = {3, 1}, unbiased[] = {14.0 / 3, 22.0 / 3};
    const size_t shape[] = {4, 1};
    qkv_context *ctx;
    qkv_params *ps;
    qkv_tape *t;
    qkv_batch_norm_layer layer;
    params_begin(&ctx, &t, &ps);
    assert_true(qkv_batch_norm_create(&layer, ps, "norm", 1));
    for (int plain = 0; plain < 2; plain++) {
        qkv_running kept = {layer.mean, layer.variance, layer.batches, plain ? -1 : 0};
        double m = qkv_param_data(layer.mean)[0] = 0, v = qkv_param_data(layer.variance)[0] = 1;
        qkv_param_data(layer.batches)[0] = 0;
        for (int i = 0; i < 2; i++) {
            double share = plain ? 1.0 / (i + 1) : 0.1;
            qkv_tape_reset(t);
            qkv_tape_mode(t, false, true);
            assert_non_null(qkv_batch_norm(t, qkv_tensor_from(t, batch[i], 2, shape), NULL, NULL,
                                           &kept, 1e-5));
            m += share * (mean[i] - m);
            v += share * (unbiased[i] - v);
            assert_true(fabs(qkv_param_data(layer.mean)[0] - m) <= 1e-12);
            assert_true(fabs(qkv_param_data(layer.variance)[0] - v) <= 1e-12);
            assert_true(qkv_param_data(layer.batches)[0] == i + 1);
        }
        qkv_tape_mode(t, false, false);
        const double *y = qkv_data(t, qkv_batch_norm(t, qkv_tensor_from(t, batch[0], 2, shape),
                                                     NULL, NULL, &kept, 1e-5));
        for (int i = 0; i < 4; i++)
            assert_true(fabs(y[i] - (batch[0][i] - m) / sqrt(v + 1e-5)) <= 1e-12);
        assert_true(qkv_param_data(layer.batches)[0] == 2); /* evaluation changes nothing */
    }
    params_end(ctx, t, ps);
}

static void test_refused(void **state)
{
    (void)state;
    const size_t one[] = {1, 1, 1, 2}, two[] = {2, 3};
    qkv_context *ctx;
    qkv_params *ps;
    qkv_tape *t;
    qkv_batch_norm_layer layer;
    params_begin(&ctx, &t, &ps);
    assert_true(qkv_batch_norm_create(&layer, ps, "norm", 2));
    qkv_tape_mode(t, true, true);
    assert_null(qkv_batch_norm_forward(&layer, t, qkv_tensor_from(t, NULL, 4, one)));
    assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
    qkv_tape_reset(t);
    assert_null(qkv_batch_norm_forward(&layer, t, qkv_tensor_from(t, NULL, 2, two)));
    assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
    params_end(ctx, t, ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
