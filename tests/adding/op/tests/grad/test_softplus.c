/* test_softplus.c - the op against its formula, its gradient against differences. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"

static int softplus(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_softplus(t, in[0]);
    return 1;
}

static void gradient(void **state)
{
    (void)state;
    const gradcheck_case cases[] = {
        {.name = "softplus", .fn = softplus, .inputs = 1, .input = {{3, {2, 3, 5}, -4, 4}}},
        {.name = "softplus of a scalar", .fn = softplus, .inputs = 1, .input = {{0, {0}}}},
    };
    gradcheck_all(cases, sizeof cases / sizeof *cases);
}

static void values(void **state)
{
    (void)state;
    const qkv_real x[] = {-1000, -1, 0, 1, 1000};
    const double want[] = {0, log1p(exp(-1)), log(2), 1 + log1p(exp(-1)), 1000};
    const size_t n = 5;
    qkv_context *ctx;
    qkv_tape *t;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    const qkv_real *y = qkv_data(t, qkv_softplus(t, qkv_tensor_from(t, x, 1, &n)));
    for (size_t i = 0; i < n; i++)
        assert_true(fabs((double)y[i] - want[i]) <= 1e-14 * want[i]);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradient), cmocka_unit_test(values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
