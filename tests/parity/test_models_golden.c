/* test_models_golden.c - GPT in all layouts against transformers: a directory it saved, loaded
 * here, gives the same logits, loss and gradient of every tensor, with each instruction set's
 * kernels, and is saved again with the same tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "model_golden.h"
#include "qkv/gpt.h"

static const char *const models[] = {"gpt2", "gpt2-untied", "llama", "llama-tied", "llama3",
                                     "mistral", "phi3", "qwen2", "qwen3"};
enum { MODELS = sizeof models / sizeof *models };

static qkv_tensor *hidden(fixture *f, size_t batch, size_t length, const int32_t *ids,
                          size_t sequences, const int32_t *offsets, qkv_lm_cache *cache)
{
    const size_t shape[] = {batch, length};
    qkv_tensor *x = qkv_tensor_ids(f->t, ids, 2, shape);
    return qkv_lm_hidden(f->model, f->t, x, sequences, offsets, cache);
}

static void compare_logits(fixture *f, const char *what, qkv_tensor *h)
{
    const qkv_tensor *logits = qkv_lm_logits(f->model, f->t, h);
    if (qkv_tape_status(f->t))
        fail_msg("%s: %s: %s", f->name, what, qkv_context_message(f->ctx));
    compare(f, what, "logits", qkv_data(f->t, logits), qkv_count(logits));
}

static void train_step(fixture *f)
{
    const size_t shape[] = {B, T};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, false);
    qkv_params_zero_grad(qkv_model_params(f->model));
    qkv_tensor *h = hidden(f, B, T, f->ids, 0, NULL, NULL);
    compare_logits(f, "logits", h);
    qkv_tensor *loss =
        qkv_lm_loss(f->model, f->t, h, qkv_tensor_ids(f->t, f->targets, 2, shape), NULL);
    compare(f, "loss", "loss", qkv_data(f->t, loss), 1);
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    compare_gradients(f);
}

static void run_all(unsigned isa)
{
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        open_fixture(&f, models[i], isa);
        train_step(&f);
        print_message("%s: at worst %.3g of what is allowed\n", f.name, f.worst);
        close_fixture(&f);
    }
}

/* Both sequences as one packed row, which is how lengths that differ are computed. */
static void test_packed(void **state)
{
    (void)state;
    static const int32_t offsets[] = {0, T, ROWS};
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        open_fixture(&f, models[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        compare_logits(&f, "packed logits", hidden(&f, 1, ROWS, f.ids, B, offsets, NULL));
        close_fixture(&f);
    }
}

/* A few tokens, one token, the rest: with keys and values kept in between. */
static void test_decoding(void **state)
{
    (void)state;
    static const size_t cuts[] = {0, 5, 6, 7, T};
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        qkv_lm_cache *cache;
        qkv_tensor *part[4];
        open_fixture(&f, models[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        assert_int_equal(qkv_lm_cache_create(&cache, f.model, B, T), QKV_OK);
        for (size_t k = 0; k < 4; k++) {
            int32_t ids[ROWS];
            size_t n = cuts[k + 1] - cuts[k];
            for (size_t b = 0; b < B; b++)
                memcpy(ids + b * n, f.ids + b * T + cuts[k], n * sizeof *ids);
            part[k] = hidden(&f, B, n, ids, 0, NULL, cache);
        }
        compare_logits(&f, "logits with a cache", qkv_concat(f.t, 1, 4, part));
        qkv_lm_cache_destroy(cache);
        close_fixture(&f);
    }
}

static void test_saved_again(void **state)
{
    (void)state;
    check_saved_again(models, MODELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_packed),
        cmocka_unit_test(test_decoding),  cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
