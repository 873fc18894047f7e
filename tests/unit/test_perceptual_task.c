/* test_perceptual_task.c - teaching a perceptual network: what is asked of it, that it learns, how
 * it is evaluated, what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/color.h"
#include "qkv/perceptual_task.h"

enum { SIDE = 16, C = 3, COUNT = 24 };

/* Odd images are red and even ones blue, all over, each of its own brightness. */
static uint8_t red_or_blue(size_t image, size_t k)
{
    return k % C == (image % 2 ? 0 : 2) ? (uint8_t)(120 + 5 * image) : 20;
}

static void test_config(void **state)
{
    (void)state;
    qkv_perceptual_config c = qkv_perceptual_task_config(32, 10);
    assert_int_equal(c.answers, 10);
    assert_int_equal(c.channels.count, 3); /* 32, 16, 8 */
    assert_int_equal(c.convolutions.count, 3);
    assert_int_equal(qkv_perceptual_task_config(32, 1).answers, 2);
    assert_int_equal(qkv_perceptual_task_config(4, 0).channels.count, 1);
    assert_int_equal(qkv_perceptual_task_config(256, 0).channels.count, 5);
}

/* The colour of a place, which grey images do not show: nothing but their means can be learnt
 * first. By hand, with zeros for weights: the mean square of what is to be told. */
static void test_colors(void **state)
{
    (void)state;
    qkv_perceptual_config c = {.channels = {2, {4, 4}}, .convolutions = {2, {1, 1}}, .answers = 2};
    qkv_model *m = made(qkv_perceptual_type(), &c);
    qkv_pixels *p = drawn(1, SIDE, C, 0, red_or_blue);
    const uint8_t blue[] = {20, 20, 120};
    qkv_real lab[3];
    qkv_task task;
    set_to_zero(m, "head.weight");
    set_to_zero(m, "head.bias");
    qkv_bytes_to_lab(lab, blue, 1);
    assert_int_equal(qkv_task_perceptual(&task, m, p, NULL, 1), QKV_OK);
    double a = (double)lab[1] / 110, b = (double)lab[2] / 110;
    assert_true(fabs(part_loss(&task, 0, 8, NULL) - (a * a + b * b) / 2) < 1e-5);
    qkv_task_destroy(&task);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

/* Classes that one look at the colour tells apart: at first the loss is that of a guess. */
static void test_classes(void **state)
{
    (void)state;
    qkv_perceptual_config c = qkv_perceptual_task_config(SIDE, 2);
    qkv_model *m = made(qkv_perceptual_type(), &c);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 2, red_or_blue);
    qkv_task task;
    assert_int_equal(qkv_task_perceptual(&task, m, p, NULL, 1), QKV_OK);
    assert_false(task.held_out);
    assert_true(fabs(part_loss(&task, 0, 8, NULL) - log(2)) < 0.2);
    assert_true(fabs(part_loss(&task, 0, 3, NULL) + part_loss(&task, 3, 5, NULL) -
                     part_loss(&task, 0, 8, NULL)) < 1e-5);
    qkv_task_destroy(&task);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* Of one colour, all over; or grey bars of chance, across or up and down. */
static uint8_t half_bars(size_t image, size_t k)
{
    size_t at = image % 4 ? k / (SIDE * C) : k / C % SIDE;
    return image % 2 ? 90 : (uint8_t)((at * at + image) * 89);
}

/* Bars are ranked even by weights at random; what is of one colour stays so when it is
 * blurred, and looks no less like itself; what has no weights sees nothing. */
static void test_ranks(void **state)
{
    (void)state;
    qkv_perceptual_config c = qkv_perceptual_task_config(SIDE, 0);
    qkv_model *m = made(qkv_perceptual_type(), &c);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, half_bars);
    qkv_perceptual_score score, again;
    assert_int_equal(qkv_perceptual_evaluate(m, tape, p, &score), QKV_OK);
    assert_int_equal(score.images, COUNT);
    assert_true(score.blur == 0.5 && score.noise == 1);
    assert_int_equal(qkv_perceptual_evaluate(m, tape, p, &again), QKV_OK);
    assert_memory_equal(&score, &again, sizeof score);
    for (size_t i = 0; i < QKV_PERCEPTUAL_STRENGTHS; i++)
        assert_true(!i || (qkv_perceptual_blurs()[i] > qkv_perceptual_blurs()[i - 1] &&
                           qkv_perceptual_noises()[i] > qkv_perceptual_noises()[i - 1]));
    set_to_zero(m, "stage.0.0.weight");
    assert_int_equal(qkv_perceptual_evaluate(m, tape, p, &score), QKV_OK);
    assert_true(score.blur == 0 && score.noise == 0);
    qkv_pixels_close(p);
    p = drawn(2, 1, C, 0, half_bars);
    assert_int_equal(qkv_perceptual_evaluate(m, tape, p, &score), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "1 x 1 pixels"));
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_perceptual_config c = qkv_perceptual_task_config(SIDE, 3);
    qkv_model *m = made(qkv_perceptual_type(), &c);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 2, red_or_blue), *grey = drawn(COUNT, SIDE, 1, 0, mixed);
    qkv_task task;
    assert_int_equal(qkv_task_perceptual(&task, m, p, NULL, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "3 answers for images of 2 classes"));
    assert_null(task.self);
    assert_int_equal(qkv_task_perceptual(&task, m, grey, NULL, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "1 channels"));
    qkv_pixels_close(grey);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config), cmocka_unit_test(test_colors),
        cmocka_unit_test(test_classes), cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
