/* test_generate.c - generating past the window, and in no more memory than that takes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <qkv.h>

#include "tapes.h"

enum { WINDOW = 12, MADE = 40, VOCAB = 40 };

static const int32_t prompt[] = {7, 3, 9, 1, 1, 4, 30, 22, 5, 17, 8, 2, 11, 39, 6};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static qkv_model *make_model(qkv_context *ctx, const qkv_model_type *type, size_t layers)
{
    qkv_gpt_config c;
    qkv_model *m = NULL;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    assert_true(qkv_model_type_preset(type, "nano", &c));
    c.layers = layers;
    c.vocab = VOCAB;
    c.positions = WINDOW;
    c.init_range = 0.5; /* wild enough that every token looks elsewhere */
    assert_int_equal(qkv_model_create(&m, ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 5), QKV_OK);
    return m;
}

/* The likeliest token after ids (n), nothing remembered. */
static int32_t likeliest(qkv_model *m, qkv_tape *t, const int32_t *ids, size_t n)
{
    size_t shape[] = {1, n};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *h = qkv_lm_hidden(m, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, NULL);
    const qkv_real *p = qkv_data(t, qkv_lm_logits(m, t, qkv_slice(t, h, 1, n - 1, n)));
    assert_non_null(p);
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = p[i] > p[best] ? i : best;
    return best;
}

static void make(qkv_model *m, size_t window, qkv_ids *out)
{
    qkv_generate_options o = {.tokens = MADE, .window = window,
                              .sampling = qkv_sampling_defaults()};
    o.sampling.temperature = 0;
    assert_int_equal(qkv_generate(m, prompt, PROMPT, &o, NULL, NULL, out), QKV_OK);
    assert_int_equal(out->count, MADE);
}

/* Rotary positions are relative: in one layer, going on is reading the last window afresh. */
static void rotary_goes_on_with_the_last_window(void **state)
{
    fixture *f = *state;
    qkv_model *m = make_model(f->ctx, qkv_llama_type(), 1);
    static const size_t windows[] = {0, 5, 1000};
    int32_t all[PROMPT + MADE];
    memcpy(all, prompt, sizeof prompt);
    for (int w = 0; w < 3; w++) {
        size_t window = windows[w] ? windows[w] : WINDOW;
        qkv_ids out = {0};
        make(m, windows[w], &out);
        for (size_t i = 0; i < MADE; i++) {
            size_t n = PROMPT + i, from = n > window ? n - window : 0;
            assert_int_equal(out.data[i], likeliest(m, f->t, all + from, n - from));
            all[n] = out.data[i];
        }
        qkv_ids_free(&out, f->ctx);
    }
    qkv_model_destroy(m);
}

/* Learned positions end: the last half of the window is read again from position 0. */
static void learned_positions_read_the_last_half_again(void **state)
{
    fixture *f = *state;
    qkv_model *m = make_model(f->ctx, qkv_gpt2_type(), 2);
    int32_t all[PROMPT + MADE];
    memcpy(all, prompt, sizeof prompt);
    qkv_ids out = {0};
    make(m, 0, &out);
    size_t from = PROMPT - WINDOW;
    for (size_t i = 0; i < MADE; i++) {
        size_t n = PROMPT + i;
        if (n - from > WINDOW)
            from = n - WINDOW / 2;
        assert_int_equal(out.data[i], likeliest(m, f->t, all + from, n - from));
        all[n] = out.data[i];
    }
    qkv_ids_free(&out, f->ctx);
    qkv_model_destroy(m);
}

/* Keys and values of all positions would be 64 MiB. */
static void few_tokens_take_little_memory(void **state)
{
    fixture *f = *state;
    /* The second has a table of positions, and so the larger model: peaks rise. */
    const qkv_model_type *const types[] = {qkv_llama_type(), qkv_gpt2_type()};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        qkv_gpt_config c;
        qkv_model *m;
        qkv_ids out = {0};
        const qkv_generate_options o = {.tokens = 3, .sampling = qkv_sampling_defaults()};
        qkv_option_defaults(qkv_model_type_config(types[i]), &c);
        assert_true(qkv_model_type_preset(types[i], "nano", &c));
        c.vocab = VOCAB;
        c.positions = 65536;
        assert_int_equal(qkv_model_create(&m, f->ctx, types[i], &c), QKV_OK);
        assert_int_equal(qkv_model_init(m, 5), QKV_OK);
        size_t before = qkv_context_memory(f->ctx).live_bytes;
        assert_int_equal(qkv_generate(m, prompt, 2, &o, NULL, NULL, &out), QKV_OK);
        assert_int_equal(out.count, 3);
        size_t peak = qkv_context_memory(f->ctx).peak_bytes;
        if (peak > before + (8 << 20))
            fail_msg("%s: %zu bytes beside the model's", qkv_model_type_name(types[i]),
                     peak - before);
        qkv_ids_free(&out, f->ctx);
        qkv_model_destroy(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rotary_goes_on_with_the_last_window, setup, teardown),
        cmocka_unit_test_setup_teardown(learned_positions_read_the_last_half_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(few_tokens_take_little_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
