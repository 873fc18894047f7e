/* test_attention.c - gradients of every form of attention, and of its bias, against
 * differences. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int attention(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    qkv_attention_options o = *(const qkv_attention_options *)user;
    out[0] = qkv_attention(t, in[0], in[1], in[2], &o);
    return 1;
}

static int biased(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    qkv_attention_options o = *(const qkv_attention_options *)user;
    o.bias = in[3];
    out[0] = qkv_attention(t, in[0], in[1], in[2], &o);
    return 1;
}

/* Query, key and value cut from one packed projection, as every block does. */
static int packed_projection(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const size_t B = qkv_dim(in[0], 0), T = qkv_dim(in[0], 1), H = 2, D = qkv_dim(in[0], 2) / 6;
    qkv_tensor *cut[3];
    const size_t sizes[] = {1, 1, 1};
    qkv_tensor *x = qkv_reshape(t, in[0], 5, (const size_t[]){B, T, 3, H, D});
    if (!qkv_split(t, x, 2, 3, sizes, cut))
        return 0;
    for (int i = 0; i < 3; i++)
        cut[i] = qkv_reshape(t, cut[i], 4, (const size_t[]){B, T, H, D});
    return attention(t, cut, out, user);
}

static const int32_t lengths[] = {3, 5}, q_offsets[] = {0, 2, 5}, k_offsets[] = {0, 4, 7};

static void test_forms(void **state)
{
    (void)state;
    const qkv_attention_options plain = {0}, causal = {.causal = true}, unscaled = {.scale = 1};
    const qkv_attention_options short_keys = {.k_lengths = lengths};
    const qkv_attention_options both = {.k_lengths = lengths, .causal = true};
    const qkv_attention_options window = {.causal = true, .window = 2};
    const qkv_attention_options packed = {.sequences = 2, .q_offsets = q_offsets};
    const qkv_attention_options packed_causal = {.sequences = 2, .q_offsets = q_offsets,
                                                 .causal = true};
    const qkv_attention_options packed_cross = {.sequences = 2, .q_offsets = q_offsets,
                                                .k_offsets = k_offsets};
    const qkv_attention_options drop = {.dropout = 0.4, .dropout_id = 3};
    const gradcheck_input self = {4, {2, 5, 2, 4}, 0, 0, NULL};
    const gradcheck_case cases[] = {
        {.name = "self", .fn = attention, .user = &plain, .inputs = 3, .input = {self, self, self}},
        {.name = "causal", .fn = attention, .user = &causal, .inputs = 3,
         .input = {self, self, self}},
        {.name = "window", .fn = attention, .user = &window, .inputs = 3,
         .input = {self, self, self}},
        {.name = "unscaled", .fn = attention, .user = &unscaled, .inputs = 3,
         .input = {self, self, self}},
        {.name = "one head", .fn = attention, .user = &plain, .inputs = 3,
         .input = {{4, {2, 3, 1, 4}}, {4, {2, 3, 1, 4}}, {4, {2, 3, 1, 4}}}},
        {.name = "cross", .fn = attention, .user = &plain, .inputs = 3,
         .input = {{4, {2, 3, 2, 4}}, self, self}},
        {.name = "cross, causal from the end", .fn = attention, .user = &causal, .inputs = 3,
         .input = {{4, {2, 3, 2, 4}}, self, self}},
        {.name = "shared keys", .fn = attention, .user = &causal, .inputs = 3,
         .input = {{4, {1, 4, 4, 3}}, {4, {1, 4, 2, 3}}, {4, {1, 4, 2, 3}}}},
        {.name = "other value width", .fn = attention, .user = &plain, .inputs = 3,
         .input = {self, self, {4, {2, 5, 2, 3}}}},
        {.name = "key lengths", .fn = attention, .user = &short_keys, .inputs = 3,
         .input = {self, self, self}},
        {.name = "key lengths, causal", .fn = attention, .user = &both, .inputs = 3,
         .input = {self, self, self}},
        {.name = "packed", .fn = attention, .user = &packed, .inputs = 3,
         .input = {{3, {5, 2, 4}}, {3, {5, 2, 4}}, {3, {5, 2, 3}}}},
        {.name = "packed, causal", .fn = attention, .user = &packed_causal, .inputs = 3,
         .input = {{4, {1, 5, 2, 4}}, {4, {1, 5, 2, 4}}, {4, {1, 5, 2, 4}}}},
        {.name = "packed, cross", .fn = attention, .user = &packed_cross, .inputs = 3,
         .input = {{3, {5, 2, 4}}, {3, {7, 2, 4}}, {3, {7, 2, 4}}}},
        {.name = "dropout", .fn = attention, .user = &drop, .train = true, .inputs = 3,
         .input = {self, self, self}},
        {.name = "packed projection", .fn = packed_projection, .user = &causal, .inputs = 1,
         .input = {{3, {2, 4, 18}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

static void test_bias(void **state)
{
    (void)state;
    const qkv_attention_options plain = {0}, causal = {.causal = true};
    const qkv_attention_options packed = {.sequences = 2, .q_offsets = q_offsets,
                                          .k_offsets = k_offsets};
    const gradcheck_input q = {4, {2, 3, 2, 4}, 0, 0, NULL}, k = {4, {2, 5, 2, 4}, 0, 0, NULL};
    const gradcheck_case cases[] = {
        {.name = "bias", .fn = biased, .user = &plain, .inputs = 4,
         .input = {q, k, k, {4, {2, 2, 3, 5}}}},
        {.name = "bias of heads", .fn = biased, .user = &causal, .inputs = 4,
         .input = {q, k, k, {4, {1, 2, 3, 5}}}},
        {.name = "bias of sequences", .fn = biased, .user = &plain, .inputs = 4,
         .input = {q, k, k, {4, {2, 1, 3, 5}}}},
        {.name = "one bias", .fn = biased, .user = &plain, .inputs = 4,
         .input = {q, k, k, {4, {1, 1, 3, 5}}}},
        {.name = "packed bias", .fn = biased, .user = &packed, .inputs = 4,
         .input = {{3, {5, 2, 4}}, {3, {7, 2, 4}}, {3, {7, 2, 4}}, {4, {2, 2, 3, 4}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

static int relative(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    qkv_attention_options o = *(const qkv_attention_options *)user;
    o.relative = in[3];
    out[0] = qkv_attention(t, in[0], in[1], in[2], &o);
    return 1;
}

static void test_relative(void **state)
{
    (void)state;
    const qkv_attention_options plain = {0}, causal = {.causal = true};
    const qkv_attention_options short_keys = {.k_lengths = lengths};
    const qkv_attention_options packed = {.sequences = 2, .q_offsets = q_offsets,
                                          .k_offsets = k_offsets, .dropout = 0.3};
    const gradcheck_input q = {4, {2, 3, 2, 4}, 0, 0, NULL}, k = {4, {2, 5, 2, 4}, 0, 0, NULL};
    const gradcheck_case cases[] = {
        {.name = "relative", .fn = relative, .user = &plain, .inputs = 4,
         .input = {q, k, k, {2, {2, 7}}}},
        {.name = "relative, causal", .fn = relative, .user = &causal, .inputs = 4,
         .input = {q, k, k, {2, {2, 7}}}},
        {.name = "relative of all heads", .fn = relative, .user = &plain, .inputs = 4,
         .input = {q, k, k, {2, {1, 7}}}},
        {.name = "relative, key lengths", .fn = relative, .user = &short_keys, .inputs = 4,
         .input = {q, k, k, {2, {2, 7}}}},
        {.name = "relative, packed", .fn = relative, .user = &packed, .train = true, .inputs = 4,
         .input = {{3, {5, 4, 4}}, {3, {7, 2, 4}}, {3, {7, 2, 4}}, {2, {4, 6}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

/* All at once: packed sequences, fewer keys than queries and more, causal, some keys hidden,
 * shared keys and values, values of another width, a scale, dropout and a bias of each head. */
static void test_everything(void **state)
{
    (void)state;
    static const int32_t seen[] = {3, 3}, ends[] = {0, 3, 7};
    const qkv_attention_options all = {.scale = 0.3, .causal = true, .dropout = 0.3, .dropout_id =
        2,
                                       .sequences = 2, .q_offsets = q_offsets, .k_offsets = ends,
                                       .k_lengths = seen};
    const gradcheck_case c = {.name = "everything", .fn = biased, .user = &all, .train = true,
                              .inputs = 4,
                              .input = {{3, {5, 4, 3}}, {3, {7, 2, 3}}, {3, {7, 2, 2}},
                                        {4, {2, 4, 3, 4}}}};
    gradcheck(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_bias),
                                       cmocka_unit_test(test_relative),
                                       cmocka_unit_test(test_everything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
