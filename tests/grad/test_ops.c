/* test_ops.c - the gradient of every op but losses and attention, against differences.
 * Functions with kinks get inputs that keep away from them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Away from 0, where ReLU has its kink. */
static double away(double x) { return x < 0 ? x - 0.01 : x + 0.01; }

/* ---- arithmetic -------------------------------------------------------------------------- */

static int arithmetic(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_add(t, in[0], in[1]);
    out[1] = qkv_sub(t, in[1], in[0]);
    out[2] = qkv_mul(t, in[0], in[1]);
    out[3] = qkv_div(t, in[0], in[1]);
    return 4;
}

static int squared(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_mul(t, in[0], in[0]);
    out[1] = qkv_div(t, in[0], in[0]);
    out[2] = qkv_sub(t, in[0], in[0]);
    return 3;
}

static int unary(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_scale(t, in[0], -1.7);
    out[1] = qkv_exp(t, in[0]);
    out[2] = qkv_sum(t, in[0]);
    out[3] = qkv_mean(t, in[0]);
    return 4;
}

static int mean_axis(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_mean_axis(t, in[0], *(const int *)user);
    return 1;
}

static int concat(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_concat(t, *(const int *)user, 3, (qkv_tensor *[]){in[0], in[1], in[0]});
    return 1;
}

static void test_arithmetic(void **state)
{
    (void)state;
    static const int axes[] = {0, 1, 2, -1};
    const gradcheck_case cases[] = {
        {.name = "arithmetic", .fn = arithmetic, .inputs = 2,
         .input = {{2, {3, 5}}, {2, {3, 5}, 0.5, 2}}},
        {.name = "arithmetic, row", .fn = arithmetic, .inputs = 2,
         .input = {{3, {2, 3, 5}}, {1, {5}, 0.5, 2}}},
        {.name = "arithmetic, both spread", .fn = arithmetic, .inputs = 2,
         .input = {{3, {3, 1, 2}}, {2, {4, 1}, -2, -0.5}}},
        {.name = "arithmetic, scalars", .fn = arithmetic, .inputs = 2,
         .input = {{0, {0}}, {0, {0}, 0.5, 2}}},
        {.name = "of itself", .fn = squared, .inputs = 1, .input = {{2, {3, 4}, 0.5, 2}}},
        {.name = "scale, exp, sum, mean", .fn = unary, .inputs = 1, .input = {{3, {3, 2, 4}}}},
        {.name = "scale, exp, sum, mean of a scalar", .fn = unary, .inputs = 1,
         .input = {{0, {0}}}},
        {.name = "mean over 0", .fn = mean_axis, .user = &axes[0], .inputs = 1,
         .input = {{3, {3, 2, 4}}}},
        {.name = "mean over 1", .fn = mean_axis, .user = &axes[1], .inputs = 1,
         .input = {{3, {3, 2, 4}}}},
        {.name = "mean over -1", .fn = mean_axis, .user = &axes[3], .inputs = 1,
         .input = {{3, {3, 2, 4}}}},
        {.name = "mean of a row", .fn = mean_axis, .user = &axes[0], .inputs = 1,
         .input = {{1, {7}}}},
        {.name = "concat 0", .fn = concat, .user = &axes[0], .inputs = 2,
         .input = {{3, {2, 3, 4}}, {3, {1, 3, 4}}}},
        {.name = "concat 1", .fn = concat, .user = &axes[1], .inputs = 2,
         .input = {{3, {2, 3, 4}}, {3, {2, 1, 4}}}},
        {.name = "concat -1", .fn = concat, .user = &axes[3], .inputs = 2,
         .input = {{3, {2, 3, 4}}, {3, {2, 3, 2}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

/* ---- products ---------------------------------------------------------------------------- */

static int matmul(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const bool *turn = user;
    out[0] = qkv_matmul(t, in[0], turn[0], in[1], turn[1]);
    return 1;
}

/* Every transposition of (batch a) M K and (batch b) K N. */
static void check_matmul(const char *name, const size_t *batch_a, int na, const size_t *batch_b,
                         int nb)
{
    enum { M = 3, N = 5, K = 4 };
    for (int bits = 0; bits < 4; bits++) {
        bool turn[] = {bits & 1, bits & 2};
        gradcheck_case c = {.name = name, .fn = matmul, .user = turn, .inputs = 2,
                            .seed = (uint64_t)bits};
        gradcheck_input *a = &c.input[0], *b = &c.input[1];
        memcpy(a->shape, batch_a, (size_t)na * sizeof *batch_a);
        memcpy(b->shape, batch_b, (size_t)nb * sizeof *batch_b);
        a->ndim = na + 2;
        b->ndim = nb + 2;
        a->shape[na] = turn[0] ? K : M;
        a->shape[na + 1] = turn[0] ? M : K;
        b->shape[nb] = turn[1] ? N : K;
        b->shape[nb + 1] = turn[1] ? K : N;
        gradcheck(&c);
    }
}

static void test_matmul(void **state)
{
    (void)state;
    const size_t batch[] = {2, 3};
    check_matmul("one by one", batch, 0, batch, 0);
    check_matmul("batch by batch", batch, 2, batch, 2);
    check_matmul("batch by one", batch, 2, batch, 0);
    check_matmul("one by batch", batch, 0, batch, 2);
}

static int linear(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const qkv_activation *act = user;
    out[0] = qkv_linear(t, in[0], in[1], in[2], *act);
    out[1] = qkv_linear(t, in[0], in[1], NULL, *act);
    return 2;
}

static void test_linear(void **state)
{
    (void)state;
    for (int a = 0; a < QKV_ACT_COUNT; a++) {
        if (a == QKV_ACT_RELU)
            continue; /* its kink lies anywhere among the products; the kernel is tested below */
        qkv_activation act = (qkv_activation)a;
        gradcheck_case c = {.name = "linear", .fn = linear, .user = &act, .inputs = 3,
                            .input = {{3, {2, 3, 5}}, {2, {4, 5}}, {1, {4}}}};
        gradcheck(&c);
    }
}

/* ---- activations --------------------------------------------------------------------------- */

static int activate(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_activate(t, in[0], *(const qkv_activation *)user);
    return 1;
}

static int gated(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const qkv_activation *act = user;
    const size_t half = qkv_dim(in[0], -1) / 2, sizes[] = {half, half};
    qkv_tensor *part[2];
    if (!qkv_split(t, in[0], -1, 2, sizes, part))
        return 0;
    out[0] = qkv_gated(t, part[0], part[1], *act);
    out[1] = qkv_gated(t, in[0], in[1], *act);
    out[2] = qkv_gated(t, in[1], in[1], *act);
    return 3;
}

static int softmax(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_softmax(t, in[0]);
    return 1;
}

static void test_activations(void **state)
{
    (void)state;
    for (int a = 0; a < QKV_ACT_COUNT; a++) {
        qkv_activation act = (qkv_activation)a;
        const gradcheck_case cases[] = {
            {.name = "activate", .fn = activate, .user = &act, .inputs = 1, .seed = (uint64_t)a,
             .input = {{2, {4, 5}, -4, 4, away}}},
            {.name = "gated", .fn = gated, .user = &act, .inputs = 2, .seed = (uint64_t)a,
             .input = {{3, {2, 3, 4}, -2, 2, away}, {3, {2, 3, 4}, -2, 2, away}}},
        };
        gradcheck_all(cases, COUNT(cases));
    }
    const gradcheck_case cases[] = {
        {.name = "softmax", .fn = softmax, .inputs = 1, .input = {{3, {2, 3, 5}, -3, 3}}},
        {.name = "softmax of one", .fn = softmax, .inputs = 1, .input = {{2, {3, 1}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

/* ---- embeddings ---------------------------------------------------------------------------- */

static const int32_t ids[] = {3, 0, 3, 5, 1, 3}, places[] = {0, 1, 2, 0, 1, 2};

static int embedding(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    const size_t shape[] = {2, 3};
    qkv_tensor *tokens = qkv_tensor_ids(t, ids, 2, shape);
    out[0] = qkv_embedding(t, tokens, in[0], 1.5, qkv_tensor_ids(t, places, 2, shape), in[1]);
    out[1] = qkv_embedding(t, tokens, in[0], -1, NULL, NULL);
    return 2;
}

static void test_embedding(void **state)
{
    (void)state;
    const gradcheck_case c = {.name = "embedding", .fn = embedding, .inputs = 2,
                              .input = {{2, {7, 5}}, {2, {4, 5}}}};
    gradcheck(&c);
}

/* ---- norms --------------------------------------------------------------------------------- */

typedef struct {
    qkv_norm_kind kind;
    int weights; /* 0: none, 1: weight, 2: weight and bias */
    int outputs; /* of residual_norm: 1: y, 2: y and sum, 3: the sum alone */
} norm_case;

static int norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const norm_case *c = user;
    qkv_tensor *weight = c->weights ? in[1] : NULL, *bias = c->weights == 2 ? in[2] : NULL;
    out[0] = qkv_norm(t, c->kind, in[0], weight, bias, 1e-3);
    return 1;
}

static int residual_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const norm_case *c = user;
    qkv_tensor *weight = c->weights ? in[2] : NULL, *bias = c->weights == 2 ? in[3] : NULL, *sum;
    out[0] = qkv_residual_norm(t, c->kind, in[0], in[1], weight, bias, 1e-3,
                               c->outputs > 1 ? &sum : NULL);
    if (c->outputs == 3)
        out[0] = qkv_scale(t, sum, 2);
    else if (c->outputs == 2)
        out[1] = qkv_exp(t, sum);
    return c->outputs == 2 ? 2 : 1;
}

/* x + x, and a residual that is used again: gradients that have been written before. */
static int residual_norm_of_itself(qkv_tape *t, qkv_tensor **in, qkv_tensor **out,
                                   const void *user)
{
    const norm_case *c = user;
    qkv_tensor *sum;
    out[0] = qkv_residual_norm(t, c->kind, in[0], in[0], in[1], in[2], 1e-3, &sum);
    out[1] = qkv_residual_norm(t, c->kind, qkv_exp(t, in[0]), sum, in[1], in[2], 1e-3, NULL);
    out[2] = sum;
    return 3;
}

static int l2_normalize(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_l2_normalize(t, in[0], 1e-6);
    return 1;
}

static void test_norms(void **state)
{
    (void)state;
    const norm_case kinds[] = {
        {QKV_NORM_LAYER, 2, 2}, {QKV_NORM_LAYER, 0, 1}, {QKV_NORM_LAYER, 1, 3},
        {QKV_NORM_RMS, 1, 2},   {QKV_NORM_RMS, 0, 1},   {QKV_NORM_RMS, 2, 3},
        {QKV_NORM_NONE, 0, 2},  {QKV_NORM_NONE, 0, 3},
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const gradcheck_case cases[] = {
            {.name = "norm", .fn = norm, .user = &kinds[i], .inputs = 3, .seed = i,
             .input = {{3, {2, 3, 6}}, {1, {6}}, {1, {6}}}},
            {.name = "residual norm", .fn = residual_norm, .user = &kinds[i], .inputs = 4,
             .seed = i, .input = {{3, {2, 3, 6}}, {3, {2, 3, 6}}, {1, {6}}, {1, {6}}}},
            {.name = "residual norm of itself", .fn = residual_norm_of_itself, .user = &kinds[i],
             .inputs = 3, .seed = i, .input = {{2, {4, 6}}, {1, {6}}, {1, {6}}}},
        };
        gradcheck_all(cases, COUNT(cases));
    }
    const gradcheck_case l2 = {.name = "l2", .fn = l2_normalize, .inputs = 1,
                               .input = {{2, {4, 5}}}};
    gradcheck(&l2);
}

/* ---- dropout and rotary -------------------------------------------------------------------- */

static int dropout(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const double *p = user;
    out[0] = qkv_dropout(t, qkv_exp(t, in[0]), *p, 1);
    out[1] = qkv_dropout_add(t, in[0], in[1], *p, 2);
    out[2] = qkv_dropout_add(t, in[1], in[1], *p, 3);
    return 3;
}

static int rotary(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const size_t *width = user, shape[] = {2, 3};
    qkv_tensor *at = qkv_tensor_ids(t, places, 2, shape);
    out[0] = qkv_rotary(t, in[0], at, 100, *width);
    const int32_t last[] = {7, 8, 9, 10, 11, 12};
    out[1] = qkv_rotary(t, qkv_permute(t, in[1], (const int[]){1, 0, 2, 3}),
                        qkv_tensor_ids(t, last, 2, shape), 100, *width);
    return 2;
}

static void test_dropout_and_rotary(void **state)
{
    (void)state;
    static const double half = 0.5, none = 0;
    static const size_t all = 6, some = 4;
    const gradcheck_case cases[] = {
        {.name = "dropout", .fn = dropout, .user = &half, .train = true, .inputs = 2,
         .input = {{3, {3, 3, 5}}, {3, {3, 3, 5}}}},
        {.name = "no dropout", .fn = dropout, .user = &none, .train = true, .inputs = 2,
         .input = {{2, {3, 5}}, {2, {3, 5}}}},
        {.name = "dropout outside training", .fn = dropout, .user = &half, .inputs = 2,
         .input = {{2, {3, 5}}, {2, {3, 5}}}},
        {.name = "rotary", .fn = rotary, .user = &all, .inputs = 2,
         .input = {{4, {2, 3, 2, 6}}, {4, {3, 2, 2, 6}}}},
        {.name = "rotary of some channels", .fn = rotary, .user = &some, .inputs = 2,
         .input = {{4, {2, 3, 2, 6}}, {4, {3, 2, 2, 6}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_linear),     cmocka_unit_test(test_activations),
        cmocka_unit_test(test_embedding),  cmocka_unit_test(test_norms),
        cmocka_unit_test(test_dropout_and_rotary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
