/* test_store.c - parameters in fewer bits: what ops make of them, what they refuse, the memory that
 * they take, and failing allocations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/device.h"
#include "every_allocation.h"
#include "qkv/gpt.h"
#include "qkv/ops.h"
#include "tapes.h"
#include "tensor/make.h"

enum { ROWS = 70, WIDTH = 96, TEXTS = 5 };
enum { WIDE_ROWS = 700, WIDE = 800 }; /* more numbers than are widened at a time */

/* A matrix, a table, a bias and a matrix that is not marked; numbers between -1 and 1. */
typedef struct {
    qkv_params *ps;
    qkv_param *w, *table, *bias, *free, *down; /* down: (WIDTH, ROWS) */
} layer;

static bool fill_param(qkv_param *p, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 1);
    qkv_real *x = p ? qkv_param_data(p) : NULL;
    for (size_t i = 0; x && i < qkv_param_count(p); i++)
        x[i] = (qkv_real)(2 * qkv_rng_uniform(&r) - 1);
    if (x)
        qkv_param_touch(p);
    return x;
}

/* Are these still fill_param's? */
static bool holds(qkv_param *p, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 1);
    const qkv_real *x = qkv_param_data(p);
    size_t same = 0, n = qkv_param_count(p);
    while (x && same < n && x[same] == (qkv_real)(2 * qkv_rng_uniform(&r) - 1))
        same++;
    return same == n;
}

static bool make_layer(layer *l, qkv_context *ctx)
{
    const size_t shape[] = {ROWS, WIDTH}, n[] = {ROWS};
    *l = (layer){0};
    if (qkv_params_create(&l->ps, ctx))
        return false;
    l->w = qkv__param_linear(qkv_param_create(l->ps, "w", 2, shape));
    l->table = qkv__param_table(qkv_param_create(l->ps, "table", 2, shape));
    l->bias = qkv_param_create(l->ps, "bias", 1, n);
    l->free = qkv_param_create(l->ps, "free", 2, shape);
    l->down = qkv_param_create(l->ps, "down", 2, (const size_t[]){WIDTH, ROWS});
    return fill_param(l->w, 1) && fill_param(l->table, 2) && fill_param(l->bias, 3) &&
           fill_param(l->free, 4) && fill_param(l->down, 5);
}

/* act(rows of the table by id, then the matrix and a loss on the table). */
static double loss_of(qkv_tape *t, const layer *l, qkv_real *logits)
{
    const int32_t ids[TEXTS] = {3, 0, ROWS - 1, 17, 17}, targets[TEXTS] = {1, 2, 3, 4, ROWS - 1};
    const size_t shape[] = {TEXTS};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_embedding(t, qkv_tensor_ids(t, ids, 1, shape), qkv_use(t, l->table), 0.5,
                                  NULL, NULL);
    qkv_tensor *y = qkv_linear(t, x, qkv_use(t, l->w), qkv_use(t, l->bias), QKV_ACT_NONE);
    qkv_tensor *loss = qkv_classifier_loss(t, x, qkv_use(t, l->table), qkv_use(t, l->bias),
                                           qkv_tensor_ids(t, targets, 1, shape), NULL);
    const qkv_real *values = y ? qkv_data(t, y) : NULL;
    if (values && logits)
        memcpy(logits, values, TEXTS * ROWS * sizeof *logits);
    return loss && values ? (double)qkv_item(t, loss) + (double)values[7] * 1e-3 : -1;
}

static void test_ops(void **state)
{
    fixture *f = *state;
    static const struct {
        qkv_weights weights, of_table;
        double off; /* of an output, in standard deviations of outputs */
        double bits;
    } cases[] = {{QKV_WEIGHTS_BF16, QKV_WEIGHTS_BF16, 0.01, 16},
                 {QKV_WEIGHTS_INT8, QKV_WEIGHTS_INT8, 0.03, 8.6},
                 {QKV_WEIGHTS_INT4, QKV_WEIGHTS_INT8, 0.3, 4.5}};
    for (size_t i = 0; i < 3; i++) {
        layer l;
        qkv_real exact[TEXTS * ROWS], found[TEXTS * ROWS];
        assert_true(make_layer(&l, f->ctx));
        double before = loss_of(f->t, &l, exact), square = 0;
        size_t full = qkv_params_bytes(l.ps);
        assert_int_equal(qkv_params_store(l.ps, cases[i].weights), QKV_OK);
        assert_int_equal(qkv_param_weights(l.w), cases[i].weights);
        assert_int_equal(qkv_param_weights(l.table), cases[i].of_table);
        assert_int_equal(qkv_param_weights(l.bias), QKV_WEIGHTS_F32);
        assert_int_equal(qkv_param_weights(l.free), QKV_WEIGHTS_F32);
        double table_bits = cases[i].of_table == QKV_WEIGHTS_INT8 ? 8.6 : 16;
        double saved = ROWS * WIDTH / 8.0 * (64 - cases[i].bits - table_bits);
        /* Rows are filled up to 80, numbers to 128. */
        assert_true((double)(full - qkv_params_bytes(l.ps)) > 0.75 * saved);
        double after = loss_of(f->t, &l, found);
        assert_true(fabs(after - before) < 0.05 && after > 0);
        for (size_t k = 0; k < TEXTS * ROWS; k++)
            square += (double)exact[k] * (double)exact[k] / (TEXTS * ROWS);
        for (size_t k = 0; k < TEXTS * ROWS; k++)
            assert_true(fabs((double)exact[k] - (double)found[k]) < cases[i].off * sqrt(square));
        /* The same once more changes nothing. */
        size_t bytes = qkv_params_bytes(l.ps);
        assert_int_equal(qkv_params_store(l.ps, cases[i].weights), QKV_OK);
        assert_int_equal(qkv_params_bytes(l.ps), bytes);
        assert_true(loss_of(f->t, &l, NULL) == after);
        qkv_tape_reset(f->t);
        qkv_params_destroy(l.ps);
    }
}

static void expect_sentence(fixture *f, const char *words)
{
    assert_non_null(strstr(qkv_context_message(f->ctx), words));
    qkv_tape_reset(f->t);
}

/* Nothing else reads them, nothing trains them, and there are no values in f32. */
static void test_refusals(void **state)
{
    fixture *f = *state;
    layer l;
    assert_true(make_layer(&l, f->ctx));
    assert_int_equal(qkv_params_store(l.ps, QKV_WEIGHTS_AUTO), QKV_OK);
    assert_int_equal(qkv_params_store(l.ps, QKV_WEIGHTS_F32), QKV_OK);
    assert_non_null(qkv_param_data(l.w));
    assert_int_equal(qkv_params_store(l.ps, (qkv_weights)9), QKV_E_ARGUMENT);
    assert_int_equal(qkv_params_store(l.ps, QKV_WEIGHTS_INT8), QKV_OK);
    assert_true(qkv_param_frozen(l.w) && !qkv_param_frozen(l.free));
    assert_null(qkv_param_data(l.w));
    expect_sentence(f, "parameter w is kept in int8: it has no values in f32");
    qkv_tape *t = f->t;
    qkv_tape_mode(t, false, false);
    assert_null(qkv_add(t, qkv_use(t, l.w), qkv_use(t, l.free)));
    expect_sentence(f, "parameter w is kept in int8, which this op does not read");
    qkv_tape_mode(t, false, false);
    assert_null(qkv_linear(t, qkv_slice(t, qkv_use(t, l.w), 0, 0, 2), qkv_use(t, l.free), NULL,
                           QKV_ACT_NONE));
    expect_sentence(f, "parameter w is kept in int8");
    assert_null(qkv_data(t, qkv_use(t, l.w)));
    qkv_tape_mode(t, true, false);
    qkv_param_freeze(l.w, false);
    qkv_tensor *x = qkv_use(t, l.free);
    assert_null(qkv_linear(t, x, qkv_use(t, l.w), NULL, QKV_ACT_NONE));
    expect_sentence(f, "parameter w is kept in int8, which cannot be trained");
    qkv_params_destroy(l.ps);
}

/* ---- frozen in fewer bits, in a pass that records -------------------------------------------- */

/* The numbers that a parameter in fewer bits stands for become another's. */
static void stand_for(qkv_tape *t, qkv_param *out, qkv_param *stored)
{
    static int32_t all[WIDE_ROWS];
    const size_t shape[] = {qkv_param_dim(out, 0)};
    for (size_t j = 0; j < shape[0]; j++)
        all[j] = (int32_t)j;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    const qkv_tensor *x = qkv_embedding(t, qkv_tensor_ids(t, all, 1, shape), qkv_use(t, stored), 1,
                                        NULL, NULL);
    memcpy(qkv_param_data(out), qkv_data(t, x), qkv_param_count(out) * sizeof(qkv_real));
    qkv_param_touch(out);
}

/* Sums of squares of: rows of the table through a linear layer and its activation, through a
 * network of that layer and its transpose, and a classifier's loss. */
static qkv_tensor *frozen_loss(qkv_tape *t, const layer *l)
{
    const int32_t ids[TEXTS] = {3, 0, 5, 17, 17};
    const size_t shape[] = {TEXTS};
    qkv_tensor *table = qkv_use(t, l->table), *w = qkv_use(t, l->w), *bias = qkv_use(t, l->bias);
    qkv_tensor *rows = qkv_tensor_ids(t, ids, 1, shape);
    qkv_tensor *x = qkv_add(t, qkv_embedding(t, rows, table, 1, NULL, NULL),
                            qkv_slice(t, qkv_use(t, l->free), 0, 0, TEXTS));
    qkv_tensor *y = qkv_linear(t, x, w, bias, QKV_ACT_GELU);
    const qkv__layer up = {w, bias}, down = {qkv_use(t, l->down), NULL};
    qkv_tensor *z = qkv__feed_forward(t, x, &up, QKV_ACT_SILU, &down);
    qkv_tensor *loss = qkv_classifier_loss(t, z, table, NULL, rows, NULL);
    return qkv_add(t, loss, qkv_add(t, qkv_sum(t, qkv_mul(t, y, y)),
                                    qkv_sum(t, qkv_mul(t, z, z))));
}

static double frozen_gradient(fixture *f, const layer *l, qkv_real *out)
{
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, false);
    qkv_params_zero_grad(l->ps);
    qkv_tensor *loss = frozen_loss(f->t, l);
    if (!loss)
        fail_msg("%s", qkv_context_message(f->ctx));
    double value = (double)qkv_item(f->t, loss);
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    memcpy(out, qkv_param_grad(l->free), TEXTS * WIDTH * sizeof *out);
    return value;
}

static void compare_gradients(const char *what, const qkv_real *got, const qkv_real *expected,
                              size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) { /* gcc 12 for Arm fails at a fmax here */
        double size = fabs((double)expected[i]);
        most = size > most ? size : most;
    }
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)(got[i] - expected[i])) <= 1e-5 * most))
            fail_msg("%s: gradient %zu is %.9g, expected %.9g", what, i, (double)got[i],
                     (double)expected[i]);
}

/* The same loss and gradients as with the numbers in f32 that they stand for. */
static void test_frozen(void **state)
{
    fixture *f = *state;
    for (qkv_weights weights = QKV_WEIGHTS_BF16; weights <= QKV_WEIGHTS_INT4; weights++) {
        layer a, b;
        static qkv_real got[TEXTS * WIDTH], expected[TEXTS * WIDTH];
        assert_true(make_layer(&a, f->ctx) && make_layer(&b, f->ctx));
        assert_int_equal(qkv_params_store(a.ps, weights), QKV_OK);
        stand_for(f->t, b.w, a.w);
        stand_for(f->t, b.table, a.table);
        double y = frozen_gradient(f, &a, got), z = frozen_gradient(f, &b, expected);
        assert_null(qkv_param_grad(a.w));
        compare_gradients(qkv_weights_name(weights), got, expected, TEXTS * WIDTH);
        if (!(fabs(y - z) <= 1e-5 * fabs(z)))
            fail_msg("%s: the loss is %.9g, expected %.9g", qkv_weights_name(weights), y, z);
        qkv_tape_reset(f->t);
        qkv_params_destroy(a.ps);
        qkv_params_destroy(b.ps);
    }
}

/* A matrix that is widened in two goes, and added to a gradient that is there. */
static void test_frozen_wide(void **state)
{
    fixture *f = *state;
    const size_t shape[] = {WIDE_ROWS, WIDE}, x_shape[] = {TEXTS, WIDE};
    static qkv_real grads[2][TEXTS * WIDE];
    qkv_params *ps;
    assert_int_equal(qkv_params_create(&ps, f->ctx), QKV_OK);
    qkv_param *w = qkv__param_linear(qkv_param_create(ps, "w", 2, shape));
    qkv_param *plain = qkv_param_create(ps, "plain", 2, shape);
    qkv_param *x = qkv_param_create(ps, "x", 2, x_shape);
    assert_true(fill_param(w, 1) && fill_param(x, 2));
    assert_int_equal(qkv_params_store(ps, QKV_WEIGHTS_INT8), QKV_OK);
    stand_for(f->t, plain, w);
    qkv_param_freeze(plain, true);
    for (int i = 0; i < 2; i++) {
        qkv_tape_reset(f->t);
        qkv_tape_mode(f->t, true, false);
        qkv_params_zero_grad(ps);
        qkv_tensor *in = qkv_use(f->t, x);
        qkv_tensor *y = qkv_linear(f->t, in, qkv_use(f->t, i ? plain : w), NULL, QKV_ACT_NONE);
        qkv_tensor *loss = qkv_add(f->t, qkv_sum(f->t, qkv_mul(f->t, y, y)),
                                   qkv_sum(f->t, qkv_mul(f->t, in, in)));
        assert_non_null(loss);
        assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        memcpy(grads[i], qkv_param_grad(x), sizeof grads[i]);
    }
    compare_gradients("wide", grads[0], grads[1], TEXTS * WIDE);
    qkv_tape_reset(f->t);
    qkv_params_destroy(ps);
}

/* Rows of the table times the matrix that is not marked, so often that in the end it is packed. */
static void times_free_often(qkv_tape *t, const layer *l, qkv_real out[TEXTS * ROWS])
{
    const int32_t ids[TEXTS] = {3, 0, 5, 17, 17};
    const size_t shape[] = {TEXTS};
    for (int i = 0; i < 8; i++) {
        qkv_tensor *rows = qkv_tensor_ids(t, ids, 1, shape);
        qkv_tensor *x = qkv_embedding(t, rows, qkv_use(t, l->table), 1, NULL, NULL);
        x = qkv_linear(t, x, qkv_use(t, l->free), NULL, QKV_ACT_NONE);
        assert_non_null(x);
        memcpy(out, qkv_data(t, x), TEXTS * ROWS * sizeof *out);
    }
}

/* What keeps its width moves: its gradient and its packed copy stay behind, and the step that goes
 * on uses the new place. */
static void test_moved(void **state)
{
    fixture *f = *state;
    qkv_tape *t = f->t;
    layer l;
    qkv_real before[TEXTS * ROWS], after[TEXTS * ROWS];
    assert_true(make_layer(&l, f->ctx));
    assert_int_equal(qkv_params_store(l.ps, QKV_WEIGHTS_INT8), QKV_OK);
    qkv_tape_pack(t, true);
    qkv_tape_mode(t, false, false);
    times_free_often(t, &l, before);
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, false);
    qkv_tensor *leaf = qkv_use(t, l.free);
    assert_int_equal(qkv_backward(t, qkv_sum(t, leaf)), QKV_OK);
    assert_non_null(qkv_param_grad(l.free));
    assert_int_equal(qkv_params_store(l.ps, QKV_WEIGHTS_BF16), QKV_OK);
    assert_int_equal(qkv_param_weights(l.w), QKV_WEIGHTS_INT8);
    assert_false(qkv__param_has_grad(l.free));
    const qkv_real *used = qkv_data(t, qkv_use(t, l.free)), *kept = qkv_param_data(l.free);
    assert_memory_equal(used, kept, qkv_param_count(l.free) * sizeof *used);
    if (qkv__context_device(f->ctx)->host) /* elsewhere both are copies */
        assert_ptr_equal(used, kept);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    times_free_often(t, &l, after);
    assert_memory_equal(after, before, sizeof before);
    qkv_tape_pack(t, false);
    qkv_tape_reset(t);
    qkv_params_destroy(l.ps);
}

/* A whole model: its likelihoods hardly change, its memory does. */
static void test_model(void **state)
{
    fixture *f = *state;
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &c);
    c.vocab = 100;
    c.width = 64;
    c.layers = 2;
    c.heads = 4;
    c.positions = 16;
    const int32_t ids[] = {5, 9, 1, 77, 3, 12, 40, 8};
    const size_t shape[] = {1, 8};
    qkv_model *m;
    assert_int_equal(qkv_model_create(&m, f->ctx, qkv_gpt2_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 1), QKV_OK);
    size_t bytes = qkv_params_bytes(qkv_model_params(m));
    double loss[2];
    for (int i = 0; i < 2; i++) {
        if (i)
            assert_int_equal(qkv_params_store(qkv_model_params(m), QKV_WEIGHTS_INT8), QKV_OK);
        qkv_tape_reset(f->t);
        qkv_tape_mode(f->t, false, false);
        qkv_tensor *x = qkv_tensor_ids(f->t, ids, 2, shape);
        qkv_tensor *y = qkv_lm_loss(m, f->t, qkv_lm_hidden(m, f->t, x, 0, NULL, NULL), x, NULL);
        loss[i] = (double)qkv_item(f->t, y);
    }
    if (!(fabs(loss[0] - loss[1]) < 0.01 * loss[0]))
        fail_msg("loss %g in f32, %g in int8", loss[0], loss[1]);
    assert_true(qkv_params_bytes(qkv_model_params(m)) < bytes / 3);
    qkv_tape_reset(f->t);
    qkv_model_destroy(m);
}

/* On failure nothing has changed. */
static double store_and_run(failing *memory)
{
    qkv_context_options o = failing_options(memory);
    qkv_context *ctx;
    qkv_tape *t = NULL;
    layer l = {0};
    double result = -1;
    if (qkv_context_create(&ctx, &o))
        return -1;
    if (qkv_tape_create(&t, ctx) == QKV_OK && make_layer(&l, ctx)) {
        size_t bytes = qkv_params_bytes(l.ps);
        if (qkv_params_store(l.ps, QKV_WEIGHTS_INT4) == QKV_OK)
            result = loss_of(t, &l, NULL);
        else
            assert_true(qkv_param_weights(l.w) == QKV_WEIGHTS_F32 && holds(l.w, 1) &&
                        holds(l.table, 2) && holds(l.free, 4) && qkv_params_bytes(l.ps) == bytes);
    }
    qkv_tape_destroy(t);
    qkv_params_destroy(l.ps);
    qkv_context_destroy(ctx);
    return result;
}

static void test_memory(void **state)
{
    (void)state;
    fail_every_allocation(store_and_run, 300, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frozen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frozen_wide, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model, setup, teardown),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
