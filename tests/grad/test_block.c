/* test_block.c - gradients of the transformer block in every choice it has, to its input, the
 * memory it attends to and all its parameters, against differences. Input and memory are parameters
 * themselves. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "param_gradients.h"
#include "qkv/nn.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 2, T = 5, S = 4, C = 8 };

typedef struct {
    const char *name;
    qkv_block_config c;
    bool packed, lengths, bias;
} block_case;

typedef struct {
    const block_case *c;
    param_gradients g;
    qkv_param *x, *memory, *bias;
    qkv_block *block[2];
} fixture;

static const int32_t offsets[] = {0, 3, 2 * T}, memory_offsets[] = {0, 5, 2 * S};
static const int32_t lengths[] = {3, T}, memory_lengths[] = {S, 2};

/* The scalar cot . y of two blocks, one after the other, so that a branch is handed on. */
static qkv_tensor *forward(void *user)
{
    fixture *f = user;
    const block_case *c = f->c;
    qkv_tape *t = f->g.t;
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
    if (cot)
        fill_normal(qkv_tensor_fill(cot), qkv_count(cot), &r, 1, 0);
    return qkv_sum(t, qkv_mul(t, y, cot));
}

static void make(fixture *f, const block_case *c)
{
    const size_t x[] = {B * T, C}, memory[] = {B * S, C}, bias[] = {1, 2, T, T};
    *f = (fixture){.c = c, .g = {.scalar = forward, .user = f}};
    open_gradients(&f->g, c->name, NULL, NULL);
    f->x = qkv_param_create(f->g.ps, "x", 2, x);
    f->memory = qkv_param_create(f->g.ps, "memory", 2, memory);
    f->bias = qkv_param_create(f->g.ps, "bias", 4, bias);
    for (uint32_t i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "h.%u", (unsigned)i);
        f->block[i] = qkv_block_create(f->g.ps, &c->c, name, i);
        if (!f->block[i])
            fail_msg("%s: %s", c->name, qkv_context_message(f->g.ctx));
    }
    qkv_rng r;
    qkv_rng_init(&r, 5, qkv_hash64(c->name, 4));
    fill_params(f->g.ps, &r, 0.5);
}

static void check(const block_case *c)
{
    fixture f;
    make(&f, c);
    check_gradients(&f.g);
}

/* Everything that all cases have in common. */
#define BASE .width = C, .heads = 2, .ff_width = 12, .norm_eps = 1e-3
#define BIASES .norm_bias = true, .qkv_bias = true, .out_bias = true, .ff_bias = true

static const block_case cases[] = {
    {"gpt2", {BASE, BIASES, .act = QKV_ACT_GELU_TANH, .causal = true}, .packed = false},
    {"llama", {BASE, .kv_heads = 1, .norm = QKV_NORM_RMS, .act = QKV_ACT_SILU,
               .gated = true, .causal = true, .rotary = {.base = 100}}, .packed = false},
    {"llama, packed", {BASE, .kv_heads = 1, .head_width = 6, .norm = QKV_NORM_RMS,
                       .act = QKV_ACT_SILU, .gated = true, .causal = true, .rotary = {.base = 100}},
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
    {"cct", {BASE, .norm_bias = true, .out_bias = true, .ff_bias = true, .act = QKV_ACT_GELU,
             .norm_stream = true, .dropout = 0.2, .drop_path = 0.3}, .packed = false},
    {"mistral, packed", {BASE, .kv_heads = 1, .norm = QKV_NORM_RMS, .act = QKV_ACT_SILU,
                         .gated = true, .causal = true, .window = 2, .rotary = {.base = 100}},
     .packed = true},
    {"qwen3", {BASE, .kv_heads = 1, .head_width = 6, .norm = QKV_NORM_RMS, .act = QKV_ACT_SILU,
               .gated = true, .causal = true, .qk_norm_eps = 1e-2,
               .rotary = {.base = 100, .share = 0.67, .kind = QKV_ROPE_YARN, .factor = 4,
                          .original = 3}}, .packed = false},
    {"dinov2", {BASE, BIASES, .act = QKV_ACT_SILU, .gated = true, .layer_scale = true,
                .dropout = 0.2, .drop_path = 0.3}, .packed = false},
    {"decoder, factors, post-norm", {BASE, BIASES, .act = QKV_ACT_GELU, .post_norm = true,
                                     .causal = true, .cross = true, .layer_scale = true},
     .packed = true},
    {"drop path", {BASE, BIASES, .act = QKV_ACT_GELU, .drop_path = 0.4}, .packed = false},
    {"decoder, drop path, packed", {BASE, BIASES, .act = QKV_ACT_GELU, .causal = true,
                                    .cross = true, .dropout = 0.2, .drop_path = 0.3},
     .packed = true},
    {"drop path, post-norm", {BASE, BIASES, .act = QKV_ACT_TANH, .post_norm = true,
                              .drop_path = 0.5}, .packed = false},
    {"narrow heads", {BASE, .head_width = 3, .norm_bias = true, .ff_bias = true,
                      .act = QKV_ACT_QUICK_GELU, .attention_scale = 1}, .bias = true},
    {"no norm", {BASE, .norm = QKV_NORM_NONE, .act = QKV_ACT_SIGMOID, .qkv_bias = true,
                 .out_bias = true},
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
