/* test_rotary.c - frequencies of rotary positions, extended ones too, against those that
 * transformers computes in double for configurations of published models. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "params.h"
#include "qkv/nn.h"

enum { SHOWN = 6 };

static const struct {
    const char *name;
    size_t head_width;
    qkv_rotary_config c;
    double scale, frequency[SHOWN]; /* of pairs 0, n/4, 3n/8, n/2, 5n/8 and n-1 of n */
} cases[] = {
    {"Llama 3.2 1B", 64, {.base = 5e5, .kind = QKV_ROPE_LLAMA3, .factor = 32, .original = 8192,
                          .low = 1, .high = 4}, 1,
     {1, 0.037606030930863933, 0.0072926647372171085, 0.00042955679655936815,
      8.5702554898814781e-06, 9.4183067254349087e-08}},
    {"Qwen2.5 7B, extended", 128, {.base = 1e6, .kind = QKV_ROPE_YARN, .factor = 4,
                                   .original = 32768}, 1.138629436111989,
     {1, 0.031622776601683791, 0.0053753214907901019, 0.00060294117647058821,
      4.4456985250973067e-05, 3.1023444018792988e-07}},
    {"Llama 2, linear", 64, {.base = 1e4, .kind = QKV_ROPE_LINEAR, .factor = 2}, 1,
     {0.5, 0.05, 0.015811388300841896, 0.005, 0.0015811388300841895, 6.6676071608166198e-05}},
    {"all of YaRN's fields", 64, {.base = 1e4, .kind = QKV_ROPE_YARN, .factor = 40,
                                  .original = 4096, .beta_fast = 16, .beta_slow = 2,
                                  .mscale = 0.707, .mscale_all_dim = 1}, 0.9210423553163399,
     {1, 0.1, 0.031622776601683791, 0.0056666666666666671, 0.00042163702135578399,
      3.3338035804083101e-06}},
    {"half of the channels", 128, {.base = 1e4, .share = 0.5, .kind = QKV_ROPE_LINEAR,
                                   .factor = 2}, 1,
     {0.5, 0.05, 0.015811388300841896, 0.005, 0.0015811388300841895, 6.6676071608166198e-05}},
};

static void published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double frequency[64];
        size_t n = qkv_rotary_width(&cases[i].c, cases[i].head_width) / 2;
        const size_t at[SHOWN] = {0, n / 4, 3 * n / 8, n / 2, 5 * n / 8, n - 1};
        assert_near(qkv_rotary_frequencies(&cases[i].c, cases[i].head_width, frequency),
                    cases[i].scale);
        for (size_t k = 0; k < SHOWN; k++)
            if (fabs(frequency[at[k]] / cases[i].frequency[k] - 1) > 1e-12)
                fail_msg("%s, pair %zu: %.17g instead of %.17g", cases[i].name, at[k],
                         frequency[at[k]], cases[i].frequency[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
