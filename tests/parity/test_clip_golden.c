/* test_clip_golden.c - CLIP against transformers: a directory, loaded here, gives the same vectors,
 * logits, loss and gradient of every tensor, with padded texts and with packed ones, and is saved
 * again with the same tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "qkv/clip.h"

static const char *const models[] = {"clip", "clip-old"};
enum { MODELS = sizeof models / sizeof *models, TEXTS = 3, LENGTH = 9 };
static const double EPS = 1e-12;

#include "each_model.h"

static void train_step(const char *name, unsigned isa)
{
    fixture f;
    open_fixture(&f, name, isa);
    qkv_tape_mode(f.t, true, false);
    qkv_tensor *ids = qkv_tensor_ids(f.t, f.ids, 2, (size_t[]){TEXTS, LENGTH});
    qkv_tensor *texts = qkv_clip_texts(f.model, f.t, ids, 0, NULL);
    qkv_tensor *pictures = qkv_clip_images(f.model, f.t, golden_images(&f, "pixels"));
    qkv_tensor *scale = qkv_use(f.t, qkv_clip_log_scale(f.model));
    qkv_tensor *cosines = qkv_matmul(f.t, qkv_l2_normalize(f.t, pictures, EPS), false,
                                     qkv_l2_normalize(f.t, texts, EPS), true);
    qkv_tensor *loss = qkv_clip_loss(f.t, pictures, texts, scale);
    qkv_tensor *logits = qkv_mul(f.t, cosines, qkv_exp(f.t, scale));
    compare_tensor(&f, "text_vectors", texts);
    compare_tensor(&f, "image_vectors", pictures);
    compare_step(&f, logits, loss);
    close_fixture(&f);
}

/* Texts one after another, without what is behind their ends. */
static void test_packed(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        static const int32_t offsets[] = {0, 4, 13, 19};
        int32_t ids[19];
        fixture f;
        open_fixture(&f, models[i], QKV_ISA_ALL);
        for (int k = 0; k < TEXTS; k++)
            for (int32_t n = offsets[k]; n < offsets[k + 1]; n++)
                ids[n] = f.ids[k * LENGTH + n - offsets[k]];
        qkv_tape_mode(f.t, false, false);
        qkv_tensor *y = qkv_clip_texts(f.model, f.t,
                                       qkv_tensor_ids(f.t, ids, 2, (size_t[]){1, 19}), TEXTS,
                                       offsets);
        compare_tensor(&f, "text_vectors", y);
        close_fixture(&f);
    }
}

/* An image of another shape than positions were learnt for. */
static void test_interpolated(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        fixture f;
        open_fixture(&f, models[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        compare_tensor(&f, "wide_vectors",
                       qkv_clip_images(f.model, f.t, golden_images(&f, "wide")));
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_packed), cmocka_unit_test(test_interpolated),
        cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
