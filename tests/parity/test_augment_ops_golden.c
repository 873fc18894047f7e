/* The changes that augmentation makes to images: the same bytes as Pillow's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "image/augment_steps.h"
#include "qkv/image_file.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images/augment_ops"

static const struct {
    const char *name;
    qkv__image_op_fn *op; /* or */
    qkv__place_fn *place;
    double value;
} cases[] = {
    {"autocontrast", qkv__autocontrast, NULL, 0},
    {"equalize", qkv__equalize, NULL, 0},
    {"rotate", NULL, qkv__rotate, 27},
    {"rotate", NULL, qkv__rotate, -13.5},
    {"solarize", qkv__solarize, NULL, 26},
    {"solarize", qkv__solarize, NULL, 128},
    {"posterize", qkv__posterize, NULL, 4.4},
    {"color", qkv__saturate, NULL, 0.19},
    {"color", qkv__saturate, NULL, 1.81},
    {"contrast", qkv__contrast, NULL, 0.19},
    {"contrast", qkv__contrast, NULL, 1.81},
    {"brightness", qkv__brightness, NULL, 0.19},
    {"brightness", qkv__brightness, NULL, 1.81},
    {"sharpness", qkv__sharpness, NULL, 0.19},
    {"sharpness", qkv__sharpness, NULL, 1.81},
    {"shear-x", NULL, qkv__shear_x, 0.27},
    {"shear-x", NULL, qkv__shear_x, -0.15},
    {"shear-y", NULL, qkv__shear_y, 0.27},
    {"translate-x", NULL, qkv__translate_x, 0.405},
    {"translate-y", NULL, qkv__translate_y, -0.13},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check(const char *path, size_t channels)
{
    static const uint8_t fill[3] = {120, 60, 200};
    qkv_image stack, out;
    qkv_image_options o = qkv_image_defaults();
    o.channels = channels;
    assert_int_equal(qkv_image_read(&stack, ctx, path, &o), QKV_OK);
    qkv_image in = stack;
    in.height = stack.height / (CASES + 1);
    assert_int_equal(in.height * (CASES + 1), stack.height);
    size_t size = in.height * in.width * channels;
    assert_int_equal(qkv_image_create(&out, ctx, in.width, in.height, channels), QKV_OK);
    for (size_t i = 0; i < CASES; i++) {
        const uint8_t *want = stack.data + (i + 1) * size;
        if (cases[i].op) {
            cases[i].op(&out, &in, cases[i].value, fill);
        } else {
            double m[6];
            cases[i].place(m, &in, cases[i].value);
            qkv__transform(&out, &in, m, fill);
        }
        for (size_t k = 0; k < size; k++)
            if (out.data[k] != want[k])
                fail_msg("%s %g of %zu channels at %zu: %d, not %d", cases[i].name,
                         cases[i].value, channels, k, out.data[k], want[k]);
    }
    qkv_image_free(&out, ctx);
    qkv_image_free(&stack, ctx);
}

static void test_colour(void **state)
{
    (void)state;
    check(IMAGES "/colour.png", 3);
}

static void test_grey(void **state)
{
    (void)state;
    check(IMAGES "/grey.png", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colour),
        cmocka_unit_test(test_grey),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
