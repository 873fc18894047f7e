/* test_small_product.c - products of many rows with weights in fewer bits: every way to compute
 * them against the plain one, the choice, and invariant tapes, which must not notice it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qkv/ops.h"
#include "tapes.h"
#include "tensor/make.h"

enum { OUT = 700, IN = 1100, ROWS = 90, WEIGHTS = 3 };
static const qkv_weights kinds[WEIGHTS] = {QKV_WEIGHTS_BF16, QKV_WEIGHTS_INT8, QKV_WEIGHTS_INT4};

/* The way to which a type (qkv_k_small_type) is set; products that this machine lacks fall back to
 * what it has. */
static const qkv__small_choice ways[] = {
    {QKV__SMALL_PLAIN, QKV__PRODUCTS_F32},     {QKV__SMALL_WIDE, QKV__PRODUCTS_F32},
    {QKV__SMALL_WIDE, QKV__PRODUCTS_BF16},     {QKV__SMALL_WIDE, QKV__PRODUCTS_LIBRARY},
    {QKV__SMALL_MANY, QKV__PRODUCTS_AMX}};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct {
    qkv_params *ps;
    qkv_param *w, *bias;
    qkv_real *x; /* (ROWS, IN) */
} layer;

static void random_reals(qkv_real *x, size_t n, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = (qkv_real)(2 * qkv_rng_uniform(&r) - 1);
}

static void make_layer(layer *l, qkv_context *ctx, qkv_weights weights)
{
    const size_t shape[] = {OUT, IN};
    assert_int_equal(qkv_params_create(&l->ps, ctx), QKV_OK);
    l->w = qkv__param_linear(qkv_param_create(l->ps, "w", 2, shape));
    l->bias = qkv_param_create(l->ps, "bias", 1, shape);
    assert_true(l->w && l->bias);
    random_reals(qkv_param_data(l->w), OUT * IN, 1);
    random_reals(qkv_param_data(l->bias), OUT, 2);
    qkv_param_touch(l->w);
    qkv_param_touch(l->bias);
    l->x = malloc(ROWS * IN * sizeof *l->x);
    assert_non_null(l->x);
    random_reals(l->x, ROWS * IN, 3);
    assert_int_equal(qkv_params_store(l->ps, weights), QKV_OK);
}

static void free_layer(layer *l, fixture *f)
{
    qkv_tape_reset(f->t);
    qkv_params_destroy(l->ps);
    free(l->x);
}

/* y (rows, OUT), to be freed: what the layer makes of the first rows of x. */
static qkv_real *output(fixture *f, const layer *l, size_t rows, bool invariant)
{
    const size_t shape[] = {rows, IN};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    qkv_tape_batch_invariant(f->t, invariant);
    qkv_tensor *y = qkv_linear(f->t, qkv_tensor_from(f->t, l->x, 2, shape), qkv_use(f->t, l->w),
                               qkv_use(f->t, l->bias), QKV_ACT_NONE);
    const qkv_real *values = y ? qkv_data(f->t, y) : NULL;
    assert_non_null(values);
    qkv_real *out = malloc(rows * OUT * sizeof *out);
    assert_non_null(out);
    memcpy(out, values, rows * OUT * sizeof *out);
    return out;
}

static void choose(fixture *f, unsigned type, qkv__small_choice few, qkv__small_choice many,
                   size_t from)
{
    qkv__context_choose_small(f->ctx, type, (qkv__small_plan){few, many, from});
}

/* Integers: the same bits. bf16: 1,100 products whose second factor may have lost 2^-9 of itself,
 * at random; sums have a standard deviation of 11. */
static void test_every_way(void **state)
{
    fixture *f = *state;
    for (unsigned type = 0; type < WEIGHTS; type++) {
        layer l;
        make_layer(&l, f->ctx, kinds[type]);
        choose(f, type, ways[0], ways[0], 0);
        qkv_real *plain = output(f, &l, ROWS, false);
        for (size_t i = 1; i < WAYS; i++) {
            if (type != 0 && ways[i].way == QKV__SMALL_WIDE)
                continue;
            choose(f, type, ways[i], ways[i], 0);
            qkv_real *y = output(f, &l, ROWS, false), worst = 0;
            for (size_t j = 0; j < ROWS * OUT; j++) {
                qkv_real off = (qkv_real)fabs((double)(y[j] - plain[j]));
                worst = !(off <= worst) ? off : worst;
            }
            double allowed = type != 0 ? 0 : ways[i].products == QKV__PRODUCTS_F32 ? 2e-4 : 0.15;
            if (!((double)worst <= allowed))
                fail_msg("%s, way %zu: off by %g", qkv_weights_name(kinds[type]), i,
                         (double)worst);
            free(y);
        }
        free(plain);
        free_layer(&l, f);
    }
}

/* A row alone, and among many, on an invariant tape. */
static void test_invariant(void **state)
{
    fixture *f = *state;
    for (unsigned type = 0; type < WEIGHTS; type++)
        for (size_t i = 0; i < WAYS; i++) {
            if (type != 0 && ways[i].way == QKV__SMALL_WIDE)
                continue;
            layer l;
            make_layer(&l, f->ctx, kinds[type]);
            choose(f, type, ways[i], ways[i], 0);
            qkv_real *many = output(f, &l, ROWS, true), *one = output(f, &l, 1, true);
            qkv_real *some = output(f, &l, 11, true);
            assert_memory_equal(one, many, OUT * sizeof *one);
            assert_memory_equal(some, many, 11 * OUT * sizeof *some);
            free(many);
            free(one);
            free(some);
            free_layer(&l, f);
        }
}

/* Few rows take one way, many another: bits of weights in bf16 tell which. */
static void test_rows_choose(void **state)
{
    fixture *f = *state;
    layer l;
    make_layer(&l, f->ctx, QKV_WEIGHTS_BF16);
    choose(f, 0, ways[0], ways[0], 0);
    qkv_real *plain = output(f, &l, ROWS, false);
    choose(f, 0, ways[2], ways[2], 0);
    qkv_real *wide = output(f, &l, ROWS, false);
    /* Without products in bf16 they may be equal. */
    bool told_apart = memcmp(plain, wide, ROWS * OUT * sizeof *plain) != 0;
    for (size_t from = ROWS; from <= ROWS + 1 && told_apart; from++) {
        choose(f, 0, ways[0], ways[2], from);
        qkv_real *y = output(f, &l, ROWS, false);
        assert_memory_equal(y, from > ROWS ? plain : wide, ROWS * OUT * sizeof *y);
        free(y);
    }
    free(plain);
    free(wide);
    free_layer(&l, f);
}

/* The choice is made once, by the first product of many rows or by who asks for its name. */
static void test_choice(void **state)
{
    fixture *f = *state;
    for (unsigned type = 0; type < WEIGHTS; type++) {
        layer l;
        make_layer(&l, f->ctx, kinds[type]);
        free(output(f, &l, 2, false));
        assert_int_equal(qkv__context_small(f->ctx, type).few.way, QKV__SMALL_UNKNOWN);
        free(output(f, &l, ROWS, false));
        qkv__small_plan plan = qkv__context_small(f->ctx, type);
        qkv__small_choice c = plan.many;
        assert_int_not_equal(plan.few.way, QKV__SMALL_UNKNOWN);
        assert_int_not_equal(c.way, QKV__SMALL_UNKNOWN);
        assert_in_range(plan.from, 64, 512);
        const char *name = qkv_weights_products(f->ctx, kinds[type]);
        assert_string_equal(name, c.way == QKV__SMALL_PLAIN ? "vectors"
                                  : c.way == QKV__SMALL_MANY ? "AMX"
                                                             : qkv__products_name(c.products));
        assert_true(qkv__products_exist(f->ctx, c.products));
        choose(f, type, ways[0], ways[0], 0);
        assert_string_equal(qkv_weights_products(f->ctx, kinds[type]), "vectors");
        free_layer(&l, f);
    }
    assert_string_equal(qkv_weights_products(f->ctx, QKV_WEIGHTS_F32), "f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_invariant, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_choose, setup, teardown),
        cmocka_unit_test_setup_teardown(test_choice, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
