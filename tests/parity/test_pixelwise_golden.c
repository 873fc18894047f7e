/* test_pixelwise_golden.c - models of every pixel against a torch module of the same wiring: a
 * directory in qkv's names, loaded here, gives the same outputs, loss and gradient of every tensor,
 * and is saved again with the same tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "qkv/pixelwise.h"

static const char *const models[] = {"segmenter", "colorizer", "convolutions"};
enum { MODELS = sizeof models / sizeof *models, PIXELS = 3 * 12 * 12 };

#include "each_model.h"

static qkv_tensor *pixel_classes(fixture *f)
{
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, "pixel_classes");
    int64_t wide[PIXELS];
    int32_t ids[PIXELS];
    assert_non_null(s);
    assert_int_equal(qkv_safetensors_read_ints(f->golden, s, 0, PIXELS, wide), QKV_OK);
    for (size_t i = 0; i < PIXELS; i++)
        ids[i] = (int32_t)wide[i];
    return qkv_tensor_ids(f->t, ids, 3, s->shape);
}

static void train_step(const char *name, unsigned isa)
{
    fixture f;
    open_fixture(&f, name, isa);
    qkv_tape_mode(f.t, true, false);
    qkv_tensor *y = qkv_pixelwise_forward(f.model, f.t, golden_images(&f, "pixels"));
    bool classes = qkv_model_type_of(f.model) == qkv_segmenter_type();
    compare_step(&f, y, classes ? qkv_cross_entropy(f.t, y, pixel_classes(&f), NULL)
                                : qkv_huber_loss(f.t, y, golden_images(&f, "colors"), 0.3));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
