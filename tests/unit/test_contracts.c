/* test_contracts.c - what every call promises beside its result: zeroed options are defaults,
 * inputs of the wrong type are refused, views count like copies, and a kernel that finds no
 * scratch memory is noticed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/device.h"
#include "qkv.h"
#include "tapes.h"

/* Element i is a small number that depends on i and seed. */
static qkv_tensor *numbers(qkv_tape *t, unsigned seed, int ndim, const size_t *shape)
{
    qkv_tensor *x = qkv_tensor_from(t, NULL, ndim, shape);
    assert_non_null(x);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = (qkv_real)((double)((i + seed) * 37 % 101) / 50 - 1);
    return x;
}

static void expect_same(qkv_tape *t, const qkv_tensor *a, const qkv_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(qkv_count(a), qkv_count(b));
    assert_memory_equal(qkv_data(t, a), qkv_data(t, b), qkv_count(a) * sizeof(qkv_real));
}

/* ---- zeroed options -------------------------------------------------------------------- */

static void test_zeroed_context(void **state)
{
    (void)state;
    qkv_context *plain, *zeroed, *reference, *all;
    const qkv_context_options zeros = {0}, c_only = {.isa = QKV_ISA_REFERENCE};
    const qkv_context_options every = {.isa = QKV_ISA_ALL};
    assert_int_equal(qkv_context_create(&plain, NULL), QKV_OK);
    assert_int_equal(qkv_context_create(&zeroed, &zeros), QKV_OK);
    assert_int_equal(qkv_context_create(&reference, &c_only), QKV_OK);
    assert_int_equal(qkv_context_create(&all, &every), QKV_OK);
    assert_int_equal(qkv_context_isa(plain), qkv_context_isa(all));
    assert_int_equal(qkv_context_isa(zeroed), qkv_context_isa(plain));
    assert_int_equal(qkv_context_threads(zeroed), qkv_context_threads(plain));
    assert_int_equal(qkv_context_isa(reference), QKV_ISA_REFERENCE);
    qkv_context_destroy(plain);
    qkv_context_destroy(zeroed);
    qkv_context_destroy(reference);
    qkv_context_destroy(all);
}

/* Class 0 counts unless it is named as the one to ignore. */
static void test_zeroed_cross_entropy(void **state)
{
    fixture *f = *state;
    const size_t shape[] = {3, 4}, rows[] = {3}, weight[] = {4, 4};
    const int32_t ids[] = {0, 2, QKV_IGNORED};
    const qkv_cross_entropy_options zeros = {0}, no_zero = {.has_ignore = true};
    qkv_tensor *x = numbers(f->t, 1, 2, shape), *w = numbers(f->t, 2, 2, weight);
    qkv_tensor *targets = qkv_tensor_ids(f->t, ids, 1, rows);
    expect_same(f->t, qkv_cross_entropy(f->t, x, targets, &zeros),
                qkv_cross_entropy(f->t, x, targets, NULL));
    expect_same(f->t, qkv_classifier_loss(f->t, x, w, NULL, targets, &zeros),
                qkv_classifier_loss(f->t, x, w, NULL, targets, NULL));
    qkv_real row[3];
    const qkv_cross_entropy_options rows_of = {.row_loss = row};
    (void)qkv_cross_entropy(f->t, x, targets, &rows_of);
    assert_true(row[0] > 0 && row[1] > 0 && row[2] == 0);
    assert_null(qkv_cross_entropy(f->t, x, targets, &no_zero)); /* -100 is no class then */
}

/* What cannot be a default is refused, with a sentence, and never divided by. */
static void test_zeroed_configurations(void **state)
{
    fixture *f = *state;
    qkv_params *ps;
    const size_t shape[] = {2};
    assert_int_equal(qkv_params_create(&ps, f->ctx), QKV_OK);
    assert_non_null(qkv_param_create(ps, "w", 1, shape));
    for (int kind = 0; kind < QKV_OPTIMIZER_COUNT; kind++) {
        const qkv_optimizer_options zeros = {.kind = (qkv_optimizer_kind)kind};
        qkv_optimizer *o;
        assert_int_equal(qkv_optimizer_create(&o, ps, &zeros, NULL, 0),
                         kind == QKV_OPTIMIZER_SGD ? QKV_OK : QKV_E_ARGUMENT);
        qkv_optimizer_destroy(o);
    }
    const qkv_block_config block = {.width = 4, .heads = 2, .ff_width = 8};
    assert_null(qkv_block_create(ps, &block, "h.0", 0));
    assert_non_null(strstr(qkv_context_message(f->ctx), "norm_eps"));
    qkv_params_destroy(ps);
    const qkv_gpt_config zeros = {0};
    for (size_t i = 0; qkv_model_type_at(NULL, i); i++) {
        qkv_model *m;
        if (qkv_model_type_config_size(qkv_model_type_at(NULL, i)) != sizeof zeros)
            continue;
        assert_int_equal(qkv_model_create(&m, f->ctx, qkv_model_type_at(NULL, i), &zeros),
                         QKV_E_ARGUMENT);
        assert_null(m);
    }
}

static void test_zeroed_sampling(void **state)
{
    (void)state;
    enum { V = 5 };
    const qkv_real logits[V] = {1, (qkv_real)0.5, -2, 0, 3};
    qkv_real zeroed[V], plain[V];
    int32_t order[2 * V];
    memcpy(zeroed, logits, sizeof logits);
    memcpy(plain, logits, sizeof logits);
    const qkv_sampling z = {.temperature = 1};
    qkv_sampling p = qkv_sampling_defaults();
    p.temperature = 1;
    qkv_sampling_distribution(&z, zeroed, V, order, 0, order);
    qkv_sampling_distribution(&p, plain, V, order, 0, order);
    assert_memory_equal(zeroed, plain, sizeof plain);
    assert_true(zeroed[0] > 0 && zeroed[0] < zeroed[4]);
}

static qkv_model *small_model(fixture *f)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &c);
    c.vocab = 7;
    c.positions = 8;
    c.width = 4;
    c.layers = c.heads = 1;
    qkv_model *m;
    assert_int_equal(qkv_model_create(&m, f->ctx, qkv_gpt2_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 1), QKV_OK);
    return m;
}

/* Token 0 ends a text only if it is named; a save stores F32. */
static void test_zeroed_generation_and_save(void **state)
{
    fixture *f = *state;
    qkv_model *m = small_model(f);
    const int32_t prompt[] = {3};
    qkv_ids all = {0}, cut = {0};
    const qkv_generate_options zeroed = {.tokens = 6};
    assert_int_equal(qkv_generate(m, prompt, 1, &zeroed, NULL, NULL, &all), QKV_OK);
    assert_int_equal(all.count, 6);
    const int32_t stop[] = {5, all.data[2]};
    const qkv_generate_options stopped = {.tokens = 6, .stop = stop, .stops = 2};
    assert_int_equal(qkv_generate(m, prompt, 1, &stopped, NULL, NULL, &cut), QKV_OK);
    assert_true(cut.count <= 2);
    qkv_ids_free(&all, f->ctx);
    qkv_ids_free(&cut, f->ctx);
    char dir[] = "/tmp/qkv-contracts-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    const qkv_hub_save_options zeros = {0};
    assert_int_equal(qkv_hub_save(m, dir, &zeros), QKV_OK);
    qkv_safetensors *s;
    assert_int_equal(qkv_safetensors_open(&s, f->ctx, dir), QKV_OK);
    assert_int_equal(qkv_safetensors_at(s, 0)->store, QKV_STORE_F32);
    qkv_safetensors_close(s);
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(remove(dir), 0);
    qkv_model_destroy(m);
}

/* ---- inputs ------------------------------------------------------------------------------ */

static void expect_refusal(fixture *f, const void *result)
{
    assert_null(result);
    assert_int_equal(qkv_tape_status(f->t), QKV_E_SHAPE);
    qkv_tape_reset(f->t);
}

static void test_refusals(void **state)
{
    fixture *f = *state;
    qkv_tape *t = f->t;
    const size_t square[] = {2, 2}, two[] = {2}, heads[] = {1, 2, 1, 2};
    const int32_t ids[] = {0, 1, 1, 0};
#define REALS numbers(t, 0, 2, square)
#define IDS qkv_tensor_ids(t, ids, 2, square)
    expect_refusal(f, qkv_linear(t, IDS, REALS, NULL, QKV_ACT_NONE));
    expect_refusal(f, qkv_linear(t, REALS, IDS, NULL, QKV_ACT_NONE));
    expect_refusal(f, qkv_linear(t, REALS, REALS, qkv_tensor_ids(t, ids, 1, two), QKV_ACT_NONE));
    expect_refusal(f, qkv_linear(t, REALS, REALS, NULL, QKV_ACT_COUNT));
    expect_refusal(f, qkv_classifier_loss(t, IDS, REALS, NULL, qkv_tensor_ids(t, ids, 1, two),
                                          NULL));
    expect_refusal(f, qkv_classifier_loss(t, REALS, REALS, qkv_tensor_ids(t, ids, 1, two),
                                          qkv_tensor_ids(t, ids, 1, two), NULL));
    qkv_tensor *k = qkv_tensor_ids(t, ids, 4, heads), *q = numbers(t, 0, 4, heads);
    expect_refusal(f, qkv_attention(t, q, k, q, NULL));
    const qkv_attention_options drop = {.dropout = 1};
    q = numbers(t, 0, 4, heads);
    expect_refusal(f, qkv_attention(t, q, q, q, &drop));
#undef REALS
#undef IDS
}

/* Keys that lie dense beside values that are every other sequence's worth of a larger tensor. */
static void test_spacing_of_keys_and_values(void **state)
{
    fixture *f = *state;
    enum { B = 3, T = 2, S = 4, H = 2, D = 3 };
    const size_t qs[] = {B, T, H, D}, ks[] = {B, S, H, D}, vs[] = {B, 2 * S, H, D};
    qkv_tensor *q = numbers(f->t, 1, 4, qs), *k = numbers(f->t, 2, 4, ks);
    qkv_tensor *v = qkv_slice(f->t, numbers(f->t, 3, 4, vs), 1, S, 2 * S);
    qkv_tensor *copy = qkv_tensor_from(f->t, qkv_data(f->t, v), 4, ks);
    expect_same(f->t, qkv_attention(f->t, q, k, v, NULL), qkv_attention(f->t, q, k, copy, NULL));
    expect_same(f->t, qkv_attention(f->t, q, v, k, NULL), qkv_attention(f->t, q, copy, k, NULL));
}

/* No rows, no sequences, no keys: the result is as empty, or zeros, and so are the gradients. */
static void test_empty(void **state)
{
    fixture *f = *state;
    qkv_tape *t = f->t;
    static const size_t shapes[][3] = {{0, 2, 3}, {2, 0, 3}, {2, 2, 0}}; /* B, T, S */
    for (size_t i = 0; i < 3; i++) {
        qkv_tape_reset(t);
        const size_t qs[] = {shapes[i][0], shapes[i][1], 2, 4};
        const size_t ks[] = {shapes[i][0], shapes[i][2], 2, 4};
        qkv_tensor *q = qkv_require_grad(t, numbers(t, 1, 4, qs));
        qkv_tensor *k = qkv_require_grad(t, numbers(t, 2, 4, ks));
        qkv_tensor *y = qkv_attention(t, q, k, k, NULL);
        assert_non_null(y);
        for (size_t j = 0; j < qkv_count(y); j++)
            assert_true(qkv_data(t, y)[j] == 0);
        assert_int_equal(qkv_backward(t, qkv_sum(t, y)), QKV_OK);
    }
    qkv_tape_reset(t);
    const size_t none[] = {0, 4}, w[] = {3, 4}, channels[] = {4}, no_ids[] = {0};
    qkv_tensor *x = qkv_require_grad(t, numbers(t, 1, 2, none)), *sum;
    qkv_tensor *weight = qkv_require_grad(t, numbers(t, 2, 2, w));
    qkv_tensor *gain = qkv_require_grad(t, numbers(t, 3, 1, channels));
    qkv_tensor *h = qkv_residual_norm(t, QKV_NORM_LAYER, x, x, gain, gain, 1e-5, &sum);
    h = qkv_softmax(t, qkv_linear(t, qkv_add(t, h, sum), weight, NULL, QKV_ACT_GELU));
    qkv_tensor *targets = qkv_tensor_ids(t, (const int32_t[]){0}, 1, no_ids);
    qkv_tensor *loss = qkv_add(t, qkv_cross_entropy(t, h, targets, NULL),
                               qkv_classifier_loss(t, x, weight, NULL, targets, NULL));
    assert_true(qkv_item(t, loss) == 0);
    assert_int_equal(qkv_backward(t, loss), QKV_OK);
    const qkv_tensor *g = qkv_grad_of(t, weight);
    for (size_t j = 0; g && j < qkv_count(g); j++)
        assert_true(qkv_data(t, g)[j] == 0);
}

/* A cache cannot hand gradients back, so it refuses to take what wants one. */
static void test_cache_wants_no_gradient(void **state)
{
    fixture *f = *state;
    const size_t shape[] = {1, 2, 1, 2};
    qkv_kv_cache *c;
    assert_int_equal(qkv_kv_cache_create(&c, f->ctx, 1, 4, 1, 2, 2), QKV_OK);
    qkv_tensor *k = numbers(f->t, 0, 4, shape), *all[2];
    assert_true(qkv_kv_cache_append(f->t, c, k, k, &all[0], &all[1]));
    assert_false(qkv_kv_cache_append(f->t, c, qkv_require_grad(f->t, k), k, &all[0], &all[1]));
    assert_int_equal(qkv_kv_cache_length(c), 2);
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    k = qkv_require_grad(f->t, numbers(f->t, 0, 4, shape));
    assert_true(qkv_kv_cache_append(f->t, c, k, k, &all[0], &all[1]));
    qkv_kv_cache_destroy(c);
}

/* ---- no scratch ---------------------------------------------------------------------------- */

/* From here on every allocation fails, and step memory has room enough. */
static void starve(fixture *f)
{
    const size_t room[] = {1 << 20};
    f->memory.largest = 0;
    qkv_tape_reset(f->t);
    numbers(f->t, 0, 1, room);
    qkv_tape_reset(f->t);
    f->memory.largest = 1;
}

/* An op, or its backward pass, found no scratch: the tape must say so, instead of giving numbers
 * that nobody computed. Afterwards all is well again. */
static void expect_no_scratch(fixture *f, qkv_tensor *y)
{
    if (y)
        assert_int_equal(qkv_backward(f->t, y), QKV_E_MEMORY);
    assert_int_equal(qkv_tape_status(f->t), QKV_E_MEMORY);
    assert_non_null(strstr(qkv_context_message(f->ctx), "scratch"));
    starve(f);
    const size_t two[] = {2};
    assert_non_null(qkv_exp(f->t, numbers(f->t, 0, 1, two)));
}

static void test_no_scratch(void **state)
{
    fixture *f = *state;
    qkv_tape *t = f->t;
    const size_t x[] = {64, 32}, w[] = {32}, N[] = {64}, heads[] = {1, 64, 2, 16};
    const int32_t ids[64] = {0};
    starve(f);
    expect_no_scratch(f, qkv_add(t, numbers(t, 0, 2, x), numbers(t, 0, 1, w)));
    qkv_tensor *h = qkv_require_grad(t, numbers(t, 0, 2, x)), *answers;
    answers = qkv_tensor_ids(t, ids, 1, N);
    expect_no_scratch(f, qkv_cross_entropy(t, h, answers, NULL));
    h = numbers(t, 0, 2, x);
    answers = qkv_tensor_ids(t, ids, 1, N);
    expect_no_scratch(f, qkv_classifier_loss(t, h, h, NULL, answers, NULL));
    if (qkv_context_isa(f->ctx) == QKV_ISA_REFERENCE)
        return; /* plain C takes no scratch for what follows */
    qkv_tensor *q = numbers(t, 0, 4, heads);
    if (!qkv__context_device(f->ctx)->products) { /* nor does a card for attention */
        assert_null(qkv_attention(t, q, q, q, NULL));
        expect_no_scratch(f, NULL);
    }
    qkv_tensor *weight = qkv_require_grad(t, numbers(t, 0, 1, w));
    qkv_tensor *y = qkv_norm(t, QKV_NORM_LAYER, numbers(t, 0, 2, x), weight, NULL, 1e-5);
    expect_no_scratch(f, qkv_mean(t, y));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_context),  TEST(test_zeroed_cross_entropy),
        TEST(test_zeroed_configurations),       cmocka_unit_test(test_zeroed_sampling),
        TEST(test_zeroed_generation_and_save),
        TEST(test_refusals),                    TEST(test_spacing_of_keys_and_values),
        TEST(test_empty),                       TEST(test_cache_wants_no_gradient),
        TEST(test_no_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
