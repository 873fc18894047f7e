/* test_reconstruct.c - filling in hidden patches: which are hidden, what a part of an update adds,
 * what is evaluated and shown. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/reconstruct.h"

enum { SIDE = 8, PATCH = 2, L = 16, C = 3, BYTES = SIDE * SIDE * C, COUNT = 40 };

/* A model with weights at random, which learns normed patches or not. */
static qkv_model *made_model(bool normed)
{
    qkv_mae_config c;
    qkv_image_format f = {.height = SIDE, .width = SIDE, .channels = C, .resample = 2,
                          .mean = {0.5, 0.4, 0.3}, .std = {0.2, 0.3, 0.4}};
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &c);
    assert_true(qkv_model_type_preset(qkv_mae_type(), "nano", &c));
    c.trunk.image = SIDE;
    c.trunk.patch = PATCH;
    c.trunk.width = c.decoder_width = 16;
    c.decoder_ff_width = c.trunk.ff_width = 0;
    c.norm_pix = normed;
    qkv_model *m = made(qkv_mae_type(), &c);
    qkv_model_set_image_format(m, &f);
    return m;
}

/* Left half 50, right half 250: the nearest pixel is right but at the edge of what is seen. */
static uint8_t halves(size_t image, size_t k)
{
    (void)image;
    return k / C % SIDE < SIDE / 2 ? 50 : 250;
}

static void test_kept(void **state)
{
    (void)state;
    assert_int_equal(qkv_mae_kept(64, 0), 64);
    assert_int_equal(qkv_mae_kept(64, 0.25), 48);
    assert_int_equal(qkv_mae_kept(64, 0.75), 16);
    assert_int_equal(qkv_mae_kept(64, 0.9), 6);
    assert_int_equal(qkv_mae_kept(64, 0.98), 1);
    assert_int_equal(qkv_mae_kept(64, 0.999), 1);
    assert_int_equal(qkv_mae_kept(9, 0.5), 4);
}

static void test_orders(void **state)
{
    (void)state;
    static const qkv_real noise[] = {(qkv_real)0.5, 0, (qkv_real)0.75, (qkv_real)0.5, 1};
    static const int32_t expected[] = {1, 0, 3, 2, 4};
    int32_t order[L], again[L];
    size_t first[L] = {0};
    qkv_mae_order(order, noise, 5);
    assert_memory_equal(order, expected, sizeof expected);
    for (uint64_t sample = 0; sample < 4096; sample++) {
        bool seen[L] = {false};
        qkv_mae_shuffle(order, L, 3, sample);
        for (size_t i = 0; i < L; i++)
            seen[order[i]] = true;
        for (size_t i = 0; i < L; i++)
            assert_true(seen[i]);
        first[order[0]]++;
    }
    for (size_t i = 0; i < L; i++)
        assert_true(first[i] > 192 && first[i] < 320); /* 256 expected, standard deviation 15.5 */
    qkv_mae_shuffle(again, L, 3, 4095);
    assert_memory_equal(order, again, sizeof order);
    qkv_mae_shuffle(again, L, 4, 4095);
    assert_memory_not_equal(order, again, sizeof order);
}

static void test_parts(void **state)
{
    (void)state;
    qkv_model *m = made_model(false);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, mixed);
    qkv_task task;
    qkv_augment_options o = qkv_augment_defaults();
    o.crop_scale = 0.5;
    o.flip = true;
    assert_int_equal(qkv_task_reconstruct(&task, m, p, p, &o, 9), QKV_OK);
    expect_parts(&task);
    expect_evaluated(&task, "psnr", COUNT);
    qkv_task_destroy(&task);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

/* The means of what is seen and of the nearest pixels, against what the image says. */
static void test_evaluated(void **state)
{
    (void)state;
    qkv_model *m = made_model(false);
    qkv_pixels *p = drawn(COUNT, SIDE, C, 0, halves);
    qkv_reconstruct_score s, again, few;
    assert_int_equal(qkv_reconstruct_evaluate(m, tape, p, -1, 0, &s), QKV_OK);
    assert_int_equal(s.images, COUNT);
    /* A mean of a mixture of 50 and 250 errs by 100 at least on the whole. */
    assert_true(s.mean < 20 * log10(255 / 100.0) + 0.01 && s.mean > 4);
    assert_true(s.nearest > s.mean);
    assert_true(s.psnr > 0 && s.psnr < 20 && s.loss > 0);
    assert_int_equal(qkv_reconstruct_evaluate(m, tape, p, 0.75, 0, &again), QKV_OK);
    assert_memory_equal(&s, &again, sizeof s);
    /* Where little is hidden, what is next to it nearly always tells it. */
    assert_int_equal(qkv_reconstruct_evaluate(m, tape, p, 0.2, 0, &few), QKV_OK);
    assert_true(few.nearest > s.nearest + 1);
    /* One hidden: 8 of the 15 others are of the other half, so their mean errs by 320 / 3. */
    assert_int_equal(qkv_reconstruct_evaluate(m, tape, p, 0.01, 0, &few), QKV_OK);
    assert_true(fabs(few.mean - 20 * log10(255 * 3 / 320.0)) < 1e-6);
    assert_int_equal(qkv_reconstruct_evaluate(m, tape, p, 0, 0, &few), QKV_E_ARGUMENT);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

static void test_shown(void **state)
{
    (void)state;
    uint8_t image[BYTES], hidden[BYTES], filled[BYTES], pasted[BYTES];
    for (size_t k = 0; k < BYTES; k++)
        image[k] = mixed(3, k);
    for (int normed = 0; normed < 2; normed++) {
        qkv_model *m = made_model(normed);
        assert_int_equal(qkv_reconstruct(m, tape, image, 0, 1, true, hidden, filled), QKV_OK);
        assert_memory_equal(hidden, image, BYTES);
        assert_memory_equal(filled, image, BYTES);
        assert_int_equal(qkv_reconstruct(m, tape, image, 0.75, 1, false, hidden, filled), QKV_OK);
        assert_int_equal(qkv_reconstruct(m, tape, image, 0.75, 1, true, hidden, pasted), QKV_OK);
        size_t grey = 0;
        for (size_t y = 0; y < SIDE; y += PATCH)
            for (size_t x = 0; x < SIDE; x += PATCH) {
                size_t at = (y * SIDE + x) * C, end = ((y + 1) * SIDE + x + 1) * C;
                bool seen = memcmp(hidden + at, image + at, C) == 0 &&
                            memcmp(hidden + end, image + end, C) == 0;
                grey += !seen;
                assert_memory_equal(pasted + at, (seen ? image : filled) + at, C);
                assert_memory_equal(pasted + end, (seen ? image : filled) + end, C);
            }
        assert_int_equal(grey, 12);
        qkv_model_destroy(m);
    }
}

/* A normed patch goes back to the true mean: the model without weights says all is 0. */
static void test_unnormed(void **state)
{
    (void)state;
    qkv_model *m = made_model(true);
    uint8_t image[BYTES], hidden[BYTES], filled[BYTES];
    set_to_zero(m, "decoder.pred.weight");
    for (size_t k = 0; k < BYTES; k++)
        image[k] = (uint8_t)(102 + k % C); /* patches are of one colour */
    qkv_image_format f = *qkv_model_image_format(m);
    for (size_t c = 0; c < C; c++)
        f.std[c] = 0.25;
    for (size_t c = 0; c < C; c++)
        f.mean[c] = 0.5;
    qkv_model_set_image_format(m, &f);
    assert_int_equal(qkv_reconstruct(m, tape, image, 0.75, 1, false, hidden, filled), QKV_OK);
    for (size_t k = 0; k < BYTES; k++)
        assert_int_equal(filled[k], 103);
    qkv_model_destroy(m);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_model *m = made_model(false);
    qkv_pixels *p = drawn(COUNT, 2 * SIDE, C, 0, mixed), *good = drawn(COUNT, SIDE, C, 0, mixed);
    qkv_task task;
    uint8_t image[BYTES] = {0}, a[BYTES], b[BYTES];
    qkv_augment_options o = qkv_augment_defaults();
    o.mixup = 0.8;
    assert_int_equal(qkv_task_reconstruct(&task, m, p, NULL, NULL, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "16 x 16"));
    assert_int_equal(qkv_task_reconstruct(&task, m, good, p, NULL, 1), QKV_E_ARGUMENT);
    assert_int_equal(qkv_task_reconstruct(&task, m, good, NULL, &o, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "mixed"));
    assert_int_equal(qkv_reconstruct(m, tape, image, 1, 1, false, a, b), QKV_E_ARGUMENT);
    assert_int_equal(qkv_reconstruct(m, tape, image, NAN, 1, false, a, b), QKV_E_ARGUMENT);
    qkv_pixels_close(p);
    qkv_pixels_close(good);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),   cmocka_unit_test(test_orders),
        cmocka_unit_test(test_parts),  cmocka_unit_test(test_evaluated),
        cmocka_unit_test(test_shown),  cmocka_unit_test(test_unnormed),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
