/* test_gguf_llama3.c - the parameters of llama3's rotary positions from divisors in single
 * precision: any factor, low, high and length; what none makes is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "hub/gguf_parts.h"

enum { MOST = 64 };

static qkv_context *ctx;

static bool near(double a, double b) { return fabs(a - b) <= 2e-5 * fabs(b); }

/* Divisors of c as a file has them. */
static void divisors_of(const qkv_rotary_config *c, size_t head_width, qkv_real *out)
{
    double wide[MOST], scratch[MOST];
    assert_true(head_width / 2 <= MOST);
    qkv__llama3_divisors(c, head_width, wide, scratch);
    for (size_t i = 0; i < head_width / 2; i++)
        out[i] = (qkv_real)(float)wide[i];
}

static bool find(qkv_rotary_config *found, double base, size_t told, const qkv_real *divisors,
                 size_t head_width)
{
    bool is = false;
    *found = (qkv_rotary_config){.base = base};
    assert_int_equal(qkv__llama3_of_divisors(ctx, found, told, divisors, head_width, &is), QKV_OK);
    return is;
}

static void check(const qkv_rotary_config *c, size_t head_width, size_t told)
{
    qkv_rotary_config found;
    qkv_real divisors[MOST];
    double before[MOST], after[MOST];
    divisors_of(c, head_width, divisors);
    if (!find(&found, c->base, told, divisors, head_width))
        fail_msg("not found: factor %g low %g high %g length %zu base %g head %zu told %zu",
                 c->factor, c->low, c->high, c->original, c->base, head_width, told);
    (void)qkv_rotary_frequencies(c, head_width, before);
    (void)qkv_rotary_frequencies(&found, head_width, after);
    for (size_t i = 0; i < head_width / 2; i++)
        assert_true(near(after[i], before[i]));
    if (told)
        assert_int_equal(found.original, told);
}

static void all_parameters(void **state)
{
    static const double factors[] = {1, 1.5, 8, 32, 1000};
    static const double ends[][2] = {{1, 4}, {1, 2}, {0.5, 32}, {2, 2.5}, {1, 1.001}, {3, 300}};
    static const size_t lengths[] = {17, 256, 3000, 8192, 131072};
    static const double bases[] = {100, 10000, 500000};
    static const size_t heads[] = {2, 4, 8, 64, 128};
    (void)state;
    for (size_t i = 0; i < 5 * 6 * 5 * 3 * 5; i++) {
        const double *end = ends[i / 5 % 6];
        const qkv_rotary_config c = {.kind = QKV_ROPE_LLAMA3, .factor = factors[i % 5],
                                     .low = end[0], .high = end[1],
                                     .original = lengths[i / 30 % 5], .base = bases[i / 150 % 3]};
        check(&c, heads[i / 450], 0);
        check(&c, heads[i / 450], c.original);
    }
}

/* Where several frequencies lie between the ends they tell all but the length; written are few
 * digits. */
static void parameters_come_back(void **state)
{
    const qkv_rotary_config c = {.kind = QKV_ROPE_LLAMA3, .factor = 12, .low = 1.25, .high = 9.5,
                                 .original = 3000, .base = 10000};
    qkv_rotary_config found;
    qkv_real divisors[MOST];
    (void)state;
    divisors_of(&c, 128, divisors);
    assert_true(find(&found, c.base, c.original, divisors, 128));
    assert_true(found.factor == 12 && found.low == 1.25 && found.high == 9.5);
    assert_true(find(&found, c.base, 0, divisors, 128));
    assert_int_equal(found.original, 2400);
    assert_true(found.low == 1 && near(found.high, 7.6));
}

static void others_are_refused(void **state)
{
    static const qkv_real others[][4] = {
        {1, 1, 3, 2}, {1, 2, 1, 2}, {0, 1, 1, 8}, {1, 1, 1, 0.5}, {-1, 1, 2, 4}, {8, 1, 1, 8}};
    qkv_rotary_config found;
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (find(&found, 10000, 0, others[i], 8))
            fail_msg("others %zu: factor %g low %g high %g length %zu", i, found.factor, found.low,
                     found.high, found.original);
    const qkv_real odd[][4] = {{NAN, 1, 2, 4}, {1, 1, 1, INFINITY}, {1, INFINITY, 2, 4},
                               {1, 1, 2, NAN}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_false(find(&found, 10000, 8192, odd[i], 8));
}

static int make_context(void **state)
{
    (void)state;
    return qkv_context_create(&ctx, NULL) != QKV_OK;
}

static int free_context(void **state)
{
    (void)state;
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_parameters),
                                       cmocka_unit_test(parameters_come_back),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, make_context, free_context);
}
