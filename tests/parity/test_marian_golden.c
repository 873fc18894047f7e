/* test_marian_golden.c - the encoder-decoder against transformers: a directory it saved, loaded
 * here, gives the same logits, loss and gradient of every tensor, and is saved again with the same
 * tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "model_golden.h"
#include "qkv/marian.h"

enum { S = 13 };
static const char *const models[] = {"marian", "marian-separate", "t5", "t5-gated", "t5-silu"};
enum { MODELS = sizeof models / sizeof *models };
static const int32_t source_offsets[] = {0, S, B * S}, target_offsets[] = {0, T, ROWS};

typedef struct {
    qkv_marian_side source, target;
} sides;

/* Both sides in rows, or packed into one row each. */
static sides sides_of(fixture *f, bool packed)
{
    const size_t s_shape[] = {packed ? 1 : B, packed ? B * S : S};
    const size_t t_shape[] = {packed ? 1 : B, packed ? ROWS : T};
    sides x = {.source.ids = qkv_tensor_ids(f->t, f->source, 2, s_shape),
               .target.ids = qkv_tensor_ids(f->t, f->ids, 2, t_shape)};
    if (packed) {
        x.source.sequences = x.target.sequences = B;
        x.source.offsets = source_offsets;
        x.target.offsets = target_offsets;
    }
    return x;
}

static void train_step(const char *name, unsigned isa, bool packed)
{
    fixture f;
    const size_t n = ROWS;
    open_fixture(&f, name, isa);
    qkv_tape_mode(f.t, true, false);
    sides x = sides_of(&f, packed);
    qkv_tensor *memory = qkv_marian_encode(f.model, f.t, &x.source);
    qkv_tensor *h = qkv_marian_decode(f.model, f.t, &x.target, memory, &x.source, NULL);
    qkv_tensor *y = qkv_marian_logits(f.model, f.t, h);
    h = qkv_reshape(f.t, h, 2, (size_t[]){n, qkv_dim(h, 2)});
    qkv_tensor *loss = qkv_marian_loss(f.model, f.t, h, qkv_tensor_ids(f.t, f.targets, 1, &n),
                                       NULL);
    compare_step(&f, y, loss);
    close_fixture(&f);
}

static void run_all(unsigned isa)
{
    for (size_t i = 0; i < MODELS; i++)
        train_step(models[i], isa, false);
}

static void test_packed(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++)
        train_step(models[i], QKV_ISA_ALL, true);
}

/* One token at a time, the memory's keys and values kept from the first. */
static void test_decoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        qkv_lm_cache *cache;
        qkv_tensor *part[T];
        open_fixture(&f, models[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        assert_int_equal(qkv_marian_cache_create(&cache, f.model, B, T, S, false), QKV_OK);
        sides x = sides_of(&f, false);
        qkv_tensor *memory = qkv_marian_encode(f.model, f.t, &x.source);
        for (size_t k = 0; k < T; k++) {
            qkv_marian_side one = {.ids = qkv_slice(f.t, x.target.ids, 1, k, k + 1)};
            part[k] = qkv_marian_decode(f.model, f.t, &one, k ? NULL : memory, &x.source, cache);
        }
        qkv_tensor *y = qkv_marian_logits(f.model, f.t, qkv_concat(f.t, 1, T, part));
        compare_tensor(&f, "logits", y);
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
        cmocka_unit_test(test_decoding), cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
