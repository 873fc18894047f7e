/* test_small_rounding.c - weights in fewer bits: rounding, layout and widening. */
#include "small_weights.h"

/* Each number is as near as its type allows: half a step of its row in 8 bits, 2^-8 of itself in
 * bf16; 4 bits may cut the largest of a block off. */
static void test_rounding(void **state)
{
    fixture *f = *state;
    static const size_t widths[] = {1, 2, 3, 31, 32, 33, 64, 65, 100, 200};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < sizeof widths / sizeof *widths; s++) {
            size_t n = 1 + qkv_rng_below(&f->rng, 40), k = widths[s];
            float *x = random_array(f, n * k), *row = malloc(k * sizeof *row);
            rounded r = round_of(types[t], x, n, k, 1 + (int)(s % 3));
            double error = 0, size = 0;
            for (size_t i = 0; i < n * k; i++) {
                if (i % k == 0)
                    qkv__small_reals(&r.w, i / k, row);
                double e = fabs((double)row[i % k] - (double)x[i]);
                error += e * e;
                size += (double)x[i] * (double)x[i];
                double step = types[t] == QKV_K_BF16   ? fabs((double)x[i]) / 128
                              : types[t] == QKV_K_INT8 ? 1.0 / 127
                                                       : 1.0 / 2.5;
                assert_true(e <= 0.5001 * step);
            }
            /* Of numbers drawn evenly 4 bits lose 0.5 % of the squares or less. */
            assert_true(error <= size * (types[t] == QKV_K_INT4 ? 5e-3 : 3e-5));
            free(x);
            free(row);
            free_rounded(&r);
        }
}

/* The scale that is searched loses no more than the one that puts the largest number at 7 or -8. */
static void test_search_pays(void **state)
{
    fixture *f = *state;
    double searched = 0, plain = 0;
    for (int round = 0; round < 200; round++) {
        float x[QKV_K_INT4_BLOCK], most = 0;
        int8_t q[QKV_K_INT4_BLOCK];
        for (size_t i = 0; i < QKV_K_INT4_BLOCK; i++) {
            x[i] = (float)qkv_rng_normal(&f->rng);
            most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
        }
        float scale = qkv__small_int4(q, x, QKV_K_INT4_BLOCK), simple = most / -8;
        for (size_t i = 0; i < QKV_K_INT4_BLOCK; i++) {
            float nearest = fminf(nearbyintf(x[i] / simple), 7) * simple;
            searched += pow((double)(x[i] - (float)q[i] * scale), 2);
            plain += pow((double)(x[i] - nearest), 2);
            assert_in_range(q[i] + 8, 0, 15);
        }
    }
    assert_true(searched < 0.9 * plain);
}

/* What was rounded once stays what it is, scales included. */
static void test_rounding_twice(void **state)
{
    fixture *f = *state;
    enum { N = 200, K = 130 };
    float *x = random_array(f, N * K);
    for (size_t i = 0; i < N * K; i++)
        x[i] *= x[i] * x[i];
    for (size_t t = 0; t < TYPES; t++) {
        rounded once = round_of(types[t], x, N, K, 1);
        float *reals = malloc(N * K * sizeof *reals);
        for (size_t j = 0; j < N; j++)
            qkv__small_reals(&once.w, j, reals + j * K);
        rounded twice = round_of(types[t], reals, N, K, 1);
        for (size_t j = 0; j < N && types[t] != QKV_K_INT8; j++) {
            float again[K];
            qkv__small_reals(&twice.w, j, again);
            for (size_t i = 0; i < K; i++)
                assert_true(again[i] == reals[j * K + i]);
        }
        /* The scale of 8 bits is a quotient, whose last digit may change. */
        assert_true(types[t] == QKV_K_INT4 ||
                    memcmp(once.words, twice.words, qkv__small_word_bytes(&once.w)) == 0);
        free(reals);
        free_rounded(&once);
        free_rounded(&twice);
    }
    free(x);
}

/* Zeros stay zeros, numbers too small for a scale become zeros, what is no number stays none. */
static void test_extremes(void **state)
{
    (void)state;
    enum { K = 40 };
    static const float values[] = {0, 1e-40f, INFINITY, NAN};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            float x[2 * K] = {0}, row[K];
            x[3] = values[v];
            rounded r = round_of(types[t], x, 2, K, 1);
            qkv__small_reals(&r.w, 0, row);
            if (v < 2)
                assert_true(fabsf(row[3]) <= 1e-40f);
            else
                assert_false(isfinite(row[3]));
            qkv__small_reals(&r.w, 1, row);
            assert_true(row[3] == 0);
            free_rounded(&r);
        }
}

static void check_widening(fixture *f, const qkv_kernels *kernels, qkv_k_small_type type, size_t k)
{
    enum { N = 53, LD = 60 };
    float *w = random_array(f, N * k), row[70];
    rounded r = round_of(type, w, N, k, 1);
    for (size_t first = 0; first < N; first += QKV_K_PACKED)
        for (size_t n = 1; first + n <= N; n += 6) {
            unsigned char *all = guarded(k * LD * sizeof(float));
            float *y = (float *)(void *)(all + GUARD);
            qkv_exec e = {.threads = 2, .scratch = f->scratch};
            kernels->widen(&e, y, LD, &r.w, first, n);
            for (size_t j = 0; j < n; j++) {
                qkv__small_reals(&r.w, first + j, row);
                for (size_t p = 0; p < k; p++)
                    assert_true(y[p * LD + j] == row[p]);
            }
            for (size_t p = 0; p < k; p++)
                assert_int_equal(all[GUARD + (p * LD + n) * sizeof(float)], 0x5c);
            check_guards(all, k * LD * sizeof(float));
            free(all);
        }
    free(w);
    free_rounded(&r);
}

static void test_widening(void **state)
{
    for (size_t t = 0; t < TYPES; t++)
        for (size_t k = 1; k < 70; k += 17)
            for (size_t s = 0; s < ISAS; s++)
                if (machine_has(isa_list[s]) && table_wanted(isa_list[s]))
                    check_widening(*state, kernels_of(isa_list[s]), types[t], k);
}

/* Rows in any order, some twice: bits and scales are those of the row taken, and what fills up the
 * last group is what fills a matrix of zeros. */
static void test_taking_rows(void **state)
{
    fixture *f = *state;
    enum { N = 75, MOST = 40 };
    for (size_t t = 0; t < TYPES; t++)
        for (size_t round = 0; round < 24; round++) {
            size_t k = 1 + qkv_rng_below(&f->rng, 130), n = 1 + qkv_rng_below(&f->rng, MOST);
            float *x = random_array(f, N * k), *zeros = calloc(MOST * k, sizeof *zeros);
            rounded from = round_of(types[t], x, N, k, 1), to = round_of(types[t], x, n, k, 1);
            rounded zero = round_of(types[t], zeros, n, k, 1);
            int32_t *ids = ids_of(n);
            for (size_t i = 0; i < n; i++)
                ids[i] = (int32_t)qkv_rng_below(&f->rng, N);
            qkv_exec e = {.threads = 1 + (int)(round % 3), .scratch = f->scratch};
            const unsigned table = tables[round % TABLES];
            const unsigned isa = table_wanted(table) ? table : QKV_ISA_AVX2 | QKV_ISA_AVX512;
            kernels_of(isa)->take_small(&e, &to.w, &from.w, ids);
            for (size_t i = 0; i < n; i++) {
                float got[130], expected[130];
                qkv__small_reals(&to.w, i, got);
                qkv__small_reals(&from.w, (size_t)ids[i], expected);
                assert_memory_equal(got, expected, k * sizeof *got);
            }
            check_guards(to.words, qkv__small_word_bytes(&to.w));
            check_guards(to.scales, qkv__small_scale_bytes(&to.w));
            size_t bytes = qkv__small_group_bytes(&to.w), last = (n - 1) / QKV_K_PACKED * bytes;
            for (size_t i = 0; i < bytes; i++)
                if (i % QKV__SMALL_LINE / 4 > (n - 1) % QKV_K_PACKED)
                    assert_int_equal(to.words[GUARD + last + i], zero.words[GUARD + last + i]);
            free(x);
            free(zeros);
            free(ids);
            free_rounded(&from);
            free_rounded(&to);
            free_rounded(&zero);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_search_pays),
        cmocka_unit_test(test_rounding_twice),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_widening),
        cmocka_unit_test(test_taking_rows),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
