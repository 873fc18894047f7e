/* test_small.c - weights in fewer bits: rounding and layout, and the products of every table
 * against sums in double of what the weights and x stand for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "each.h"
#include "kernel/small.h"

enum { GUARD = 64 };

typedef struct {
    qkv_context *ctx;
    qkv__arena *scratch;
    qkv_rng rng;
} fixture;

static const unsigned tables[] = {QKV_ISA_REFERENCE, QKV_ISA_AVX2, QKV_ISA_AVX2 | QKV_ISA_AVX512};
static const qkv_k_small_type types[] = {QKV_K_BF16, QKV_K_INT8, QKV_K_INT4};
enum { TABLES = 3, TYPES = 3 };

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv__arena_create(&f->scratch, f->ctx, "scratch"), QKV_OK);
    qkv_rng_init(&f->rng, 1, 2);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qkv__arena_destroy(f->scratch);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
    free(f);
    return 0;
}

static float *random_array(fixture *f, size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * qkv_rng_uniform(&f->rng) - 1);
    return x;
}

/* bytes between guards of 0x5c. */
static unsigned char *guarded(size_t bytes)
{
    unsigned char *all = malloc(bytes + 2 * GUARD);
    assert_non_null(all);
    memset(all, 0x5c, bytes + 2 * GUARD);
    return all;
}

static void check_guards(const unsigned char *all, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        assert_true(all[i] == 0x5c && all[GUARD + bytes + i] == 0x5c);
}

/* w (n, k) rounded, in memory of just the size that it says it takes. */
typedef struct {
    qkv_k_small w;
    unsigned char *words, *scales;
} rounded;

static rounded round_of(qkv_k_small_type type, const float *x, size_t n, size_t k, int threads)
{
    rounded r = {.w = {.type = type, .n = n, .k = k}};
    r.words = guarded(qkv__small_word_bytes(&r.w));
    r.scales = guarded(qkv__small_scale_bytes(&r.w));
    r.w.words = r.words + GUARD;
    r.w.scales = r.scales + GUARD;
    qkv__small_round_all(&r.w, x, threads);
    check_guards(r.words, qkv__small_word_bytes(&r.w));
    check_guards(r.scales, qkv__small_scale_bytes(&r.w));
    return r;
}

static void free_rounded(rounded *r)
{
    free(r->words);
    free(r->scales);
}

/* ---- rounding ------------------------------------------------------------------------------ */

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

static void test_put_and_take(void **state)
{
    fixture *f = *state;
    enum { N = 21, K = 77, SCALES = 3 };
    for (size_t t = 1; t < TYPES; t++) {
        float x[N * K] = {0};
        rounded r = round_of(types[t], x, N, K, 1);
        int most = types[t] == QKV_K_INT8 ? 128 : 8;
        int8_t q[N][K], got[K];
        float scale[N][SCALES], found[SCALES];
        assert_int_equal(qkv__small_row_scales(&r.w), types[t] == QKV_K_INT8 ? 1 : SCALES);
        for (size_t j = 0; j < N; j++) {
            for (size_t i = 0; i < K; i++)
                q[j][i] = (int8_t)((int)qkv_rng_below(&f->rng, 2 * (uint32_t)most) - most);
            for (size_t i = 0; i < SCALES; i++)
                scale[j][i] = (float)(1 + qkv_rng_below(&f->rng, 100)) / 16;
            qkv__small_put(&r.w, j, q[j], scale[j]);
        }
        for (size_t j = 0; j < N; j++) {
            float reals[K];
            qkv__small_take(&r.w, j, got, found);
            qkv__small_reals(&r.w, j, reals);
            assert_memory_equal(got, q[j], sizeof got);
            for (size_t i = 0; i < K; i++) {
                float s = scale[j][types[t] == QKV_K_INT8 ? 0 : i / QKV_K_INT4_BLOCK];
                assert_true(reals[i] == s * (float)q[j][i]);
            }
            assert_memory_equal(found, scale[j], qkv__small_row_scales(&r.w) * sizeof *found);
        }
        check_guards(r.words, qkv__small_word_bytes(&r.w));
        free_rounded(&r);
    }
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

/* ---- products ------------------------------------------------------------------------------ */

/* What the product makes of a row of x. */
static void round_x(double *out, const float *x, size_t k, qkv_k_small_type type)
{
    size_t block = qkv__small_kinds[type].block;
    for (size_t at = 0; at < k; at += block) {
        size_t end = at + block < k ? at + block : k;
        float most = 0;
        for (size_t i = at; i < end; i++)
            most = fmaxf(most, fabsf(x[i]));
        float inverse = 127 / most;
        for (size_t i = at; i < end; i++)
            out[i] = type == QKV_K_BF16     ? (double)x[i]
                     : !isfinite(inverse) ? 0
                                          : (double)(nearbyintf(x[i] * inverse) * (most / 127));
    }
}

typedef struct {
    unsigned isa;
    int threads;
    qkv_k_small_type type;
    size_t m, n, k, pad;
    bool bias;
} product_case;

static void check_product(fixture *f, const product_case *c)
{
    size_t ldx = c->k + c->pad, ldy = c->n + c->pad, bytes = c->m * ldy * sizeof(float);
    float *x = random_array(f, c->m * ldx), *w = random_array(f, c->n * c->k);
    float *bias = random_array(f, c->n), *row = malloc(c->k * sizeof *row);
    double *rounded_x = malloc(c->k * sizeof *rounded_x);
    for (size_t i = 0; i < c->m * ldx; i++)
        x[i] = i % ldx < c->k ? x[i] : NAN; /* what lies behind a row is not read */
    unsigned char *all = guarded(bytes);
    uint32_t untouched;
    memset(&untouched, 0x5c, sizeof untouched);
    float *y = (float *)(void *)(all + GUARD);
    rounded r = round_of(c->type, w, c->n, c->k, 1);
    qkv_exec e = {.threads = c->threads, .scratch = f->scratch};
    qkv__kernels(c->isa)->small(&e, y, ldy, x, ldx, &r.w, c->bias ? bias : NULL, c->m);
    check_guards(all, bytes);
    for (size_t i = 0; i < c->m; i++) {
        round_x(rounded_x, x + i * ldx, c->k, c->type);
        for (size_t j = 0; j < ldy; j++) {
            if (j >= c->n) {
                assert_memory_equal(&y[i * ldy + j], &untouched, sizeof untouched);
                continue;
            }
            double sum = c->bias ? (double)bias[j] : 0, size = fabs(sum);
            qkv__small_reals(&r.w, j, row);
            for (size_t p = 0; p < c->k; p++) {
                sum += rounded_x[p] * (double)row[p];
                size += fabs(rounded_x[p] * (double)row[p]);
            }
            double allowed = FLT_EPSILON * (4 + sqrt((double)c->k)) * size;
            double got = (double)y[i * ldy + j];
            if (!(fabs(got - sum) <= allowed))
                fail_msg("isa %x, type %d, %zu x %zu x %zu, [%zu, %zu]: got %.9g, expected %.9g "
                         "within %.2g", c->isa, (int)c->type, c->m, c->n, c->k, i, j, got, sum,
                         allowed);
        }
    }
    free(x);
    free(w);
    free(bias);
    free(row);
    free(rounded_x);
    free(all);
    free_rounded(&r);
}

/* Every height of a tile, one and many of them, groups left over and cut anywhere, every way to
 * share the work among threads. */
static void test_products(void **state)
{
    fixture *f = *state;
    static const size_t widths[] = {1, 2, 3, 8, 31, 32, 33, 63, 64, 65, 127, 130, 193, 256};
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES; s++)
            for (size_t m = 1; m <= 20; m++)
                for (unsigned i = 0; i < 6; i++) {
                    product_case c = {tables[t], 1 + (int)(i % 3), types[s], m,
                                      1 + qkv_rng_below(&f->rng, 200),
                                      widths[qkv_rng_below(&f->rng, 14)], i & 2 ? 5 : 0, i & 1};
                    check_product(f, &c);
                }
}

static void test_big_products(void **state)
{
    fixture *f = *state;
    static const size_t shapes[][3] = {{1, 2003, 768}, {8, 515, 3072}, {400, 50, 96},
                                       {1300, 17, 500}, {67, 211, 31}};
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES; s++)
            for (size_t i = 0; i < 5; i++) {
                product_case c = {tables[t], 1 + (int)(i % 3) * 2, types[s], shapes[i][0],
                                  shapes[i][1], shapes[i][2], i, true};
                check_product(f, &c);
            }
}

/* A row of x that holds no number gives none, and other rows do not notice. */
static void test_not_a_number(void **state)
{
    fixture *f = *state;
    enum { M = 9, N = 20, K = 130 };
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES; s++)
            for (size_t v = 0; v < 3; v++) {
                float *x = random_array(f, M * K), *w = random_array(f, N * K), y[M * N];
                rounded r = round_of(types[s], w, N, K, 1);
                qkv_exec e = {.threads = 2, .scratch = f->scratch};
                x[2 * K + 70] = values[v];
                qkv__kernels(tables[t])->small(&e, y, N, x, K, &r.w, NULL, M);
                for (size_t i = 0; i < M * N; i++)
                    assert_int_equal(isfinite(y[i]) != 0, i / N != 2);
                free(x);
                free(w);
                free_rounded(&r);
            }
}

/* A row's result does not depend on the rows beside it, nor on threads. */
static void test_rows_stand_alone(void **state)
{
    fixture *f = *state;
    enum { M = 13, N = 100, K = 200 };
    float *x = random_array(f, M * K), *w = random_array(f, N * K);
    float *all = malloc(M * N * sizeof *all), one[N];
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES; s++) {
            rounded r = round_of(types[s], w, N, K, 2);
            qkv_exec e = {.threads = 3, .scratch = f->scratch};
            const qkv_kernels *k = qkv__kernels(tables[t]);
            k->small(&e, all, N, x, K, &r.w, NULL, M);
            e.threads = 1;
            for (size_t i = 0; i < M; i++) {
                k->small(&e, one, N, x + i * K, K, &r.w, NULL, 1);
                assert_memory_equal(one, all + i * N, sizeof one);
            }
            free_rounded(&r);
        }
    free(x);
    free(w);
    free(all);
}

static void test_embedding(void **state)
{
    fixture *f = *state;
    enum { ROWS = 37, C = 70, N = 9 };
    float *w = random_array(f, ROWS * C), *places = random_array(f, N * C), y[N * C], row[C];
    int32_t ids[N], positions[N];
    for (size_t s = 0; s < TYPES; s++) {
        rounded r = round_of(types[s], w, ROWS, C, 1);
        qkv_exec e = {.threads = 2, .scratch = f->scratch};
        for (size_t i = 0; i < N; i++) {
            ids[i] = (int32_t)qkv_rng_below(&f->rng, ROWS);
            positions[i] = (int32_t)(N - 1 - i);
        }
        for (int with = 0; with < 2; with++) {
            qkv__kernels(QKV_ISA_AVX2)->embed_small(&e, y, ids, &r.w, 3, with ? positions : NULL,
                                                    with ? places : NULL, N);
            for (size_t i = 0; i < N * C; i++) {
                if (i % C == 0)
                    qkv__small_reals(&r.w, (size_t)ids[i / C], row);
                float place = with ? places[(N - 1 - i / C) * C + i % C] : 0;
                assert_true(y[i] == 3 * row[i % C] + place);
            }
        }
        free_rounded(&r);
    }
    free(w);
    free(places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),      cmocka_unit_test(test_search_pays),
        cmocka_unit_test(test_put_and_take),  cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rounding_twice),
        cmocka_unit_test(test_products),      cmocka_unit_test(test_big_products),
        cmocka_unit_test(test_not_a_number),  cmocka_unit_test(test_rows_stand_alone),
        cmocka_unit_test(test_embedding),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
