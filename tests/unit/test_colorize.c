/* test_colorize.c - colouring: what a part of an update adds, what is evaluated beside what, hints
 * and lightness in what is coloured. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/color.h"
#include "qkv/colorize.h"
#include "qkv/hub.h"

enum { SIDE = 16, C = 3, COUNT = 40 };

static qkv_model *made_model(size_t image)
{
    qkv_pixelwise_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_colorizer_type()), &c);
    c.trunk.image = image;
    c.trunk.patch = 4;
    c.trunk.channels = QKV_COLORIZER_INPUTS;
    c.trunk.width = 16;
    c.trunk.layers = 1;
    c.trunk.heads = 2;
    c.trunk.ff_width = 0;
    return made(qkv_colorizer_type(), &c);
}

static uint8_t red(size_t image, size_t k) { return (void)image, k % C ? 0 : 255; }
static uint8_t grey(size_t image, size_t k) { return (void)k, (uint8_t)(6 * image); }

static void test_parts(void **state)
{
    (void)state;
    qkv_model *m = made_model(SIDE);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, mixed);
    qkv_task task;
    qkv_colorize_options o = qkv_colorize_defaults();
    o.augment.crop_pad = 2;
    o.augment.flip = true;
    assert_int_equal(qkv_task_colorize(&task, m, p, p, &o, 9), QKV_OK);
    expect_parts(&task);
    const qkv_metrics metrics = expect_evaluated(&task, "psnr_both", COUNT);
    double both = (metrics.item[1].value + metrics.item[2].value) / 2;
    assert_true(fabs(metrics.item[0].value - both) < 1e-9);
    qkv_task_destroy(&task);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

/* Of red images a = 80.09 and b = 67.20: what always says 0 errs by that, the nearest hint by
 * nothing; the means are these. */
static void test_evaluated(void **state)
{
    (void)state;
    qkv_model *m = made_model(SIDE);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, red);
    qkv_colorize_score s, again;
    double mean[2], squares = (80.0925 * 80.0925 + 67.2032 * 67.2032) / 2;
    double expected = 10 * log10(255 * 255 / squares);
    set_to_zero(m, "head.weight"); /* says a = b = 0 */
    assert_int_equal(qkv_colorize_evaluate(m, tape, p, 0, &s), QKV_OK);
    assert_int_equal(s.images, COUNT);
    assert_true(fabs(s.psnr - expected) < 0.001 && fabs(s.psnr_hints - expected) < 0.001);
    assert_true(fabs(s.mean - expected) < 0.001 && s.nearest > 80);
    assert_int_equal(qkv_colorize_mean(ctx, p, NULL, COUNT, mean), QKV_OK);
    assert_true(fabs(mean[0] - 80.0925) < 0.01 && fabs(mean[1] - 67.2032) < 0.01);
    assert_int_equal(qkv_colorize_evaluate(m, tape, p, 0, &again), QKV_OK);
    assert_memory_equal(&s, &again, sizeof s);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

/* Hints are seen: the same images with and without give other colours. */
static void test_hints_matter(void **state)
{
    (void)state;
    qkv_model *m = made_model(SIDE);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, red), *q = drawn(COUNT, SIDE, C, 0, grey);
    qkv_colorize_score s;
    assert_int_equal(qkv_colorize_evaluate(m, tape, p, 0, &s), QKV_OK);
    assert_true(fabs(s.psnr - s.psnr_hints) > 1e-4);
    assert_int_equal(qkv_colorize_evaluate(m, tape, q, 0, &s), QKV_OK);
    assert_true(s.nearest > 60 && s.mean > 60); /* grey has no colour */
    qkv_pixels_close(p);
    qkv_pixels_close(q);
    qkv_model_destroy(m);
}

/* An image of another size and shape: its lightness stays as far as the colours allow, and a model
 * that says nothing makes it grey. */
static void test_colored(void **state)
{
    (void)state;
    qkv_model *m = made_model(SIDE);
    qkv_image in, out;
    const qkv_color_hint hints[] = {{3, 4, {200, 30, 40}}, {40, 20, {0, 0, 255}}};
    set_to_zero(m, "head.weight"); /* says a = b = 0 */
    assert_int_equal(qkv_image_create(&in, ctx, 41, 23, C), QKV_OK);
    for (size_t i = 0; i < (size_t)41 * 23 * C; i++)
        in.data[i] = (uint8_t)(40 + i / C % 41 * 4 + 20 * (i % C));
    assert_int_equal(qkv_colorize(&out, m, tape, &in, NULL, hints, 2), QKV_OK);
    assert_int_equal(out.width, 41);
    assert_int_equal(out.height, 23);
    for (size_t i = 0; i < (size_t)41 * 23; i++) {
        float rgb[6], lab[6];
        for (size_t k = 0; k < C; k++) {
            assert_true(abs(out.data[C * i + k] - out.data[C * i]) <= 1);
            rgb[k] = (float)in.data[C * i + k] / 255;
            rgb[C + k] = (float)out.data[C * i + k] / 255;
        }
        qkv_srgb_to_lab(lab, rgb, 2);
        assert_true(fabsf(lab[0] - lab[3]) < 1);
    }
    qkv_image_free(&out, ctx);
    const qkv_color_hint beyond = {41, 0, {0, 0, 0}};
    assert_int_equal(qkv_colorize(&out, m, tape, &in, NULL, &beyond, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "41 x 23"));
    qkv_image_free(&in, ctx);
    qkv_model_destroy(m);
}

/* A 16th of 56 pixels would be 3, which does not divide them. */
static void test_hint_size(void **state)
{
    (void)state;
    qkv_model *m = made_model(56);
    assert_int_equal(((const qkv_pixelwise_config *)qkv_model_config(m))->cell, 2);
    qkv_model_destroy(m);
}

/* Means below 0 are numbers, and no "none". */
static void test_saved_means(void **state)
{
    (void)state;
    qkv_model *m = made_model(SIDE), *again;
    qkv_pixelwise_config c = *(const qkv_pixelwise_config *)qkv_model_config(m);
    qkv_model_destroy(m);
    c.mean_a = -2.5;
    c.mean_b = -1;
    m = made(qkv_colorizer_type(), &c);
    assert_int_equal(qkv_hub_save(m, folder, NULL), QKV_OK);
    assert_int_equal(qkv_hub_load(&again, ctx, folder), QKV_OK);
    const qkv_pixelwise_config *read = qkv_model_config(again);
    assert_true(read->mean_a == -2.5 && read->mean_b == -1);
    qkv_model_destroy(m);
    qkv_model_destroy(again);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_model *m = made_model(2 * SIDE);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, mixed);
    qkv_task task;
    assert_int_equal(qkv_task_colorize(&task, m, p, NULL, NULL, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "16 x 16"));
    assert_null(task.self);
    qkv_pixelwise_config c = *(const qkv_pixelwise_config *)qkv_model_config(m);
    qkv_model *none;
    c.trunk.channels = 3;
    assert_int_equal(qkv_model_create(&none, ctx, qkv_colorizer_type(), &c), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "num_channels"));
    c.trunk.channels = QKV_COLORIZER_INPUTS;
    c.cell = 5;
    assert_int_equal(qkv_model_create(&none, ctx, qkv_colorizer_type(), &c), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "hint_size"));
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),         cmocka_unit_test(test_evaluated),
        cmocka_unit_test(test_hints_matter),  cmocka_unit_test(test_colored),
        cmocka_unit_test(test_hint_size),     cmocka_unit_test(test_saved_means),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
