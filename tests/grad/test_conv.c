/* test_conv.c - convolution and pools: gradients, and values against sums over pixels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int conv(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_conv2d(t, in[0], in[1], in[2], user);
    return 1;
}

static int without_bias(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_conv2d(t, in[0], in[1], NULL, user);
    return 1;
}

static const qkv_conv_options same = {1, 1, 1, 1, 1}, halved = {2, 1, 1, 1, 1},
                              lopsided = {2, 0, 0, 1, 1}, wide = {3, 4, 2, 1, 0};

static void test_gradients(void **state)
{
    (void)state;
    static const gradcheck_case cases[] = {
        {.name = "plain", .fn = conv, .inputs = 3,
         .input = {{4, {2, 5, 4, 3}}, {4, {2, 3, 2, 3}}, {1, {2}}}},
        {.name = "same size", .fn = conv, .user = &same, .inputs = 3,
         .input = {{4, {2, 4, 5, 2}}, {4, {3, 3, 3, 2}}, {1, {3}}}},
        {.name = "stride 2", .fn = conv, .user = &halved, .inputs = 3,
         .input = {{4, {1, 6, 5, 2}}, {4, {2, 3, 3, 2}}, {1, {2}}}},
        {.name = "one-sided padding", .fn = without_bias, .user = &lopsided, .inputs = 2,
         .input = {{4, {1, 4, 6, 2}}, {4, {2, 3, 3, 2}}}},
        {.name = "more padding than window", .fn = conv, .user = &wide, .inputs = 3,
         .input = {{4, {1, 3, 4, 1}}, {4, {2, 2, 3, 1}}, {1, {2}}}},
        {.name = "1 x 1", .fn = conv, .inputs = 3,
         .input = {{4, {2, 2, 3, 4}}, {4, {3, 1, 1, 4}}, {1, {3}}}},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        gradcheck(&cases[i]);
}

/* ---- pools ---------------------------------------------------------------------------------- */

static int max_pool(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_max_pool2d(t, in[0], 3, user);
    return 1;
}

static int mean_pool(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_avg_pool2d(t, in[0], 3, user);
    return 1;
}

static void test_pool_gradients(void **state)
{
    (void)state;
    const qkv_conv_options *options[] = {NULL, &same, &halved, &lopsided};
    for (size_t i = 0; i < COUNT(options); i++) {
        gradcheck(&(gradcheck_case){.name = "max", .fn = max_pool, .user = options[i], .inputs = 1,
                                    .input = {{4, {2, 5, 6, 2}}}});
        gradcheck(&(gradcheck_case){.name = "mean", .fn = mean_pool, .user = options[i],
                                    .inputs = 1, .input = {{4, {2, 5, 6, 2}}}});
    }
}

static void test_pool_values(void **state)
{
    (void)state;
    const qkv_conv_options one = {1, 1, 1, 0, 0};
    const size_t shape[] = {1, 3, 3, 1};
    const double x[] = {1, -2, 3, 4, -5, 6, 7, 8, -9};
    const double largest[] = {1, 1, 3, 4, 4, 6, 7, 8, 8};
    const double mean[] = {0.25, -0.25, 0.25, 1.25, -0.5, 0.5, 2.75, 3.5, 0};
    qkv_context *ctx;
    qkv_tape *t;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tensor *p = qkv_tensor_from(t, x, 4, shape);
    qkv_tensor *y = qkv_max_pool2d(t, p, 2, &one), *z = qkv_avg_pool2d(t, p, 2, &one);
    for (size_t i = 0; i < 9; i++) {
        assert_true(fabs(qkv_data(t, y)[i] - largest[i]) <= 1e-12);
        assert_true(fabs(qkv_data(t, z)[i] - mean[i]) <= 1e-12);
    }
    assert_null(qkv_max_pool2d(t, p, 4, NULL));
    assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

/* Against the definition, a pixel at a time. */
static void test_values(void **state)
{
    (void)state;
    const qkv_conv_options *options[] = {&same, &halved, &lopsided, &wide};
    size_t xs[] = {2, 7, 6, 3}, ws[] = {4, 3, 2, 3};
    double x[2 * 7 * 6 * 3], w[4 * 3 * 2 * 3];
    qkv_context *ctx;
    qkv_tape *t;
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = (double)(i * 37 % 101) / 50 - 1;
    for (size_t i = 0; i < COUNT(w); i++)
        w[i] = (double)(i * 53 % 97) / 50 - 1;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    for (size_t k = 0; k < COUNT(options); k++) {
        const qkv_conv_options *o = options[k];
        qkv_tape_reset(t);
        qkv_tensor *y = qkv_conv2d(t, qkv_tensor_from(t, x, 4, xs), qkv_tensor_from(t, w, 4, ws),
                                   NULL, o);
        assert_non_null(y);
        size_t OH = (7 + o->top + o->bottom - 3) / o->stride + 1;
        size_t OW = (6 + o->left + o->right - 2) / o->stride + 1, at = 0;
        assert_int_equal(qkv_dim(y, 1), OH);
        assert_int_equal(qkv_dim(y, 2), OW);
        for (size_t b = 0; b < 2; b++)
            for (size_t i = 0; i < OH; i++)
                for (size_t j = 0; j < OW; j++)
                    for (size_t n = 0; n < 4; n++, at++) {
                        double sum = 0;
                        for (size_t p = 0; p < 3; p++)
                            for (size_t q = 0; q < 2; q++)
                                for (size_t c = 0; c < 3; c++) {
                                    long r = (long)(i * o->stride + p) - (long)o->top;
                                    long s = (long)(j * o->stride + q) - (long)o->left;
                                    if (r >= 0 && r < 7 && s >= 0 && s < 6)
                                        sum += x[((b * 7 + (size_t)r) * 6 + (size_t)s) * 3 + c] *
                                               w[((n * 3 + p) * 2 + q) * 3 + c];
                                }
                        assert_true(fabs(sum - qkv_data(t, y)[at]) <= 1e-12);
                    }
    }
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_tape *t;
    size_t small[] = {1, 2, 2, 3}, other[] = {1, 5, 5, 2}, w[] = {4, 3, 3, 3};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_null(qkv_conv2d(t, qkv_tensor_from(t, NULL, 4, small), qkv_tensor_from(t, NULL, 4, w),
                           NULL, NULL));
    assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
    qkv_tape_reset(t);
    assert_null(qkv_conv2d(t, qkv_tensor_from(t, NULL, 4, other), qkv_tensor_from(t, NULL, 4, w),
                           NULL, NULL));
    assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_pool_gradients),
        cmocka_unit_test(test_pool_values),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
