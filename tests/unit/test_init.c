/* test_init.c - how parameters start: each element is the next number of the row's own stream,
 * however many threads fill it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/nn.h"

enum { ROWS = 7, COLUMNS = 9001 }; /* several pieces, the last of odd length */

static const uint64_t seed = 11;

static double expected(qkv_init kind, qkv_rng *r)
{
    switch (kind) {
    case QKV_INIT_ONES: return 1;
    case QKV_INIT_NORMAL: return 0.5 * qkv_rng_normal(r);
    case QKV_INIT_UNIFORM: return 0.5 * (2 * qkv_rng_uniform(r) - 1);
    case QKV_INIT_XAVIER:
        return 0.5 * sqrt(6.0 / (ROWS + COLUMNS)) * (2 * qkv_rng_uniform(r) - 1);
    default: return 0;
    }
}

static void check(qkv_init kind, int threads)
{
    qkv_context *ctx;
    qkv_params *ps;
    qkv_context_options o = qkv_context_defaults();
    size_t shape[] = {ROWS, COLUMNS};
    o.threads = threads;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    qkv_param *p = qkv_param_create(ps, "p", 2, shape);
    assert_non_null(p);
    qkv_state_entry row = {.param = p, .name = "row", .ndim = 2, .shape = {ROWS, COLUMNS}, .init =
        kind,
                           .scale = 0.5};
    qkv_state_entry_init(&row, seed);
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64("row", 3));
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        assert_true(qkv_param_data(p)[i] == (qkv_real)expected(kind, &r));
    qkv_params_destroy(ps);
    qkv_context_destroy(ctx);
}

static void test_rows(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++)
        for (qkv_init kind = QKV_INIT_ZEROS; kind < QKV_INIT_NONE; kind++)
            check(kind, threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
