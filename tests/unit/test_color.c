/* test_color.c - sRGB and Lab: known colours, and there and back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "qkv/color.h"

/* Values of skimage.color.rgb2lab. */
static void test_known(void **state)
{
    (void)state;
    static const struct {
        float rgb[3];
        double lab[3];
    } cases[] = {
        {{0, 0, 0}, {0, 0, 0}},
        {{1, 1, 1}, {100, 0, 0}},
        {{1, 0, 0}, {53.2408, 80.0925, 67.2032}},
        {{0, 1, 0}, {87.7347, -86.1827, 83.1793}},
        {{0, 0, 1}, {32.2970, 79.1875, -107.8602}},
        {{0.5f, 0.5f, 0.5f}, {53.3890, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float lab[3];
        qkv_srgb_to_lab(lab, cases[i].rgb, 1);
        for (int k = 0; k < 3; k++)
            if (!(fabs((double)lab[k] - cases[i].lab[k]) <= 0.01))
                fail_msg("colour %zu: %g expected, %g found", i, cases[i].lab[k], (double)lab[k]);
    }
}

static void test_there_and_back(void **state)
{
    (void)state;
    float rgb[3], lab[3];
    for (int i = 0; i < 4913; i++) {
        const int levels[3] = {i % 17, i / 17 % 17, i / 289};
        for (int k = 0; k < 3; k++)
            rgb[k] = (float)levels[k] / 16;
        qkv_srgb_to_lab(lab, rgb, 1);
        assert_true(fabsf(lab[1]) <= 110 && fabsf(lab[2]) <= 110);
        qkv_lab_to_srgb(lab, lab, 1);
        for (int k = 0; k < 3; k++)
            if (!(fabsf(lab[k] - rgb[k]) <= 2e-4f))
                fail_msg("%g became %g", (double)rgb[k], (double)lab[k]);
    }
}

/* Bytes, few or many at once, are the same as numbers. */
static void test_bytes(void **state)
{
    (void)state;
    enum { N = 100 };
    uint8_t bytes[3 * N];
    float rgb[3 * N], lab[3 * N], few[3 * N];
    for (size_t i = 0; i < 3 * N; i++) {
        bytes[i] = (uint8_t)(i * 77);
        rgb[i] = (float)bytes[i] / 255;
    }
    qkv_srgb_to_lab(rgb, rgb, N);
    qkv_bytes_to_lab(lab, bytes, N);
    qkv_bytes_to_lab(few, bytes, 10);
    assert_memory_equal(few, lab, 30 * sizeof *lab);
    for (size_t i = 0; i < 3 * N; i++)
        assert_true(fabsf(lab[i] - rgb[i]) <= 1e-3f);
}

static void test_clipped(void **state)
{
    (void)state;
    const float lab[3] = {50, 110, -110};
    float rgb[3];
    qkv_lab_to_srgb(rgb, lab, 1);
    for (int k = 0; k < 3; k++)
        assert_true(rgb[k] >= 0 && rgb[k] <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known), cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_bytes), cmocka_unit_test(test_clipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
