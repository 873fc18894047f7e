/* test_vit_golden.c - models of images against transformers and torch: a directory, loaded here,
 * gives the same logits, loss and gradient of every tensor, and is saved again with the same
 * tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "model_golden.h"
#include "qkv/vit.h"

static const char *const models[] = {"vit", "vit-grey", "cct", "cct-plain"};
enum { MODELS = sizeof models / sizeof *models };

/* The golden tensor (.., H, W, C) of that name. */
static qkv_tensor *images(fixture *f, const char *name)
{
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, name);
    size_t n;
    qkv_real *data = take(f, name, &n);
    qkv_tensor *x = qkv_tensor_from(f->t, data, 4, s->shape);
    free(data);
    return x;
}

static void train_step(const char *name, unsigned isa)
{
    fixture f;
    size_t count = 3;
    open_fixture(&f, name, isa);
    qkv_tape_mode(f.t, true, false);
    qkv_tensor *y = qkv_vit_logits(f.model, f.t, images(&f, "pixels"));
    compare_step(&f, y, qkv_cross_entropy(f.t, y, qkv_tensor_ids(f.t, f.targets, 1, &count), NULL));
    close_fixture(&f);
}

static void run_all(unsigned isa)
{
    for (int i = 0; i < MODELS; i++)
        train_step(models[i], isa);
}

/* An image of another shape than positions were learnt for. */
static void test_interpolated(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "vit", QKV_ISA_ALL);
    qkv_tape_mode(f.t, false, false);
    qkv_tensor *y = qkv_vit_logits(f.model, f.t, images(&f, "wide"));
    if (!y)
        fail_msg("%s", qkv_context_message(f.ctx));
    compare(&f, "logits of a wide image", "wide_logits", qkv_data(f.t, y), qkv_count(y));
    close_fixture(&f);
}

static void test_saved_again(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * MODELS; i++)
        check_saved_again(models[i / 2], i % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_avx2), cmocka_unit_test(test_all),
        cmocka_unit_test(test_interpolated), cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
