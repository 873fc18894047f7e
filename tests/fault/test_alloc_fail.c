/* test_alloc_fail.c - the n-th allocation fails, for every n: each time a clean error or the
 * right answer, never a crash, and all memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "failing.h"
#include "qkv/bert.h"
#include "qkv/forecast.h"
#include "qkv/gpt.h"
#include "qkv/marian.h"
#include "qkv/series.h"

/* A block's worth of ops, wide enough that step memory needs several allocations. */
static qkv_tensor *forward(qkv_tape *t, qkv_param *const *w)
{
    enum { B = 2, T = 96, H = 4, D = 16, C = H * D, V = 50 };
    int32_t ids[B * T];
    for (int i = 0; i < B * T; i++)
        ids[i] = i * 7 % V;
    const size_t shape[] = {B, T}, third[] = {C, C, C};
    qkv_tensor *tokens = qkv_tensor_ids(t, ids, 2, shape);
    qkv_tensor *x = qkv_embedding(t, tokens, qkv_use(t, w[0]), 1, NULL, NULL), *part[3], *sum;
    x = qkv_norm(t, QKV_NORM_LAYER, x, NULL, NULL, 1e-5);
    qkv_split(t, qkv_linear(t, x, qkv_use(t, w[1]), NULL, QKV_ACT_NONE), -1, 3, third, part);
    for (int i = 0; i < 3; i++)
        part[i] = qkv_reshape(t, part[i], 4, (const size_t[]){B, T, H, D});
    qkv_tensor *y = qkv_attention(t, part[0], part[1], part[2],
                                  &(qkv_attention_options){.causal = true, .dropout = 0.1});
    y = qkv_reshape(t, y, 3, (const size_t[]){B, T, C});
    y = qkv_residual_norm(t, QKV_NORM_RMS, y, x, NULL, NULL, 1e-5, &sum);
    y = qkv_dropout_add(t, qkv_activate(t, y, QKV_ACT_GELU), sum, 0.1, 1);
    y = qkv_div(t, y, qkv_exp(t, qkv_mean_axis(t, y, 0)));
    return qkv_classifier_loss(t, y, qkv_use(t, w[0]), NULL, tokens, NULL);
}

/* Two steps. Returns the loss, or -1 after a failure, which must have been said. */
static double run(failing *memory)
{
    qkv_context_options o = failing_options(memory);
    o.threads = 2;
    qkv_context *ctx;
    qkv_tape *t = NULL;
    qkv_params *ps = NULL;
    double loss = -1;
    if (qkv_context_create(&ctx, &o)) {
        assert_null(ctx);
        return -1;
    }
    const size_t shapes[2][2] = {{50, 64}, {192, 64}};
    qkv_param *w[2] = {NULL, NULL};
    if (qkv_tape_create(&t, ctx) == QKV_OK && qkv_params_create(&ps, ctx) == QKV_OK)
        for (int i = 0; i < 2 && (i == 0 || w[0]); i++)
            w[i] = qkv_param_create(ps, i ? "w1" : "w0", 2, shapes[i]);
    bool ok = w[0] && w[1];
    for (size_t i = 0; ok && i < 2; i++)
        for (size_t j = 0; j < qkv_param_count(w[i]); j++)
            qkv_param_data(w[i])[j] = (qkv_real)((double)(j * 37 % 101) / 100 - 0.5);
    for (int step = 0; ok && step < 2; step++) {
        qkv_tape_reset(t);
        qkv_tape_mode(t, true, true);
        qkv_params_zero_grad(ps);
        qkv_tensor *y = forward(t, w);
        loss = (double)qkv_item(t, y);
        ok = qkv_backward(t, y) == QKV_OK;
        assert_int_equal(ok, qkv_tape_status(t) == QKV_OK);
    }
    if (!ok) {
        loss = -1;
        assert_int_equal(qkv_context_status(ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(ctx)) > 0);
    }
    qkv_params_destroy(ps);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return loss;
}

static void test_every_allocation(void **state)
{
    (void)state;
    failing memory = {.left = SIZE_MAX};
    double expected = run(&memory);
    assert_true(expected > 0);
    assert_int_equal(memory.live, 0);
    size_t failures = 0;
    for (size_t n = 0;; n++) {
        assert_true(n < 1000);
        memory.left = n;
        double loss = run(&memory);
        assert_int_equal(memory.live, 0);
        if (memory.left > 0 && loss >= 0) { /* more allocations were allowed than are made */
            assert_true(loss == expected);
            break;
        }
        failures += loss < 0;
    }
    assert_true(failures > 8);
}

/* ---- making models ------------------------------------------------------------------------- */

static const qkv_gpt_config gpt = {
    .vocab = 3000, .positions = 16, .width = 64, .layers = 3, .heads = 4, .norm_eps = 1e-5,
    .rotary = {.base = 1e4}};
static const qkv_bert_config bert = {.vocab = 3000, .positions = 16, .segments = 2, .width = 64,
                                     .layers = 3, .heads = 4, .classes = 3, .norm_eps = 1e-5};
static const qkv_marian_config marian = {
    .vocab = 3000, .positions = 16, .width = 64, .encoder_layers = 2, .decoder_layers = 2,
    .encoder_heads = 4, .decoder_heads = 4, .pad = 1};
static const qkv_forecast_config forecast = {
    .columns = 2, .context = 8, .horizon = 4, .patch = 2, .width = 64, .layers = 2,
    .decoder_layers = 2, .heads = 4, .linear = true};
static const qkv_series_config encoder = {.columns = 2, .rows = 8, .patch = 2, .width = 64,
                                          .layers = 2, .heads = 4, .mask = 0.25, .mask_span = 2,
                                          .classes = 3};
static const struct {
    const qkv_model_type *(*type)(void);
    const void *config;
} models[] = {
    {qkv_gpt2_type, &gpt},        {qkv_llama_type, &gpt},
    {qkv_bert_masked_type, &bert}, {qkv_bert_classifier_type, &bert},
    {qkv_marian_type, &marian},   {qkv_translator_type, &marian},
    {qkv_forecast_type, &forecast},
    {qkv_series_filler_type, &encoder}, {qkv_series_classifier_type, &encoder},
};

static bool make_model(failing *memory, size_t i)
{
    const qkv_context_options o = failing_options(memory);
    qkv_context *ctx;
    qkv_model *m;
    if (qkv_context_create(&ctx, &o))
        return false;
    bool ok = qkv_model_create(&m, ctx, models[i].type(), models[i].config) == QKV_OK;
    if (ok) {
        assert_int_equal(qkv_model_init(m, 1), QKV_OK); /* every tensor is there */
    } else {
        assert_null(m);
        assert_int_equal(qkv_context_status(ctx), QKV_E_MEMORY);
    }
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return ok;
}

/* Memory that comes back after one refusal must not hide that something was not made. */
static void test_every_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int once = 0; once < 2; once++) {
            size_t n = 0;
            for (bool made = false; !made; n++) {
                failing memory = {.left = n, .once = once != 0};
                made = make_model(&memory, i);
                assert_int_equal(memory.live, 0);
                assert_true(n < 1000);
            }
            assert_true(n > 8);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation),
                                       cmocka_unit_test(test_every_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
