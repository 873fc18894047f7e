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
    case QKV_INIT_XAVIER_NORMAL: return 0.5 * sqrt(2.0 / (ROWS + COLUMNS)) * qkv_rng_normal(r);
    case QKV_INIT_KAIMING:
        return 0.5 * sqrt(6.0 / COLUMNS) * (2 * qkv_rng_uniform(r) - 1);
    case QKV_INIT_KAIMING_NORMAL: return 0.5 * sqrt(2.0 / COLUMNS) * qkv_rng_normal(r);
    case QKV_INIT_TRUNCATED_NORMAL: {
        const uint64_t at = r->index;
        double x = qkv_rng_normal(r);
        qkv_rng own = *r;
        for (uint64_t turn = 1; fabs(x) > 2; turn++) {
            own.index = at + (turn << 40);
            own.left = 0;
            x = qkv_rng_normal(&own);
        }
        return 0.5 * x;
    }
    case QKV_INIT_CONSTANT: return 0.5;
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

/* Of one's own parameters: moments and bounds as defined, seeds, what is refused. */
static void test_params(void **state)
{
    (void)state;
    static const struct {
        qkv_init kind;
        double deviation, bound; /* bound 0: none */
    } cases[] = {
        {QKV_INIT_NORMAL, 0.02, 0},
        {QKV_INIT_UNIFORM, 0.02 / 1.7320508, 0.02},
        {QKV_INIT_XAVIER, 0.02 * 0.0816496, 0.02 * 0.1414213}, /* in 200, out 100 */
        {QKV_INIT_XAVIER_NORMAL, 0.02 * 0.0816496, 0},
        {QKV_INIT_KAIMING, 0.02 * 0.1, 0.02 * 0.1732050},
        {QKV_INIT_KAIMING_NORMAL, 0.02 * 0.1, 0},
        {QKV_INIT_TRUNCATED_NORMAL, 0.02 * 0.8796257, 0.04},
    };
    qkv_context *ctx;
    qkv_params *ps;
    enum { COUNT = 20000 };
    static qkv_real first[COUNT];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    qkv_param *p = qkv_param_create(ps, "w", 2, (const size_t[]){100, 200});
    qkv_param *window = qkv_param_create(ps, "c", 4, (const size_t[]){25, 2, 2, 50});
    qkv_param *vector = qkv_param_create(ps, "b", 1, (const size_t[]){100});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double sum = 0, squares = 0, most = 0;
        assert_int_equal(qkv_param_init(p, cases[i].kind, 0.02, 7), QKV_OK);
        const qkv_real *v = qkv_param_data(p);
        for (size_t k = 0; k < COUNT; k++) {
            sum += (double)v[k];
            squares += (double)v[k] * (double)v[k];
            most = fmax(most, fabs((double)v[k]));
        }
        double deviation = sqrt(squares / COUNT);
        assert_true(fabs(sum / COUNT) < 0.03 * cases[i].deviation);
        assert_true(fabs(deviation / cases[i].deviation - 1) < 0.02);
        assert_true(cases[i].bound == 0 || (most <= cases[i].bound * (1 + 1e-6) &&
                                            most > 0.98 * cases[i].bound));
        memcpy(first, v, sizeof first);
        assert_int_equal(qkv_param_init(p, cases[i].kind, 0.02, 7), QKV_OK);
        assert_memory_equal(first, qkv_param_data(p), sizeof first);
        assert_int_equal(qkv_param_init(p, cases[i].kind, 0.02, 8), QKV_OK);
        assert_memory_not_equal(first, qkv_param_data(p), sizeof first);
    }
    /* A window of 2 x 2, 50 channels to 25: in 200, out 100. */
    assert_int_equal(qkv_param_init(window, QKV_INIT_XAVIER, 1, 7), QKV_OK);
    double most = 0;
    for (size_t k = 0; k < qkv_param_count(window); k++)
        most = fmax(most, fabs((double)qkv_param_data(window)[k]));
    assert_true(most <= 0.1414214 && most > 0.14);
    assert_int_equal(qkv_param_init(vector, QKV_INIT_CONSTANT, -3, 0), QKV_OK);
    assert_true(qkv_param_data(vector)[99] == -3);
    assert_int_equal(qkv_param_init(vector, QKV_INIT_KAIMING, 1, 0), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_init(vector, QKV_INIT_NONE, 1, 0), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_init(vector, QKV_INIT_NORMAL, NAN, 0), QKV_E_ARGUMENT);
    assert_true(qkv_param_data(vector)[0] == -3);
    qkv_params_destroy(ps);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
