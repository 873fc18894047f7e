/* test_block.c - gradients of the transformer block in every choice it has, to its input, the
 * memory it attends to and all its parameters, against differences.
 *
 * Input and memory are parameters themselves. Of each parameter a sample of elements is moved;
 * its error is measured by the parameter's largest gradient, or 1e-3 of the largest of all where
 * that is more (the gradient of an attention key's bias is zero by mathematics). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "qkv/nn.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 2, T = 5, S = 4, C = 8, SAMPLE = 12 };
static const double tolerance = 1e-7, step = 1e-5;

typedef struct {
    const char *name;
    qkv_block_config c;
    bool packed, lengths, bias;
} block_case;

typedef struct {
    const block_case *c;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *x, *memory, *bias;
    qkv_block *block[2];
} fixture;

static const int32_t offsets[] = {0, 3, 2 * T}, memory_offsets[] = {0, 5, 2 * S};
static const int32_t lengths[] = {3, T}, memory_lengths[] = {S, 2};

/* The scalar cot . y of two blocks, one after the other, so that a branch is handed on. */
static qkv_tensor *forward(fixture *f)
{
    const block_case *c = f->c;
    qkv_tape *t = f->t;
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_tape_randomness(t, &(qkv_randomness){.seed = 3, .step = 7});
    int32_t at[B * T];
    for (int i = 0; i < B * T; i++)
        at[i] = i % T;
    const size_t plain[] = {B, T, C}, joined[] = {1, B * T, C}, ids[] = {B, T};
    const size_t memory[] = {B, S, C}, memory_joined[] = {1, B * S, C}, joined_ids[] = {1, B * T};
    qkv_sequence seq = {.positions = qkv_tensor_ids(t, at, 2, c->packed ? joined_ids : ids)};
    seq.memory = qkv_reshape(t, qkv_use(t, f->memory), 3, c->packed ? memory_joined : memory);
    if (c->packed) {
        seq.sequences = 2;
        seq.offsets = offsets;
        seq.memory_offsets = memory_offsets;
    }
    if (c->lengths) {
        seq.lengths = lengths;
        seq.memory_lengths = memory_lengths;
    }
    if (c->bias)
        seq.bias = qkv_use(t, f->bias);
    qkv_stream s = {qkv_reshape(t, qkv_use(t, f->x), 3, c->packed ? joined : plain), NULL};
    for (int i = 0; i < 2; i++)
        qkv_block_forward(f->block[i], t, &s, &seq, NULL);
    qkv_tensor *y = qkv_stream_norm(t, &s, QKV_NORM_NONE, NULL, NULL, 0, c->c.dropout, 99);
    qkv_tensor *cot = qkv_tensor_from(t, NULL, 3, c->packed ? joined : plain);
    qkv_rng r;
    qkv_rng_init(&r, 11, 0);
    for (size_t i = 0; cot && i < qkv_count(cot); i++)
        qkv_tensor_fill(cot)[i] = qkv_rng_normal(&r);
    return qkv_sum(t, qkv_mul(t, y, cot));
}

static double loss(fixture *f)
{
    qkv_tensor *y = forward(f);
    if (qkv_tape_status(f->t))
        fail_msg("%s: %s", f->c->name, qkv_context_message(f->ctx));
    return qkv_item(f->t, y);
}

static double difference(fixture *f, double *value)
{
    const double middle = *value;
    volatile double high = middle + step, low = middle - step;
    *value = high;
    double up = loss(f);
    *value = low;
    double down = loss(f);
    *value = middle;
    return (up - down) / (high - low);
}

static void make(fixture *f, const block_case *c)
{
    const size_t x[] = {B * T, C}, memory[] = {B * S, C}, bias[] = {1, 2, T, T};
    *f = (fixture){.c = c};
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    assert_int_equal(qkv_params_create(&f->ps, f->ctx), QKV_OK);
    f->x = qkv_param_create(f->ps, "x", 2, x);
    f->memory = qkv_param_create(f->ps, "memory", 2, memory);
    f->bias = qkv_param_create(f->ps, "bias", 4, bias);
    for (uint32_t i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "h.%u", (unsigned)i);
        f->block[i] = qkv_block_create(f->ps, &c->c, name, i);
        if (!f->block[i])
            fail_msg("%s: %s", c->name, qkv_context_message(f->ctx));
    }
    qkv_rng r;
    qkv_rng_init(&r, 5, qkv_hash64(c->name, 4));
    for (size_t i = 0; i < qkv_params_count(f->ps); i++) {
        qkv_param *p = qkv_params_at(f->ps, i);
        for (size_t j = 0; j < qkv_param_count(p); j++)
            qkv_param_data(p)[j] = 0.5 * qkv_rng_normal(&r) + (qkv_param_ndim(p) == 1);
    }
}

static void check(const block_case *c)
{
    enum { PARAMS = 64 };
    fixture f;
    make(&f, c);
    (void)loss(&f);
    qkv_tensor *y = forward(&f);
    assert_int_equal(qkv_backward(f.t, y), QKV_OK);
    size_t n = qkv_params_count(f.ps);
    double worst[PARAMS], largest[PARAMS], most = 0;
    assert_true(n <= PARAMS);
    for (size_t i = 0; i < n; i++) {
        qkv_param *p = qkv_params_at(f.ps, i);
        const double *g = qkv_param_grad(p);
        size_t count = qkv_param_count(p), stride = count > SAMPLE ? count / SAMPLE : 1;
        worst[i] = largest[i] = 0;
        for (size_t j = 0; g && j < count; j++)
            largest[i] = fmax(largest[i], fabs(g[j]));
        for (size_t j = i % stride; j < count; j += stride) {
            double error = fabs((g ? g[j] : 0) - difference(&f, &qkv_param_data(p)[j]));
            if (!(error <= worst[i]))
                worst[i] = error;
        }
        most = fmax(most, largest[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (!(worst[i] <= tolerance * fmax(largest[i], 1e-3 * most)))
            fail_msg("%s: gradient of %s is off by %.3g of %.3g", c->name,
                     qkv_param_name(qkv_params_at(f.ps, i)), worst[i], largest[i]);
    assert_true(most > 0);
    qkv_params_destroy(f.ps);
    qkv_tape_destroy(f.t);
    qkv_context_destroy(f.ctx);
}

/* Everything that all cases have in common. */
#define BASE .width = C, .heads = 2, .ff_width = 12, .norm_eps = 1e-3
#define BIASES .norm_bias = true, .attention_bias = true, .ff_bias = true

static const block_case cases[] = {
    {"gpt2", {BASE, BIASES, .act = QKV_ACT_GELU_TANH, .causal = true}, .packed = false},
    {"llama", {BASE, .kv_heads = 1, .norm = QKV_NORM_RMS, .act = QKV_ACT_SILU,
               .gated = true, .causal = true, .rotary_base = 100}, .packed = false},
    {"llama, packed", {BASE, .kv_heads = 1, .head_width = 6, .norm = QKV_NORM_RMS,
                       .act = QKV_ACT_SILU, .gated = true, .causal = true, .rotary_base = 100},
     .packed = true},
    {"bert", {BASE, BIASES, .act = QKV_ACT_GELU, .post_norm = true}, .lengths = true},
    {"decoder", {BASE, BIASES, .act = QKV_ACT_SILU, .post_norm = true, .causal = true,
                 .cross = true}, .lengths = true},
    {"decoder, pre-norm, packed", {BASE, BIASES, .act = QKV_ACT_GELU, .causal = true,
                                   .cross = true}, .packed = true},
    {"decoder, dropout", {BASE, BIASES, .act = QKV_ACT_GELU, .causal = true, .cross = true,
                          .dropout = 0.2, .attention_dropout = 0.3, .ff_dropout = 0.1},
     .packed = true},
    {"dropout, post-norm", {BASE, BIASES, .act = QKV_ACT_TANH, .post_norm = true, .dropout = 0.2,
                            .attention_dropout = 0.3, .ff_dropout = 0.1}, .packed = false},
    {"cct", {BASE, BIASES, .act = QKV_ACT_GELU, .plain_qkv = true, .norm_stream = true,
             .dropout = 0.2, .drop_path = 0.3}, .packed = false},
    {"drop path", {BASE, BIASES, .act = QKV_ACT_GELU, .drop_path = 0.4}, .packed = false},
    {"decoder, drop path, packed", {BASE, BIASES, .act = QKV_ACT_GELU, .causal = true,
                                    .cross = true, .dropout = 0.2, .drop_path = 0.3},
     .packed = true},
    {"drop path, post-norm", {BASE, BIASES, .act = QKV_ACT_TANH, .post_norm = true,
                              .drop_path = 0.5}, .packed = false},
    {"narrow heads", {BASE, .head_width = 3, .norm_bias = true, .ff_bias = true,
                      .act = QKV_ACT_QUICK_GELU, .attention_scale = 1}, .bias = true},
    {"no norm", {BASE, .norm = QKV_NORM_NONE, .act = QKV_ACT_SIGMOID, .attention_bias = true},
     .lengths = true, .bias = true},
};

static void test_block(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
