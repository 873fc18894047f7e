/* test_print.c - tensors as text, as PyTorch prints them between its brackets. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "qkv/print.h"

static qkv_context *ctx;
static qkv_tape *t;
static qkv_str s;

static void expect(qkv_tensor *x, const qkv_print_options *o, const char *text)
{
    qkv_str_clear(&s);
    qkv_tensor_print(&s, t, x, o);
    assert_string_equal(s.data, text);
}

static qkv_tensor *of(const qkv_real *values, int ndim, const size_t *shape)
{
    return qkv_tensor_from(t, values, ndim, shape);
}

static void test_numbers(void **state)
{
    (void)state;
    const qkv_real plain[] = {1, -0.5f, 2, 0.25f, 3, 0}, whole[] = {1, -20, 3};
    const qkv_real far[] = {1, 0.00001f}, odd[] = {(qkv_real)NAN, -(qkv_real)INFINITY, 1};
    const int32_t ids[] = {7, -12, 100};
    expect(of(plain, 2, (const size_t[]){2, 3}), NULL,
           "f32 (2, 3)\n[[ 1.0000, -0.5000,  2.0000],\n [ 0.2500,  3.0000,  0.0000]]\n");
    expect(of(plain, 2, (const size_t[]){2, 3}), &(qkv_print_options){.digits = 1},
           "f32 (2, 3)\n[[ 1.0, -0.5,  2.0],\n [ 0.2,  3.0,  0.0]]\n");
    expect(of(whole, 1, (const size_t[]){3}), NULL, "f32 (3,)\n[  1., -20.,   3.]\n");
    expect(of(far, 1, (const size_t[]){2}), NULL, "f32 (2,)\n[1.0000e+00, 1.0000e-05]\n");
    expect(of(odd, 1, (const size_t[]){3}), NULL, "f32 (3,)\n[ nan, -inf,   1.]\n");
    expect(of(plain, 0, NULL), NULL, "f32 ()\n1.\n");
    expect(of(plain, 1, (const size_t[]){0}), NULL, "f32 (0,)\n[]\n");
    expect(qkv_tensor_ids(t, ids, 2, (const size_t[]){3, 1}), NULL,
           "i32 (3, 1)\n[[  7],\n [-12],\n [100]]\n");
    expect(NULL, NULL, "none\n");
    qkv_tensor *x = of(plain, 2, (const size_t[]){2, 3});
    expect(qkv_permute(t, x, (const int[]){1, 0}), NULL, /* a view */
           "f32 (3, 2)\n[[ 1.0000,  0.2500],\n [-0.5000,  3.0000],\n [ 2.0000,  0.0000]]\n");
}

static void test_large(void **state)
{
    (void)state;
    qkv_tensor *x = of(NULL, 3, (const size_t[]){2, 40, 50});
    for (int i = 0; i < 4000; i++)
        qkv_tensor_fill(x)[i] = (qkv_real)i;
    expect(x, &(qkv_print_options){.edge = 1},
           "f32 (2, 40, 50)\n"
           "[[[   0., ...,   49.],\n  ...,\n  [1950., ..., 1999.]],\n\n"
           " [[2000., ..., 2049.],\n  ...,\n  [3950., ..., 3999.]]]\n");
    qkv_real row[12];
    for (int i = 0; i < 12; i++)
        row[i] = (qkv_real)(i / 10.0);
    expect(of(row, 1, (const size_t[]){12}), &(qkv_print_options){.width = 40},
           "f32 (12,)\n[0.0000, 0.1000, 0.2000, 0.3000, 0.4000,\n"
           " 0.5000, 0.6000, 0.7000, 0.8000, 0.9000,\n 1.0000, 1.1000]\n");
}

static void test_param(void **state)
{
    (void)state;
    qkv_params *ps;
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    qkv_param *p = qkv_param_create(ps, "h.0.bias", 1, (const size_t[]){2});
    qkv_str_clear(&s);
    qkv_param_print(&s, p, NULL);
    assert_string_equal(s.data, "h.0.bias f32 (2,)\n[0., 0.]\n");
    qkv_params_destroy(ps);
}

int main(void)
{
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx))
        return 1;
    qkv_str_init(&s, ctx);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_param)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qkv_str_free(&s);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return failed;
}
