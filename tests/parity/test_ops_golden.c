/* test_ops_golden.c - outputs and gradients of every op against PyTorch in double precision
 * (recipe: tools/make-golden/ops.py), with each instruction set's kernels.
 *
 * A tensor may be off by 1e-5 of its largest number, or of 1e-3 of the largest gradient of its
 * case where that is more: some gradients are zero by mathematics. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "golden.h"
#include "isas.h"
#include "qkv/ops.h"
#include "qkv/safetensors.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { MOST = 4 };
static const double tolerance = 1e-5;

typedef int case_fn(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user);
typedef struct {
    const char *name;
    case_fn *fn;
    int inputs;
    const void *user;
} golden_case;

static const int32_t ids[] = {3, 0, 3, 18, 1, 3, 7, 2, 2, 11, 5, 18, 0, 1};
static const int32_t places[] = {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6};
static const int32_t answers[] = {4, 0, -100, 36, 2, -100, 17, 20, 5, 5, 31};
static const int32_t lengths[] = {9, 70};
static const int32_t q_offsets[] = {0, 20, 51, 70}, k_offsets[] = {0, 5, 40, 90};

/* ---- one function per op, or family ---------------------------------------------------- */

typedef qkv_tensor *binary_fn(qkv_tape *t, qkv_tensor *a, qkv_tensor *b);
typedef struct { binary_fn *fn; } binary_op;
static int binary(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = ((const binary_op *)user)->fn(t, in[0], in[1]);
    return 1;
}

static int exponential(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_exp(t, in[0]);
    return 1;
}

static int mean_axis(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_mean_axis(t, in[0], 1);
    return 1;
}

static int mean(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_mean(t, in[0]);
    return 1;
}

static int matmul(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_matmul(t, in[0], false, in[1], true);
    return 1;
}

static int activate(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_activate(t, in[0], *(const qkv_activation *)user);
    return 1;
}

static int gated(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_gated(t, in[0], in[1], QKV_ACT_SILU);
    return 1;
}

static int softmax(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_softmax(t, in[0]);
    return 1;
}

static int linear(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_linear(t, in[0], in[1], in[2], *(const qkv_activation *)user);
    return 1;
}

static int embedding(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    const size_t shape[] = {2, 7};
    out[0] = qkv_embedding(t, qkv_tensor_ids(t, ids, 2, shape), in[0], 1.5,
                           qkv_tensor_ids(t, places, 2, shape), in[1]);
    return 1;
}

static int layer_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_norm(t, QKV_NORM_LAYER, in[0], in[1], in[2], 1e-5);
    return 1;
}

static int rms_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_norm(t, QKV_NORM_RMS, in[0], in[1], NULL, 1e-6);
    return 1;
}

static int residual_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_residual_norm(t, QKV_NORM_LAYER, in[0], in[1], in[2], in[3], 1e-5, &out[1]);
    return 2;
}

static int l2_normalize(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_l2_normalize(t, in[0], 1e-12);
    return 1;
}

static int rotary(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_rotary(t, in[0], qkv_tensor_ids(t, places, 2, (const size_t[]){2, 7}), 100, 12);
    return 1;
}

static int cross_entropy(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const size_t rows = COUNT(answers);
    out[0] = qkv_cross_entropy(t, in[0], qkv_tensor_ids(t, answers, 1, &rows), user);
    return 1;
}

/* The targets are the second input, whose gradient is not wanted. */
static int soft_targets(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_cross_entropy(t, in[0], in[1], user);
    return 1;
}

static int classifier(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const size_t rows = COUNT(answers);
    out[0] = qkv_classifier_loss(t, in[0], in[1], in[2], qkv_tensor_ids(t, answers, 1, &rows),
                                 user);
    return 1;
}

static int huber(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_huber_loss(t, in[0], in[1], 0.7);
    return 1;
}

static int infonce(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_infonce_loss(t, in[0], in[1], 0.2);
    return 1;
}

static int ntxent(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_ntxent_loss(t, in[0], in[1], 0.5);
    return 1;
}

static int conv(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_conv2d(t, in[0], in[1], in[2], user);
    return 1;
}

typedef struct {
    qkv_tensor *(*fn)(qkv_tape *t, qkv_tensor *x, size_t window, const qkv_conv_options *o);
} pool_op;
static const qkv_conv_options halved = {2, 1, 1, 1, 1};
static int pool(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = ((const pool_op *)user)->fn(t, in[0], 3, &halved);
    return 1;
}

static int patchify(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_patchify(t, in[0], 2);
    return 1;
}

typedef struct {
    qkv_interpolation how;
    size_t rows, columns;
} grid;
static int interpolate(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const grid *g = user;
    out[0] = qkv_interpolate(t, in[0], g->how, g->rows, g->columns);
    return 1;
}

static int positions(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const grid *g = user;
    out[0] = qkv_interpolate_positions(t, in[0], g->how, 1, 4, 3, g->rows, g->columns);
    return 1;
}

static int batch_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_batch_norm(t, in[0], in[1], in[2], NULL, 1e-5);
    return 1;
}

static int group_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_group_norm(t, in[0], in[1], in[2], 3, 1e-6, user != NULL);
    return 1;
}

static int upsample(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_upsample(t, in[0], 2);
    return 1;
}

static int attention(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_attention(t, in[0], in[1], in[2], user);
    return 1;
}

static int biased_attention(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    qkv_attention_options o = *(const qkv_attention_options *)user;
    o.bias = in[3];
    out[0] = qkv_attention(t, in[0], in[1], in[2], &o);
    return 1;
}

static const binary_op add = {qkv_add}, sub = {qkv_sub}, mul = {qkv_mul}, divide = {qkv_div};
static const binary_op mse = {qkv_mse_loss}, l1 = {qkv_l1_loss}, bce = {qkv_bce_with_logits_loss};
static const qkv_activation acts[] = {QKV_ACT_NONE, QKV_ACT_RELU, QKV_ACT_GELU,
                                      QKV_ACT_GELU_TANH, QKV_ACT_QUICK_GELU, QKV_ACT_SILU,
                                      QKV_ACT_SIGMOID, QKV_ACT_TANH, QKV_ACT_LEAKY_RELU};
static const qkv_cross_entropy_options smooth = {.smoothing = 0.1};
static const qkv_cross_entropy_options paper = {.smoothing = 0.1,
                                                .smoothing_kind = QKV_SMOOTH_PAPER};
static const qkv_cross_entropy_options summed = {.reduction = QKV_REDUCE_SUM};
static const pool_op largest_of = {qkv_max_pool2d}, mean_of = {qkv_avg_pool2d};
static const grid grids[] = {{QKV_BILINEAR, 5, 7}, {QKV_BILINEAR, 2, 3},
                             {QKV_BICUBIC, 5, 7}, {QKV_BICUBIC, 2, 3},
                             {QKV_BICUBIC_ANTIALIASED, 5, 7}, {QKV_BICUBIC_ANTIALIASED, 2, 3}};
static const qkv_attention_options plain = {0}, causal = {.causal = true}, unscaled = {.scale = 1};
static const qkv_attention_options short_keys = {.k_lengths = lengths};
static const qkv_attention_options packed = {.sequences = 3, .q_offsets = q_offsets,
                                             .causal = true};
static const qkv_attention_options packed_cross = {.sequences = 3, .q_offsets = q_offsets,
                                                   .k_offsets = k_offsets};

/* Every option but dropout at once. */
static const int32_t seen[] = {4, 35, 41};
static const qkv_attention_options everything = {.sequences = 3, .q_offsets = q_offsets,
                                                 .k_offsets = k_offsets, .k_lengths = seen,
                                                 .causal = true, .scale = 0.3};

static const golden_case cases[] = {
    {"add", binary, 2, &add},
    {"sub", binary, 2, &sub},
    {"mul", binary, 2, &mul},
    {"div", binary, 2, &divide},
    {"exp", exponential, 1, NULL},
    {"mean_axis", mean_axis, 1, NULL},
    {"mean", mean, 1, NULL},
    {"matmul", matmul, 2, NULL},
    {"activate.relu", activate, 1, &acts[1]},
    {"activate.gelu", activate, 1, &acts[2]},
    {"activate.gelu_tanh", activate, 1, &acts[3]},
    {"activate.quick_gelu", activate, 1, &acts[4]},
    {"activate.silu", activate, 1, &acts[5]},
    {"activate.sigmoid", activate, 1, &acts[6]},
    {"activate.tanh", activate, 1, &acts[7]},
    {"activate.leaky_relu", activate, 1, &acts[8]},
    {"gated", gated, 2, NULL},
    {"softmax", softmax, 1, NULL},
    {"linear", linear, 3, &acts[0]},
    {"linear.gelu", linear, 3, &acts[2]},
    {"embedding", embedding, 2, NULL},
    {"layer_norm", layer_norm, 3, NULL},
    {"rms_norm", rms_norm, 2, NULL},
    {"residual_norm", residual_norm, 4, NULL},
    {"l2_normalize", l2_normalize, 1, NULL},
    {"rotary", rotary, 1, NULL},
    {"cross_entropy", cross_entropy, 1, NULL},
    {"cross_entropy.smooth", cross_entropy, 1, &smooth},
    {"cross_entropy.paper", cross_entropy, 1, &paper},
    {"cross_entropy.sum", cross_entropy, 1, &summed},
    {"cross_entropy.soft", soft_targets, 2, NULL},
    {"cross_entropy.soft_smooth", soft_targets, 2, &smooth},
    {"classifier", classifier, 3, &smooth},
    {"mse", binary, 2, &mse},
    {"l1", binary, 2, &l1},
    {"huber", huber, 2, NULL},
    {"binary", binary, 2, &bce},
    {"infonce", infonce, 2, NULL},
    {"ntxent", ntxent, 2, NULL},
    {"conv2d", conv, 3, &halved},
    {"max_pool2d", pool, 1, &largest_of},
    {"mean_pool2d", pool, 1, &mean_of},
    {"patchify", patchify, 1, NULL},
    {"interpolate.bilinear5", interpolate, 1, &grids[0]},
    {"interpolate.bilinear2", interpolate, 1, &grids[1]},
    {"interpolate.bicubic5", interpolate, 1, &grids[2]},
    {"interpolate.bicubic2", interpolate, 1, &grids[3]},
    {"interpolate.antialiased5", interpolate, 1, &grids[4]},
    {"interpolate.antialiased2", interpolate, 1, &grids[5]},
    {"positions.bilinear", positions, 1, &grids[0]},
    {"positions.bicubic", positions, 1, &grids[2]},
    {"batch_norm", batch_norm, 3, NULL},
    {"group_norm", group_norm, 3, NULL},
    {"group_norm.silu", group_norm, 3, &acts},
    {"upsample", upsample, 1, NULL},
    {"attention.self", attention, 3, &plain},
    {"attention.cross", attention, 3, &plain},
    {"attention.causal", attention, 3, &causal},
    {"attention.groups", attention, 3, &causal},
    {"attention.widths", attention, 3, &plain},
    {"attention.lengths", attention, 3, &short_keys},
    {"attention.unscaled", attention, 3, &unscaled},
    {"attention.bias", biased_attention, 4, &plain},
    {"attention.packed", attention, 3, &packed},
    {"attention.packed_cross", attention, 3, &packed_cross},
    {"attention.everything", biased_attention, 4, &everything},
};

/* ---- running them ------------------------------------------------------------------------ */

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_safetensors *golden;
} fixture;

static const qkv_safetensor *find(const fixture *f, const char *name, const char *what, int i)
{
    char full[64];
    (void)snprintf(full, sizeof full, "%s.%s%d", name, what, i);
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, full);
    if (!s)
        fail_msg("%s is not in the golden file", full);
    return s;
}

static qkv_tensor *load(const fixture *f, const char *name, const char *what, int i)
{
    const qkv_safetensor *s = find(f, name, what, i);
    qkv_tensor *x = qkv_tensor_from(f->t, NULL, s->ndim, s->shape);
    assert_non_null(x);
    assert_int_equal(qkv_safetensors_read(f->golden, s, 0, s->count, qkv_tensor_fill(x)), QKV_OK);
    return x;
}

/* got NULL stands for zeros. at_least: what the error is measured by when it is more than
 * expected's largest number. */
static void compare(const fixture *f, const char *name, const char *what, int i,
                    const qkv_tensor *got, double at_least)
{
    qkv_tensor *expected = load(f, name, what, i);
    size_t n = qkv_count(expected);
    const qkv_real *a = got ? qkv_data(f->t, got) : NULL, *b = qkv_data(f->t, expected);
    if (got)
        assert_int_equal(qkv_count(got), n);
    double worst = 0, size = fmax(largest(b, n), at_least);
    for (size_t j = 0; j < n; j++) {
        double error = fabs((a ? (double)a[j] : 0) - (double)b[j]);
        if (!(error <= worst))
            worst = error;
    }
    if (!(worst <= tolerance * size))
        fail_msg("%s.%s%d: off by %.3g of %.3g", name, what, i, worst, size);
}

static void run_case(const fixture *f, const golden_case *c)
{
    qkv_tape_reset(f->t);
    qkv_tensor *in[MOST], *out[MOST], *cotangent[MOST];
    for (int i = 0; i < c->inputs; i++)
        in[i] = qkv_require_grad(f->t, load(f, c->name, "in", i));
    int n = c->fn(f->t, in, out, c->user);
    if (qkv_tape_status(f->t))
        fail_msg("%s: %s", c->name, qkv_context_message(f->ctx));
    for (int i = 0; i < n; i++) {
        compare(f, c->name, "out", i, out[i], 0);
        cotangent[i] = load(f, c->name, "cot", i);
    }
    const qkv_backward_args args = {
        .n = n, .outputs = out, .gradients = (const qkv_tensor *const *)cotangent};
    if (qkv_backward_from(f->t, &args))
        fail_msg("%s: %s", c->name, qkv_context_message(f->ctx));
    double most = 0;
    for (int i = 0; i < c->inputs; i++) {
        qkv_tensor *g = load(f, c->name, "grad", i);
        most = fmax(most, largest(qkv_data(f->t, g), qkv_count(g)));
    }
    for (int i = 0; i < c->inputs; i++)
        compare(f, c->name, "grad", i, qkv_grad_of(f->t, in[i]), 1e-3 * most);
}

static void open_fixture(fixture *f, unsigned isa)
{
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 2;
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&f->golden, f->ctx,
                                          QKV_SOURCE_DIR "/tests/golden/ops.safetensors"), QKV_OK);
}

static void close_fixture(fixture *f)
{
    qkv_safetensors_close(f->golden);
    qkv_tape_destroy(f->t);
    qkv_context_destroy(f->ctx);
}

static void run_all(unsigned isa)
{
    fixture f;
    open_fixture(&f, isa);
    for (size_t i = 0; i < COUNT(cases); i++)
        run_case(&f, &cases[i]);
    close_fixture(&f);
}

static void test_sinusoids(void **state)
{
    (void)state;
    static const struct { const char *name; qkv_sinusoid layout; size_t rows, first; } tables[] = {
        {"sinusoid.paper", QKV_SINUSOID_PAPER, 11, 3},
        {"sinusoid.fairseq", QKV_SINUSOID_FAIRSEQ, 11, 3},
        {"sinusoid.marian", QKV_SINUSOID_MARIAN, 11, 3},
        {"sinusoid.mae", QKV_SINUSOID_MAE_2D, 12, 0},
    };
    enum { C = 16, COLUMNS = 4 };
    fixture f;
    open_fixture(&f, QKV_ISA_ALL);
    for (size_t i = 0; i < COUNT(tables); i++) {
        qkv_real got[12 * C], expected[12 * C];
        size_t n = tables[i].rows * C;
        const qkv_safetensor *s = qkv_safetensors_find(f.golden, tables[i].name);
        assert_non_null(s);
        assert_int_equal(s->count, n);
        assert_int_equal(qkv_safetensors_read(f.golden, s, 0, n, expected), QKV_OK);
        assert_int_equal(qkv_sinusoid_table(f.ctx, got, tables[i].rows, C, tables[i].layout,
                                            tables[i].first, COLUMNS), QKV_OK);
        for (size_t j = 0; j < n; j++)
            if (!(fabs((double)got[j] - (double)expected[j]) <= 1e-6))
                fail_msg("%s[%zu]: %g, not %g", tables[i].name, j, (double)got[j],
                         (double)expected[j]);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_sinusoids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
