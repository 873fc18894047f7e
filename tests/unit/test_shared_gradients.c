/* test_shared_gradients.c - both terms of a normalised sum have the same gradient, and get it in
 * the same memory: whoever adds to one of them must not change the other. The answers are those of
 * a pass in which every gradient is asked for, so that nothing is shared. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "qkv/ops.h"
#include "tapes.h"

enum { ROWS = 3, CHANNELS = 8, COUNT = ROWS * CHANNELS };

typedef struct {
    qkv_real a[COUNT], b[COUNT];
} gradients;

static qkv_tensor *input(qkv_tape *t, double step)
{
    const size_t shape[] = {ROWS, CHANNELS};
    qkv_tensor *x = qkv_tensor_from(t, NULL, 2, shape);
    qkv_real *p = qkv_tensor_fill(x);
    for (size_t i = 0; i < COUNT; i++)
        p[i] = (qkv_real)(step * (double)(i * i % 11) - 0.3);
    return qkv_require_grad(t, x);
}

static qkv_tensor *sum_of_squares(qkv_tape *t, qkv_tensor *x)
{
    return qkv_sum(t, qkv_mul(t, x, x));
}

/* asked: gradients of what lies between are asked for. The branch x and the stream r come from ops;
 * r is read once more, by an op that runs before the sum (again 1) or behind it (2), or not. */
static gradients pass(qkv_tape *t, bool asked, int again, bool drops)
{
    gradients g;
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_tensor *a = input(t, 0.21), *b = input(t, 0.13), *extra = NULL, *sum = NULL;
    qkv_tensor *x = qkv_activate(t, a, QKV_ACT_TANH), *r = qkv_activate(t, b, QKV_ACT_SIGMOID);
    if (asked) {
        (void)qkv_require_grad(t, x);
        (void)qkv_require_grad(t, r);
    }
    if (again == 1)
        extra = qkv_activate(t, r, QKV_ACT_SILU);
    qkv_tensor *y;
    if (drops) {
        sum = qkv_dropout_add(t, x, r, 0.25, 3);
        y = qkv_norm(t, QKV_NORM_LAYER, sum, NULL, NULL, 1e-5);
    } else {
        y = qkv_residual_norm(t, QKV_NORM_LAYER, x, r, NULL, NULL, 1e-5, &sum);
    }
    if (asked)
        (void)qkv_require_grad(t, sum);
    if (again == 2)
        extra = qkv_activate(t, r, QKV_ACT_SILU);
    qkv_tensor *loss = qkv_add(t, sum_of_squares(t, qkv_activate(t, y, QKV_ACT_SILU)),
                               sum_of_squares(t, sum));
    if (extra)
        loss = qkv_add(t, loss, sum_of_squares(t, extra));
    assert_int_equal(qkv_backward(t, loss), QKV_OK);
    memcpy(g.a, qkv_data(t, qkv_grad_of(t, a)), sizeof g.a);
    memcpy(g.b, qkv_data(t, qkv_grad_of(t, b)), sizeof g.b);
    return g;
}

static void test_sums(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    for (int again = 0; again < 3; again++)
        for (int drops = 0; drops < 2; drops++) {
            const gradients got = pass(t, false, again, drops);
            const gradients want = pass(t, true, again, drops);
            assert_memory_equal(got.a, want.a, sizeof got.a);
            assert_memory_equal(got.b, want.b, sizeof got.b);
            assert_true(got.a[1] != 0 && got.b[1] != 0 && got.a[1] != got.b[1]);
        }
}

/* A layer with an activation writes over the gradient that it gets, unless others hold that too. */
static void test_in_place(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    qkv_real first[2][COUNT];
    for (int asked = 0; asked < 2; asked++) {
        qkv_tape_reset(t);
        qkv_tape_mode(t, true, true);
        const size_t square[] = {CHANNELS, CHANNELS};
        qkv_tensor *w = qkv_tensor_from(t, NULL, 2, square);
        qkv_real *p = qkv_tensor_fill(w);
        for (size_t i = 0; i < CHANNELS * CHANNELS; i++)
            p[i] = (qkv_real)((double)(i % 5) * 0.2 - 0.3);
        qkv_tensor *b = input(t, 0.13), *r = qkv_activate(t, b, QKV_ACT_SIGMOID);
        qkv_tensor *x = qkv_linear(t, input(t, 0.21), w, NULL, QKV_ACT_TANH), *sum;
        if (asked) {
            (void)qkv_require_grad(t, x);
            (void)qkv_require_grad(t, r);
        }
        qkv_tensor *y = qkv_residual_norm(t, QKV_NORM_LAYER, x, r, NULL, NULL, 1e-5, &sum);
        assert_int_equal(qkv_backward(t, sum_of_squares(t, qkv_add(t, y, sum))), QKV_OK);
        memcpy(first[asked], qkv_data(t, qkv_grad_of(t, b)), sizeof first[asked]);
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_place, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
