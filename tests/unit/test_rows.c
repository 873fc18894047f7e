/* Rows of a table's gradient that are kept apart: with what the other ops add they are the
 * gradient, and the table counts as complete before they come. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fixture.h"
#include "qkv/ops.h"
#include "qkv/tensor.h"
#include "train/rows.h"

enum { ROWS = 5, C = 3, TOKENS = 6, PAD = 4, PADS = 1 };
static const int32_t tokens[2][TOKENS] = {{1, 0, 1, PAD, 3, 1}, {2, 2, PAD, 1, 0, 0}};

typedef enum { TIED, TWO_TIED, HEAD_UNREACHED, TWO_UNREACHED, UNTIED, KINDS } network;

typedef struct {
    qkv_params *ps;
    qkv_param *table;
    qkv_tape *t;
    qkv__partition *part;
    qkv__rows *rows; /* NULL: none are kept apart */
    size_t ready;         /* calls of on_ready for the table */
    size_t rows_at_ready; /* numbers that were kept apart by then */
} bench;

static void on_ready(void *user, qkv_param *p)
{
    bench *b = user;
    if (p != b->table)
        return;
    b->ready++;
    b->rows_at_ready = b->rows ? qkv__rows_numbers(b->rows) : 0;
}

static void end(bench *b)
{
    qkv__rows_destroy(b->rows);
    qkv_tape_destroy(b->t);
    qkv__partition_destroy(b->part);
    qkv_params_destroy(b->ps);
}

static qkv_status begin(bench *b, bool apart)
{
    *b = (bench){.ps = NULL};
    qkv_status status = qkv_params_create(&b->ps, ctx);
    const size_t shape[] = {ROWS, C};
    if (!status)
        b->table = qkv_param_create(b->ps, "table", 2, shape);
    if (!status && !b->table)
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv_tape_create(&b->t, ctx);
    if (status)
        return status;
    qkv_real *x = qkv_param_data(b->table);
    if (!x)
        return QKV_E_MEMORY;
    for (int i = 0; i < ROWS * C; i++)
        x[i] = (qkv_real)sin(i + 1);
    qkv_param_touch(b->table);
    status = qkv__partition_create(&b->part, b->ps, 2, false, false);
    if (!status && apart)
        status = qkv__rows_create(&b->rows, b->part);
    if (!status && apart)
        qkv__tape_on_grad_rows(b->t, qkv__rows_take, b->rows);
    qkv_tape_on_grad_ready(b->t, on_ready, b);
    return status;
}

static qkv_tensor *embed(bench *b, int i)
{
    const size_t n = TOKENS;
    qkv_tensor *ids = qkv_tensor_ids(b->t, tokens[i], 1, &n);
    return qkv_embedding_padded(b->t, ids, qkv_use(b->t, b->table), 2, NULL, NULL, PAD);
}

/* The gradient of a sum, of which each part of the network is or is not a part. */
static qkv_status pass(bench *b, network kind)
{
    bool two = kind == TWO_TIED || kind == TWO_UNREACHED;
    qkv_tape_mode(b->t, true, true);
    qkv_tensor *x = embed(b, 0);
    if (two)
        x = qkv_add(b->t, qkv_mul(b->t, x, x), embed(b, 1));
    qkv_tensor *y = x;
    if (kind != UNTIED)
        y = qkv_linear(b->t, x, qkv_use(b->t, b->table), NULL, QKV_ACT_NONE);
    if (kind == HEAD_UNREACHED || kind == TWO_UNREACHED)
        y = x;
    return qkv_backward(b->t, qkv_sum(b->t, qkv_mul(b->t, y, y)));
}

static qkv_status gradient_of(network kind, bool apart, qkv_real *out)
{
    bench b;
    qkv_status status = begin(&b, apart);
    if (!status)
        status = pass(&b, kind);
    if (!status && apart) {
        static const size_t rows[KINDS] = {[TIED] = 1, [TWO_TIED] = 2, [TWO_UNREACHED] = 1};
        assert_int_equal(qkv__rows_numbers(b.rows), rows[kind] * (TOKENS - PADS) * C);
        assert_int_equal(b.rows_at_ready, 0);
    }
    if (!status)
        assert_int_equal(b.ready, 1);
    if (!status && apart) {
        status = qkv__rows_finish(b.rows);
        assert_int_equal(qkv__rows_numbers(b.rows), 0);
    }
    const qkv_real *grad = status ? NULL : qkv_param_grad(b.table);
    if (!status && !grad)
        status = QKV_E_MEMORY;
    if (!status)
        memcpy(out, grad, sizeof(qkv_real[ROWS * C]));
    end(&b);
    return status;
}

static void same_gradient(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        qkv_real plain[ROWS * C], apart[ROWS * C];
        assert_int_equal(gradient_of(kind, false, plain), QKV_OK);
        assert_int_equal(gradient_of(kind, true, apart), QKV_OK);
        for (int i = 0; i < ROWS * C; i++)
            if (fabs((double)(plain[i] - apart[i])) > 1e-5 * fmax(1, fabs((double)plain[i])))
                fail_msg("kind %d, element %d: %g instead of %g", kind, i, (double)apart[i],
                         (double)plain[i]);
    }
}

static qkv_status tied(void *user)
{
    qkv_real unused[ROWS * C];
    (void)user;
    return gradient_of(TIED, true, unused);
}

static void memory_missing(void **state)
{
    (void)state;
    expect_memory_told(tied, NULL, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_gradient),
        cmocka_unit_test(memory_missing),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
