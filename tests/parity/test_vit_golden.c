/* test_vit_golden.c - models of images against transformers and torch: a directory, loaded here,
 * gives the same logits, loss and gradient of every tensor, and is saved again with the same
 * tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "qkv/vit.h"

static const char *const models[] = {
    "vit", "vit-grey", "cct", "cct-plain", "vit-encoder", "vit-encoder-bare", "deit",
    "deit-teacher", "deit-encoder", "dinov2", "dinov2-gated", "dinov2-encoder",
    "dinov2-registers", "dinov2-registers-encoder"};
enum { MODELS = sizeof models / sizeof *models };

#include "each_model.h"

static void train_step(const char *name, unsigned isa)
{
    fixture f;
    size_t count = 3;
    open_fixture(&f, name, isa);
    qkv_tape_mode(f.t, true, false);
    qkv_tensor *x = golden_images(&f, "pixels");
    if (qkv_model_can(f.model, QKV_CAN_EMBED_IMAGES)) {
        qkv_tensor *y = qkv_vit_vectors(f.model, f.t, x);
        compare_step_of(&f, "vectors", y, qkv_mean(f.t, qkv_mul(f.t, y, y)));
    } else {
        qkv_tensor *y = qkv_vit_logits(f.model, f.t, x);
        qkv_tensor *targets = qkv_tensor_ids(f.t, f.targets, 1, &count);
        compare_step(&f, y, qkv_cross_entropy(f.t, y, targets, NULL));
    }
    close_fixture(&f);
}

/* An image of another shape than positions were learnt for. */
static void test_interpolated(void **state)
{
    (void)state;
    static const char *const wide[] = {"vit", "deit", "dinov2", "dinov2-registers"};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        fixture f;
        open_fixture(&f, wide[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        compare_tensor(&f, "wide_logits",
                       qkv_vit_logits(f.model, f.t, golden_images(&f, "wide")));
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_interpolated), cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
