/* test_tape.c - what a backward pass reaches, what it leaves alone, and how often it may run.
 *
 * The functions are small enough to differentiate by hand; their gradients are written beside
 * them. Views and broadcasting are checked against differences. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"
#include "params.h"

enum { N = 4 };
static const size_t shape[] = {N};
static const double xs[N] = {0.5, -1.25, 2, 3}, ws[N] = {1.5, 0.25, -0.75, 2};

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *w, *v;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    params_begin(&f->ctx, &f->t, &f->ps);
    f->w = qkv_param_create(f->ps, "w", 1, shape);
    f->v = qkv_param_create(f->ps, "v", 1, shape);
    for (int i = 0; i < N; i++) {
        qkv_param_data(f->w)[i] = ws[i];
        qkv_param_data(f->v)[i] = i + 1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    params_end(f->ctx, f->t, f->ps);
    free(f);
    return 0;
}

static void expect(const double *got, const double *expected)
{
    assert_non_null(got);
    for (int i = 0; i < N; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-12))
            fail_msg("element %d: %.17g, not %.17g", i, got[i], expected[i]);
}

static void expect_grad(fixture *f, const qkv_tensor *x, const double *expected)
{
    const qkv_tensor *g = qkv_grad_of(f->t, x);
    assert_non_null(g);
    expect(qkv_data(f->t, g), expected);
}

static qkv_tensor *input(fixture *f) { return qkv_tensor_from(f->t, xs, 1, shape); }

/* sum w x: dw = x; the second pass adds. */
static void test_accumulates(void **state)
{
    fixture *f = *state;
    double once[N], twice[N];
    for (int i = 0; i < N; i++) {
        once[i] = xs[i];
        twice[i] = 2 * xs[i];
    }
    assert_null(qkv_param_grad(f->w));
    for (int pass = 0; pass < 2; pass++) {
        qkv_tensor *y = qkv_sum(f->t, qkv_mul(f->t, qkv_use(f->t, f->w), input(f)));
        assert_int_equal(qkv_backward(f->t, y), QKV_OK);
        expect(qkv_param_grad(f->w), pass ? twice : once);
        if (pass == 0)
            qkv_tape_reset(f->t);
    }
    qkv_params_zero_grad(f->ps);
    assert_null(qkv_param_grad(f->w));
    assert_null(qkv_param_grad(f->v));
    qkv_tensor *y = qkv_sum(f->t, qkv_mul(f->t, qkv_use(f->t, f->w), input(f)));
    assert_int_equal(qkv_backward(f->t, y), QKV_OK);
    expect(qkv_param_grad(f->w), once);
}

/* A parameter used three times in one step: sum (w w x): dw = 2 w x. */
static void test_shared_parameter(void **state)
{
    fixture *f = *state;
    qkv_tensor *w = qkv_use(f->t, f->w);
    assert_ptr_equal(w, qkv_use(f->t, f->w));
    qkv_tensor *y = qkv_sum(f->t, qkv_mul(f->t, w, qkv_mul(f->t, w, input(f))));
    assert_int_equal(qkv_backward(f->t, y), QKV_OK);
    double expected[N];
    for (int i = 0; i < N; i++)
        expected[i] = 2 * ws[i] * xs[i];
    expect(qkv_param_grad(f->w), expected);
}

/* Passes to chosen tensors leave parameters' own gradients alone, and may be repeated. */
static void test_chosen(void **state)
{
    fixture *f = *state;
    qkv_tensor *x = qkv_require_grad(f->t, input(f)), *w = qkv_use(f->t, f->w);
    qkv_tensor *h = qkv_mul(f->t, w, x), *y = qkv_mul(f->t, h, h); /* w^2 x^2 */
    double to_x[N], to_w[N], to_h[N];
    for (int i = 0; i < N; i++) {
        to_x[i] = 2 * ws[i] * ws[i] * xs[i];
        to_w[i] = 2 * ws[i] * xs[i] * xs[i];
        to_h[i] = 2 * ws[i] * xs[i];
    }
    qkv_backward_args a = {.n = 1, .outputs = &y, .n_wrt = 1, .wrt = &x, .retain_graph = true};
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    expect_grad(f, x, to_x);
    assert_null(qkv_grad_of(f->t, w));
    qkv_tensor *both[] = {w, h};
    a.n_wrt = 2;
    a.wrt = both;
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    expect_grad(f, w, to_w);
    expect_grad(f, h, to_h);
    assert_null(qkv_grad_of(f->t, x));
    assert_null(qkv_param_grad(f->w));
    assert_int_equal(qkv_backward_from(f->t, &(qkv_backward_args){.n = 1, .outputs = &y}), QKV_OK);
    expect(qkv_param_grad(f->w), to_w);
    expect_grad(f, x, to_x);
}

/* Several outputs with given gradients: 2 (w x) and 3 (v x). One output alone leaves v out. */
static void test_outputs(void **state)
{
    fixture *f = *state;
    qkv_tensor *x = input(f);
    qkv_tensor *y[] = {qkv_mul(f->t, qkv_use(f->t, f->w), x),
                       qkv_mul(f->t, qkv_use(f->t, f->v), x)};
    const double two[N] = {2, 2, 2, 2}, three[N] = {3, 3, 3, 3};
    const qkv_tensor *g[] = {qkv_tensor_from(f->t, two, 1, shape),
                             qkv_tensor_from(f->t, three, 1, shape)};
    qkv_backward_args a = {.n = 1, .outputs = y, .gradients = g, .retain_graph = true};
    double twice[N], thrice[N], four[N];
    for (int i = 0; i < N; i++) {
        twice[i] = 2 * xs[i];
        thrice[i] = 3 * xs[i];
        four[i] = 4 * xs[i];
    }
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    expect(qkv_param_grad(f->w), twice);
    assert_null(qkv_param_grad(f->v));
    a.n = 2;
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    expect(qkv_param_grad(f->w), four);
    expect(qkv_param_grad(f->v), thrice);
    qkv_tensor *w = qkv_use(f->t, f->w); /* an output that is itself a parameter */
    qkv_params_zero_grad(f->ps);
    assert_int_equal(qkv_backward_from(f->t, &(qkv_backward_args){.n = 1, .outputs = &w,
                                                                  .gradients = g}), QKV_OK);
    expect(qkv_param_grad(f->w), two);
}

static void test_detach(void **state)
{
    fixture *f = *state;
    qkv_tensor *w = qkv_use(f->t, f->w);
    qkv_tensor *y = qkv_mul(f->t, w, qkv_detach(f->t, qkv_mul(f->t, w, w)));
    assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, y)), QKV_OK);
    double expected[N];
    for (int i = 0; i < N; i++)
        expected[i] = ws[i] * ws[i];
    expect(qkv_param_grad(f->w), expected);
}

/* As adversarial training does it, on one tape: the generator is x -> w x, the evaluate y -> v y.
 * Two losses' gradients at the last layer give a weight; then the evaluate, frozen, passes the
 * generator its gradient; then, thawed, it learns from a detached second forward. */
static void test_adversarial(void **state)
{
    fixture *f = *state;
    qkv_tensor *w = qkv_use(f->t, f->w), *fake = qkv_mul(f->t, w, input(f));
    qkv_param_freeze(f->v, true);
    qkv_tensor *a = qkv_sum(f->t, qkv_mul(f->t, fake, fake));
    qkv_tensor *b = qkv_sum(f->t, qkv_mul(f->t, qkv_use(f->t, f->v), fake));
    double to_a[N], to_b[N], both[N], evaluate[N];
    for (int i = 0; i < N; i++) {
        to_a[i] = 2 * ws[i] * xs[i] * xs[i];
        to_b[i] = (i + 1) * xs[i];
        both[i] = to_a[i] + 0.5 * to_b[i];
        evaluate[i] = ws[i] * xs[i];
    }
    qkv_backward_args at_w = {.n = 1, .outputs = &a, .n_wrt = 1, .wrt = &w, .retain_graph = true};
    assert_int_equal(qkv_backward_from(f->t, &at_w), QKV_OK);
    expect_grad(f, w, to_a);
    at_w.outputs = &b;
    assert_int_equal(qkv_backward_from(f->t, &at_w), QKV_OK);
    expect_grad(f, w, to_b);
    qkv_tensor *total = qkv_add(f->t, a, qkv_scale(f->t, b, 0.5));
    assert_int_equal(qkv_backward_from(f->t, &(qkv_backward_args){.n = 1, .outputs = &total,
                                                                  .retain_graph = true}), QKV_OK);
    expect(qkv_param_grad(f->w), both);
    assert_null(qkv_param_grad(f->v));

    qkv_param_freeze(f->v, false);
    qkv_tensor *again = qkv_sum(f->t, qkv_mul(f->t, qkv_use(f->t, f->v), qkv_detach(f->t, fake)));
    assert_int_equal(qkv_backward(f->t, again), QKV_OK);
    expect(qkv_param_grad(f->v), evaluate);
    expect(qkv_param_grad(f->w), both);
}

/* Frozen, then used, then frozen again: only the uses in between count, and they add up. */
static void test_freezing(void **state)
{
    fixture *f = *state;
    qkv_tensor *x = input(f), *part[4];
    for (int i = 0; i < 4; i++) {
        qkv_param_freeze(f->w, i % 2 == 0);
        part[i] = qkv_mul(f->t, qkv_use(f->t, f->w), x);
    }
    qkv_tensor *y = qkv_add(f->t, qkv_add(f->t, part[0], part[1]), qkv_add(f->t, part[2], part[3]));
    assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, y)), QKV_OK);
    double expected[N];
    for (int i = 0; i < N; i++)
        expected[i] = 2 * xs[i];
    expect(qkv_param_grad(f->w), expected);
}

/* Nothing is noted when no input needs a gradient, and a pass from there says so. */
static void test_nothing_to_do(void **state)
{
    fixture *f = *state;
    qkv_tensor *y = qkv_sum(f->t, input(f));
    assert_int_equal(qkv_backward(f->t, y), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(f->ctx), "depends on nothing"));
    qkv_tape_reset(f->t);
    y = qkv_mul(f->t, qkv_use(f->t, f->w), input(f));
    assert_int_equal(qkv_backward(f->t, y), QKV_E_SHAPE);
    assert_non_null(strstr(qkv_context_message(f->ctx), "(4), not a scalar"));
    qkv_tape_reset(f->t);
    assert_int_equal(qkv_backward(f->t, NULL), QKV_E_ARGUMENT);
}

/* After a pass that dropped the notes, what came before them is out of reach: an error, not a
 * gradient that quietly stops half way. */
static void test_dropped_graph(void **state)
{
    fixture *f = *state;
    qkv_tensor *h = qkv_mul(f->t, qkv_use(f->t, f->w), input(f));
    assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, h)), QKV_OK);
    qkv_tensor *later = qkv_sum(f->t, qkv_mul(f->t, h, qkv_use(f->t, f->v)));
    assert_int_equal(qkv_tape_status(f->t), QKV_OK); /* computing with it is fine */
    assert_int_not_equal(qkv_backward(f->t, later), QKV_OK);
    assert_non_null(strstr(qkv_context_message(f->ctx), "did not retain"));
}

static void count_ready(void *user, qkv_param *p)
{
    int *counts = user;
    counts[strcmp(qkv_param_name(p), "w") == 0 ? 0 : 1]++;
    assert_non_null(qkv_param_grad(p));
}

/* Called once per parameter and pass, when its last use has been passed. */
static void test_grad_ready(void **state)
{
    fixture *f = *state;
    int counts[2] = {0};
    qkv_tape_on_grad_ready(f->t, count_ready, counts);
    qkv_tensor *w = qkv_use(f->t, f->w), *v = qkv_use(f->t, f->v);
    qkv_tensor *h = qkv_mul(f->t, w, qkv_mul(f->t, w, input(f)));
    assert_non_null(qkv_mul(f->t, v, v)); /* not part of the loss */
    qkv_tensor *y = qkv_sum(f->t, h);
    qkv_backward_args a = {.n = 1, .outputs = &y, .retain_graph = true};
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 0);
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    assert_int_equal(counts[0], 2);
    a.n_wrt = 1;
    a.wrt = &w;
    assert_int_equal(qkv_backward_from(f->t, &a), QKV_OK);
    assert_int_equal(counts[0], 2);
}

/* In a scope only the kept tensor survives; parameters used inside can be used again after. */
static void test_scopes(void **state)
{
    fixture *f = *state;
    qkv_tape_mode(f->t, false, false);
    double expected[N];
    for (int i = 0; i < N; i++)
        expected[i] = xs[i];
    qkv_tensor *x = input(f);
    size_t used = 0;
    for (int layer = 0; layer < 40; layer++) {
        qkv_scope s = qkv_scope_begin(f->t);
        qkv_tensor *y = x;
        for (int i = 0; i < 3; i++)
            y = qkv_mul(f->t, y, qkv_use(f->t, f->w));
        y = qkv_scale(f->t, y, 0.5);
        x = qkv_scope_end(f->t, s, y);
        for (int i = 0; i < N; i++)
            expected[i] *= 0.5 * ws[i] * ws[i] * ws[i];
        assert_non_null(x);
        const double *got = qkv_data(f->t, x);
        for (int i = 0; i < N; i++)
            assert_true(fabs(got[i] - expected[i]) <= 1e-12 * fabs(expected[i]));
        size_t grown = qkv_tape_used(f->t) - used;
        used = qkv_tape_used(f->t);
        assert_true(layer == 0 || grown <= 1024); /* the tensor itself and its elements */
    }
    qkv_tape_mode(f->t, true, false);
    qkv_tensor *y = qkv_sum(f->t, qkv_mul(f->t, qkv_use(f->t, f->w), input(f)));
    assert_int_equal(qkv_backward(f->t, y), QKV_OK);
    expect(qkv_param_grad(f->w), xs);
}

/* A parameter's leaf that lay in a scope is not found again, whatever has taken its place. */
static void test_scope_forgets_leaves(void **state)
{
    fixture *f = *state;
    qkv_tape_mode(f->t, false, false);
    const size_t some[] = {300}, many[] = {1000};
    qkv_scope s = qkv_scope_begin(f->t);
    assert_non_null(qkv_tensor_from(f->t, NULL, 1, some)); /* the leaf lies behind it */
    assert_non_null(qkv_scope_end(f->t, s, qkv_scale(f->t, qkv_use(f->t, f->w), 2)));
    memset(qkv_tensor_fill(qkv_tensor_from(f->t, NULL, 1, many)), 1, 1000 * sizeof(double));
    qkv_tensor *w = qkv_use(f->t, f->w);
    assert_int_equal(qkv_ndim(w), 1);
    expect(qkv_data(f->t, w), ws);
}

/* A view of what is released, into a scope that spilled into further blocks. */
static void test_scope_keeps_view(void **state)
{
    fixture *f = *state;
    qkv_tape_mode(f->t, false, false);
    const size_t wide[] = {3, 70000};
    qkv_tensor *before = input(f);
    qkv_scope s = qkv_scope_begin(f->t);
    qkv_tensor *big = qkv_tensor_from(f->t, NULL, 2, wide);
    for (size_t i = 0; i < qkv_count(big); i++)
        qkv_tensor_fill(big)[i] = (double)i;
    big = qkv_scale(f->t, qkv_scale(f->t, big, 2), 0.5);
    qkv_tensor *kept = qkv_scope_end(f->t, s, qkv_slice(f->t, big, 1, 100, 60100));
    assert_int_equal(qkv_tape_status(f->t), QKV_OK);
    const double *got = qkv_data(f->t, kept);
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < 60000; c++)
            assert_true(got[r * 60000 + c] == (double)(r * 70000 + c + 100));
    expect(qkv_data(f->t, before), xs);
}

static void test_steady_memory(void **state)
{
    fixture *f = *state;
    uint64_t calls = 0;
    for (int step = 0; step < 6; step++) {
        qkv_tape_reset(f->t);
        qkv_params_zero_grad(f->ps);
        qkv_tensor *y = qkv_use(f->t, f->w);
        for (int i = 0; i < 2000; i++)
            y = qkv_mul(f->t, y, input(f));
        assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, y)), QKV_OK);
        uint64_t now = qkv_context_memory(f->ctx).calls;
        assert_true(step < 2 || now == calls);
        calls = now;
    }
}

/* ---- against differences ------------------------------------------------------------------- */

static qkv_tensor *square(qkv_tape *t, qkv_tensor *x) { return qkv_mul(t, x, x); }

/* All parts of a split used. */
static int split_all(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    const size_t sizes[] = {2, 3, 1};
    qkv_tensor *part[3];
    if (!qkv_split(t, in[0], -1, 3, sizes, part))
        return 0;
    out[0] = square(t, part[0]);
    out[1] = qkv_exp(t, part[1]);
    out[2] = qkv_mul(t, part[2], part[0]);
    return 3;
}

/* One part unused, and the whole used as well, before and after. */
static int split_some(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const bool *whole_first = user;
    const size_t sizes[] = {1, 2, 1};
    qkv_tensor *x = square(t, in[0]), *part[3];
    if (*whole_first)
        out[1] = qkv_exp(t, x);
    if (!qkv_split(t, x, 1, 3, sizes, part))
        return 0;
    out[0] = square(t, part[1]);
    if (!*whole_first)
        out[1] = qkv_exp(t, x);
    return 2;
}

/* Parts, one unused, that reach their root through a computed tensor. */
static int split_partly(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    const size_t sizes[] = {1, 2, 1};
    qkv_tensor *part[3];
    if (!qkv_split(t, square(t, in[0]), 1, 3, sizes, part))
        return 0;
    out[0] = qkv_add(t, qkv_exp(t, part[2]), square(t, part[2]));
    return 1;
}

/* The same tensor cut twice, in different ways. */
static int split_twice(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    const size_t sizes[] = {2, 2}, other[] = {1, 3};
    qkv_tensor *a[2], *b[2];
    if (!qkv_split(t, in[0], 1, 2, sizes, a) || !qkv_split(t, in[0], 1, 2, other, b))
        return 0;
    out[0] = square(t, a[0]);
    out[1] = qkv_exp(t, b[1]);
    out[2] = square(t, a[1]);
    return 3;
}

static int views(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    const size_t flat[] = {6, 4}, cube[] = {2, 12};
    qkv_tensor *x = square(t, in[0]); /* (2, 3, 4) */
    out[0] = square(t, qkv_reshape(t, x, 2, flat));
    out[1] = qkv_exp(t, qkv_permute(t, x, (const int[]){2, 0, 1}));
    qkv_tensor *turned = qkv_permute(t, x, (const int[]){1, 0, 2});
    out[2] = square(t, qkv_reshape(t, qkv_slice(t, turned, 0, 1, 3), 2, (const size_t[]){4, 4}));
    out[3] = qkv_mul(t, qkv_reshape(t, x, 2, cube), qkv_reshape(t, turned, 2, cube));
    return 4;
}

static int broadcast(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_mul(t, qkv_add(t, square(t, in[0]), in[1]), in[1]);
    return 1;
}

static void test_views(void **state)
{
    (void)state;
    static const bool yes = true, no = false;
    const gradcheck_case cases[] = {
        {.name = "split, all used", .fn = split_all, .inputs = 1, .input = {{2, {3, 6}}}},
        {.name = "split and whole", .fn = split_some, .user = &yes, .inputs = 1,
         .input = {{3, {2, 4, 3}}}},
        {.name = "whole and split", .fn = split_some, .user = &no, .inputs = 1,
         .input = {{3, {2, 4, 3}}}},
        {.name = "split, one used", .fn = split_partly, .inputs = 1, .input = {{3, {2, 4, 3}}}},
        {.name = "split twice", .fn = split_twice, .inputs = 1, .input = {{3, {2, 4, 3}}}},
        {.name = "views", .fn = views, .inputs = 1, .input = {{3, {2, 3, 4}}}},
    };
    gradcheck_all(cases, sizeof cases / sizeof *cases);
}

static void test_broadcasting(void **state)
{
    (void)state;
    const gradcheck_case cases[] = {
        {.name = "same", .fn = broadcast, .inputs = 2, .input = {{2, {3, 4}}, {2, {3, 4}}}},
        {.name = "row", .fn = broadcast, .inputs = 2, .input = {{3, {2, 3, 4}}, {1, {4}}}},
        {.name = "column", .fn = broadcast, .inputs = 2, .input = {{2, {3, 4}}, {2, {3, 1}}}},
        {.name = "middle", .fn = broadcast, .inputs = 2, .input = {{3, {2, 3, 4}}, {3, {2, 1, 4}}}},
        {.name = "both", .fn = broadcast, .inputs = 2, .input = {{3, {2, 1, 4}}, {2, {3, 1}}}},
        {.name = "scalar", .fn = broadcast, .inputs = 2, .input = {{2, {3, 4}}, {0, {0}}}},
        {.name = "first", .fn = broadcast, .inputs = 2,
         .input = {{3, {1, 3, 2}}, {4, {2, 2, 3, 1}}}},
    };
    gradcheck_all(cases, sizeof cases / sizeof *cases);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_accumulates),   TEST(test_shared_parameter), TEST(test_chosen),
        TEST(test_outputs),       TEST(test_detach),           TEST(test_adversarial),
        TEST(test_freezing),      TEST(test_nothing_to_do),    TEST(test_dropped_graph),
        TEST(test_grad_ready),    TEST(test_scopes),           TEST(test_scope_keeps_view),
        TEST(test_scope_forgets_leaves), TEST(test_steady_memory), cmocka_unit_test(test_views),
        cmocka_unit_test(test_broadcasting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
