/* test_mae_golden.c - masked autoencoders against transformers, the masks given: a directory it
 * saved, loaded here, gives the same patches, loss and gradient of every tensor, and is saved again
 * with the same tensors. The second has the names that transformers 5 gives a decoder. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "qkv/mae.h"

static const char *const models[] = {"mae", "mae-normed"};
enum { MODELS = sizeof models / sizeof *models, IMAGES = 3, PATCHES = 9 };

#include "each_model.h"

/* Masks of the golden noise. */
static qkv_mae_masks masks_of(const fixture *f, int32_t *order)
{
    const qkv_mae_config *c = qkv_model_config(f->model);
    size_t n;
    qkv_real *noise = take(f, "noise", &n);
    assert_int_equal(n, IMAGES * PATCHES);
    for (size_t i = 0; i < IMAGES; i++)
        qkv_mae_order(order + i * PATCHES, noise + i * PATCHES, PATCHES);
    free(noise);
    return (qkv_mae_masks){IMAGES, PATCHES, qkv_mae_kept(PATCHES, c->mask_ratio), order};
}

static void train_step(const char *name, unsigned isa)
{
    fixture f;
    int32_t order[IMAGES * PATCHES];
    open_fixture(&f, name, isa);
    qkv_mae_masks masks = masks_of(&f, order);
    qkv_tape_mode(f.t, true, false);
    qkv_tensor *x = golden_images(&f, "pixels");
    qkv_tensor *h = qkv_mae_decode(f.model, f.t, qkv_mae_encode(f.model, f.t, x, &masks), &masks);
    qkv_tensor *loss = qkv_mae_loss(f.model, f.t, h, x, &masks);
    compare_step(&f, qkv_mae_patches(f.model, f.t, h), loss);
    close_fixture(&f);
}

/* Masks are about the patches of the images that the model learnt from. */
static void test_larger(void **state)
{
    (void)state;
    fixture f;
    int32_t order[IMAGES * PATCHES];
    open_fixture(&f, models[0], QKV_ISA_ALL);
    qkv_mae_masks masks = masks_of(&f, order);
    const qkv_mae_config *c = qkv_model_config(f.model);
    const size_t shape[] = {IMAGES, 2 * c->trunk.image, c->trunk.image, c->trunk.channels};
    assert_null(qkv_mae_encode(f.model, f.t, qkv_tensor_from(f.t, NULL, 4, shape), &masks));
    assert_int_equal(qkv_tape_status(f.t), QKV_E_SHAPE);
    close_fixture(&f);
}

/* The second would have other names. */
static void test_first_saved_again(void **state)
{
    (void)state;
    check_saved_again(models, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_first_saved_again), cmocka_unit_test(test_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
