/* test_loss_numbers.c - a loss is a number that the host has, and the gradient that a pass starts
 * from is 1, which need not lie in memory: whoever else reads them there, or adds to them, must
 * find them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "qkv/ops.h"
#include "tapes.h"

enum { COUNT = 4 };
static const size_t shape[] = {COUNT};
static const qkv_real numbers[COUNT] = {1, 2, 3, -4};
static const double loss_of = 30; /* the sum of their squares */

static qkv_tensor *input(qkv_tape *t)
{
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    return qkv_require_grad(t, qkv_tensor_from(t, numbers, 1, shape));
}

static qkv_tensor *squares(qkv_tape *t, qkv_tensor *x) { return qkv_sum(t, qkv_mul(t, x, x)); }

/* The gradient of x is factor times that of its loss. */
static void expect_gradient(qkv_tape *t, const qkv_tensor *x, double factor)
{
    const qkv_real *g = qkv_data(t, qkv_grad_of(t, x));
    assert_non_null(g);
    for (int i = 0; i < COUNT; i++)
        assert_true((double)g[i] == factor * 2 * (double)numbers[i]);
}

static void expect_number(qkv_tape *t, const qkv_tensor *x, double number)
{
    assert_true((double)qkv_item(t, x) == number);
    assert_true((double)*qkv_data(t, x) == number);
}

static void test_values(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    qkv_tensor *x = input(t), *loss = squares(t, x), *view = qkv_reshape(t, loss, 1, (size_t[]){1});
    qkv_tensor *half = qkv_scale(t, loss, 0.5);
    expect_number(t, loss, loss_of);
    expect_number(t, view, loss_of);
    expect_number(t, half, loss_of / 2);
    expect_number(t, qkv_add(t, loss, half), loss_of * 1.5);
    expect_number(t, qkv_mean(t, qkv_mul(t, view, view)), loss_of * loss_of);
}

/* Kept and asked for; scaled; with an own gradient. */
static void test_one(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    qkv_tensor *x = input(t), *loss = qkv_require_grad(t, squares(t, x));
    assert_int_equal(qkv_backward(t, loss), QKV_OK);
    expect_gradient(t, x, 1);
    expect_number(t, qkv_grad_of(t, loss), 1);
    x = input(t);
    loss = squares(t, x);
    assert_int_equal(qkv_backward(t, qkv_scale(t, loss, 0.25)), QKV_OK);
    expect_gradient(t, x, 0.25);
    x = input(t);
    loss = squares(t, x);
    const qkv_real three = 3;
    const qkv_tensor *g = qkv_tensor_from(t, &three, 0, NULL);
    assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &loss,
                                                               .gradients = &g}), QKV_OK);
    expect_gradient(t, x, 3);
    x = input(t);
    loss = squares(t, x);
    qkv_tensor *wrt[] = {x, loss};
    assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &loss,
                                                               .n_wrt = 2, .wrt = wrt}), QKV_OK);
    expect_gradient(t, x, 1);
    expect_number(t, qkv_grad_of(t, loss), 1);
}

static double pass_from(qkv_tape *t, int n, qkv_tensor *const *outputs, const qkv_tensor *asked)
{
    assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){.n = n, .outputs = outputs}),
                     QKV_OK);
    return (double)qkv_item(t, qkv_grad_of(t, asked));
}

/* Outputs that others are made of, before and behind them in the list; one output twice. */
static void test_several(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    for (int asked = 0; asked < 2; asked++)
        for (int order = 0; order < 3; order++) {
            qkv_tensor *x = input(t), *loss = squares(t, x), *more = qkv_mul(t, loss, loss);
            qkv_tensor *lists[][3] = {{loss, more, more}, {more, loss, more}, {loss, loss, more}};
            const double factor = order < 2 ? 1 + 2 * 2 * loss_of : 2 + 2 * loss_of;
            if (asked)
                assert_true(pass_from(t, 3, lists[order], qkv_require_grad(t, loss)) == factor);
            else
                assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){
                                     .n = 3, .outputs = lists[order]}), QKV_OK);
            expect_gradient(t, x, factor);
        }
}

/* Outputs that are not one number, or are part of more. */
static void test_not_numbers(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    qkv_tensor *x = input(t), *y = qkv_mul(t, x, x);
    assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &y}), QKV_OK);
    expect_gradient(t, x, 1);
    x = input(t);
    y = qkv_slice(t, qkv_mul(t, x, x), 0, 1, 2);
    assert_int_equal(qkv_backward(t, y), QKV_OK);
    const qkv_real *g = qkv_data(t, qkv_grad_of(t, x));
    assert_true(g[0] == 0 && g[1] == 4 && g[2] == 0 && g[3] == 0);
    x = input(t);
    y = qkv_reshape(t, squares(t, x), 2, (size_t[]){1, 1});
    assert_int_equal(qkv_backward(t, y), QKV_OK);
    expect_gradient(t, x, 1);
}

/* Passes add to what parameters hold: over one graph, and over two; a parameter that is itself a
 * pass's output. */
static void test_parameters(void **state)
{
    fixture *f = *state;
    qkv_params *ps;
    assert_int_equal(qkv_params_create(&ps, f->ctx), QKV_OK);
    qkv_param *p = qkv_param_create(ps, "p", 1, shape), *one = qkv_param_create(ps, "one", 0, NULL);
    for (int i = 0; i < COUNT; i++)
        qkv_param_data(p)[i] = numbers[i];
    qkv_param_data(one)[0] = 5;
    qkv_param_touch(p);
    qkv_param_touch(one);
    qkv_tape_mode(f->t, true, true);
    for (int round = 0; round < 2; round++) {
        qkv_tensor *loss = squares(f->t, qkv_use(f->t, p));
        assert_int_equal(qkv_backward_from(f->t, &(qkv_backward_args){
                             .n = 1, .outputs = &loss, .retain_graph = true}), QKV_OK);
        assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
        expect_number(f->t, loss, loss_of);
        for (int i = 0; i < COUNT; i++)
            assert_true((double)qkv_param_grad(p)[i] == (round + 1) * 4 * (double)numbers[i]);
        assert_int_equal(qkv_backward(f->t, qkv_use(f->t, one)), QKV_OK);
        assert_true((double)qkv_param_grad(one)[0] == round + 1);
        qkv_tape_reset(f->t);
    }
    qkv_params_destroy(ps);
}

static bool recomputed(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    (void)args;
    out[0] = squares(t, in[0]);
    return out[0] != NULL;
}

/* The loss is made in a part that is computed again, and by something behind it. */
static void test_recomputed(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    for (int scaled = 0; scaled < 2; scaled++) {
        qkv_tensor *x = input(t), *loss, *total;
        const qkv_recompute_args a = {.fn = recomputed, .n_in = 1, .n_out = 1, .in = &x};
        assert_true(qkv_recompute(t, &a, &loss));
        expect_number(t, loss, loss_of);
        total = scaled ? qkv_sum(t, qkv_scale(t, loss, 0.5)) : loss;
        assert_int_equal(qkv_backward(t, total), QKV_OK);
        expect_gradient(t, x, scaled ? 0.5 : 1);
    }
}

/* Rows of one number, whose sum has the gradient 1 and gives it to both of its terms. */
static void test_shared(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    const size_t one[] = {1, 1};
    const qkv_real two = 2;
    qkv_tensor *a = qkv_require_grad(t, (qkv_tape_mode(t, true, true),
                                         qkv_tensor_from(t, &two, 2, one)));
    qkv_tensor *x = qkv_scale(t, a, 3), *r = qkv_mul(t, a, a), *sum;
    (void)qkv_residual_norm(t, QKV_NORM_RMS, x, r, NULL, NULL, 1e-5, &sum);
    expect_number(t, sum, 10);
    assert_int_equal(qkv_backward(t, sum), QKV_OK);
    expect_number(t, qkv_grad_of(t, a), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recomputed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
