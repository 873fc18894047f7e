/* test_gemm.c - gemm, gemv and packed of every table against sums in double, of operands that are
 * rounded to bf16 first where the table does that.
 *
 * Each entry of c is a sum of k products, so rounding may move it by a few eps times the sum
 * of the products' sizes: that, and not the result, is what the error is measured by. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "each.h"
#include "isas.h"
#include "io/convert.h"
#include "kernel/kernel.h"
#include "products.h"

enum { GUARD = 16 };

static const unsigned all_tables[] = {QKV_ISA_LIST(ISA_BITS)
                                      QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16,
                                      QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16_AMX,
                                      QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16_LIBRARY};
/* Our own product of every shape, which tables have where it is the fastest: a bit that no table
 * has, beside its instruction set. A build without vector instructions lacks them. */
enum { OWN = 1 << 30 };
#pragma weak qkv__own_gemm_avx2
#pragma weak qkv__own_gemm_avx512
#pragma weak qkv__own_gemm_neon
static const struct {
    unsigned isa;
    qkv_k_gemm_fn *fn;
} own_gemm[] = {{QKV_ISA_AVX2, qkv__own_gemm_avx2},
                {QKV_ISA_AVX2 | QKV_ISA_AVX512, qkv__own_gemm_avx512},
                {QKV_ISA_NEON, qkv__own_gemm_neon}};
enum { OWN_COUNT = sizeof own_gemm / sizeof *own_gemm };

/* Those that this machine has; own ones last, after table_count. */
static unsigned tables[sizeof all_tables / sizeof *all_tables + OWN_COUNT];
static size_t table_count, gemm_count;
static const int teams[] = {1, 2, 3};
static const size_t awkward[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 47, 64, 97, 127, 131, 257};

static int gemm_setup(void **state)
{
    int failed = setup(state);
    fixture *f = *state;
    bool library = qkv__products_exist(f->ctx, QKV__PRODUCTS_LIBRARY); /* else it is f32's */
    table_count = 0;
    for (size_t t = 0; t < sizeof all_tables / sizeof *all_tables; t++) {
        if (table_wanted(all_tables[t]) &&
            machine_has(all_tables[t] & ~(unsigned)QKV__BF16_ANY) &&
            (library || !(all_tables[t] & QKV__BF16_LIBRARY))) {
            tables[table_count++] = all_tables[t];
        }
    }
    gemm_count = table_count;
    for (size_t t = 0; t < OWN_COUNT && !widest_alone(); t++)
        if (own_gemm[t].fn && machine_has(own_gemm[t].isa))
            tables[gemm_count++] = own_gemm[t].isa | OWN;
    return failed;
}

static qkv_k_gemm_fn *gemm_of(unsigned table, const qkv_k_gemm_args *g)
{
    for (size_t t = 0; t < OWN_COUNT && g->k; t++)
        if (table == (own_gemm[t].isa | OWN))
            return own_gemm[t].fn;
    return qkv__kernels(table & ~(unsigned)OWN)->gemm;
}

static float *nan_array(size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        x[i] = NAN;
    }
    return x;
}

/* Of programs that test a device's kernels (tests/cuda/tables.c). */
extern bool kernels_alone_write __attribute__((weak));

/* was, bias: what the sum has beside the products; a card may add the bias last. Steps are from one
 * element of a row (column) to the next. */
static void check_entry(double got, const float *a, size_t step_a, const float *b, size_t step_b,
                        size_t k, double was, double bias)
{
    const bool card = &kernels_alone_write && !widest_alone(); /* that is the emulator's setting */
    double sum = was + bias, size = card ? fabs(was) + fabs(bias) : fabs(sum);
    for (size_t i = 0; i < k; i++) {
        double p = (double)a[i * step_a] * (double)b[i * step_b];
        sum += p;
        size += fabs(p);
    }
    double allowed = FLT_EPSILON * (3 + sqrt((double)k)) * size;
    if (!(fabs(got - sum) <= allowed)) {
        fail_msg("got %.9g, expected %.9g within %.2g", got, sum, allowed);
    }
}

/* What a table that rounds to bf16 makes of x, in products that are large enough. */
static void round_operands(float *x, size_t n, unsigned isa, const qkv_k_gemm_args *g)
{
    bool rounded = table_rounds(isa) && g->m * g->n * g->k >= QKV__BF16_LEAST;
    for (size_t i = 0; i < n && rounded; i++) {
        x[i] = qkv__from_bf16(qkv__to_bf16(x[i]));
    }
}

typedef struct {
    size_t pad_a, pad_b, pad_c; /* how much longer rows are than they need be */
    bool bias;
    size_t entries; /* how many to check; 0: all */
} layout;

/* n random numbers that end where memory begins that may not be read; of a card, which reads no
 * such pages, an array as any other. */
typedef struct {
    float *x;
    unsigned char *pages; /* NULL: none */
    size_t bytes;
} fenced;

static fenced fenced_array(fixture *f, size_t n)
{
    if (on_a_device() && !widest_alone())
        return (fenced){.x = random_array(f, n)};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * sizeof(float);
    const size_t whole = (bytes + page - 1) / page * page;
    fenced a = {.bytes = whole + page};
    a.pages = mmap(NULL, a.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(a.pages != MAP_FAILED);
    assert_int_equal(mprotect(a.pages + whole, page, PROT_NONE), 0);
    a.x = (float *)(void *)(a.pages + whole - bytes);
    random_fill(f, a.x, n);
    return a;
}

static void free_fenced(fenced *a)
{
    if (a->pages)
        assert_int_equal(munmap(a->pages, a->bytes), 0);
    else
        free(a->x);
}

static void check_gemm(fixture *f, unsigned isa, int threads, qkv_k_gemm_args g, layout l)
{
    size_t rows_a = g.ta ? g.k : g.m, rows_b = g.tb ? g.n : g.k;
    g.lda = (g.ta ? g.m : g.k) + l.pad_a;
    g.ldb = (g.tb ? g.k : g.n) + l.pad_b;
    g.ldc = g.n + l.pad_c;
    fenced left = fenced_array(f, rows_a * g.lda), right = fenced_array(f, rows_b * g.ldb);
    float *a = left.x, *b = right.x, *bias = random_array(f, g.n);
    for (size_t i = 0; i < g.n; i++) /* not to be lost in the rounding of long sums */
        bias[i] *= 64;
    g.bias = l.bias ? bias : NULL;
    size_t size = g.m * g.ldc + 2 * GUARD;
    float *before = nan_array(size), *c = malloc(size * sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; g.acc && i < g.m * g.n; i++) {
        before[GUARD + i / g.n * g.ldc + i % g.n] = (float)qkv_rng_uniform(&f->rng);
    }
    memcpy(c, before, size * sizeof *c);

    qkv_exec e = {.threads = threads, .scratch = f->scratch};
    gemm_of(isa, &g)(&e, c + GUARD, a, b, &g);
    round_operands(a, rows_a * g.lda, isa, &g);
    round_operands(b, rows_b * g.ldb, isa, &g);

    for (size_t i = 0; i < size; i++) {
        size_t at = i - GUARD;
        bool inside = i >= GUARD && at < g.m * g.ldc && at % g.ldc < g.n;
        if (!inside && memcmp(&c[i], &before[i], sizeof *c) != 0) {
            fail_msg("isa %x: wrote outside c, at %zu of %zu", isa, i, size);
        }
    }
    size_t count = l.entries ? l.entries : g.m * g.n;
    for (size_t t = 0; t < count; t++) {
        size_t i = t / g.n, j = t % g.n;
        if (l.entries) {
            i = qkv_rng_below(&f->rng, (uint32_t)g.m);
            j = qkv_rng_below(&f->rng, (uint32_t)g.n);
        }
        size_t at = GUARD + i * g.ldc + j;
        double was = g.acc ? (double)before[at] : 0, added = l.bias ? (double)bias[j] : 0;
        check_entry(c[at], a + (g.ta ? i : i * g.lda), g.ta ? g.lda : 1,
                    b + (g.tb ? j * g.ldb : j), g.tb ? 1 : g.ldb, g.k, was, added);
    }
    free_fenced(&left);
    free_fenced(&right);
    free(bias);
    free(before);
    free(c);
}

/* Bit 0: transposed a, 1: transposed b, 2: accumulate, 3: bias, 4: rows longer than needed. */
static void check_variant(fixture *f, unsigned isa, int threads, size_t m, size_t n, size_t k,
                          unsigned bits, size_t entries)
{
    qkv_k_gemm_args g = {.ta = bits & 1, .tb = bits & 2, .acc = bits & 4, .m = m, .n = n, .k = k};
    layout l = {.bias = bits & 8, .entries = entries};
    if (bits & 16) {
        l.pad_a = 1 + qkv_rng_below(&f->rng, 9);
        l.pad_b = 1 + qkv_rng_below(&f->rng, 9);
        l.pad_c = 1 + qkv_rng_below(&f->rng, 9);
    }
    check_gemm(f, isa, threads, g, l);
}

static size_t awkward_size(fixture *f)
{
    return awkward[qkv_rng_below(&f->rng, sizeof awkward / sizeof *awkward)];
}

static void test_awkward_shapes(void **state)
{
    fixture *f = *state;
    for (size_t t = 0; t < gemm_count; t++) {
        for (unsigned i = 0; i < 32 * 4; i++) {
            check_variant(f, tables[t], teams[i % 3], awkward_size(f), awkward_size(f),
                          awkward_size(f), i % 32, 0);
        }
    }
}

/* Long in one direction at a time, and all three: where products are split. */
static void test_big_shapes(void **state)
{
    static const size_t shapes[][3] = {
        {1031, 130, 67}, {66, 3001, 130}, {70, 129, 3072}, {257, 768, 3072}, {1024, 128, 512},
        {512, 1543, 384}, {9, 4099, 515}, {1, 1000, 1000}, {300, 1, 700}, {768, 300, 1},
        {1000, 70, 384}, {33, 2500, 900}, {70, 90, 1101},
    };
    fixture *f = *state;
    for (size_t t = 0; t < gemm_count; t++) {
        unsigned step = tables[t] == QKV_ISA_REFERENCE ? 16 : widest_alone() ? 11 : 3;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            for (unsigned bits = 0; bits < 32; bits++) {
                if (bits % step != s % 3) {
                    continue;
                }
                check_variant(f, tables[t], teams[bits % 3], shapes[s][0], shapes[s][1],
                              shapes[s][2], bits, 100);
            }
        }
    }
}

/* Operands of more numbers than AMX lays out at a time: such products are cut, across k, m or n. */
static void test_cut(void **state)
{
    static const size_t shapes[][3] = {{40, 41, 230001}, {230001, 40, 81}, {39, 230001, 80}};
    fixture *f = *state;
    for (size_t t = 0; t < table_count; t++)
        for (size_t s = 0; tables[t] & QKV__BF16_AMX && s < 3; s++)
            for (unsigned bits = (unsigned)s; bits < 32; bits += 5)
                check_variant(f, tables[t], teams[bits % 3], shapes[s][0], shapes[s][1],
                              shapes[s][2], bits, 400);
}

static void test_empty_sum(void **state)
{
    fixture *f = *state;
    for (size_t t = 0; t < gemm_count; t++) {
        for (unsigned bits = 0; bits < 32; bits++) {
            check_variant(f, tables[t], 2, 5, 7, 0, bits, 0);
            check_variant(f, tables[t], 2, 8192, 1, 0, bits, 0);
        }
    }
}

/* The same call gives the same bits, wherever its operands lie. */
static void test_repeats(void **state)
{
    enum { M = 200, N = 300, K = 1000 };
    fixture *f = *state;
    float *a = random_array(f, M * K + 8), *b = random_array(f, N * K + 8);
    float *c = nan_array(M * N), *again = nan_array(M * N);
    for (unsigned bits = 0; bits < 4; bits++) {
        qkv_k_gemm_args g = {.ta = bits & 1, .tb = bits & 2, .m = M, .n = N, .k = K, .ldc = N};
        g.lda = g.ta ? M : K;
        g.ldb = g.tb ? K : N;
        for (size_t t = 0; t < gemm_count; t++) {
            qkv_k_gemm_fn *gemm = gemm_of(tables[t], &g);
            qkv_exec e = {.threads = 2, .scratch = f->scratch};
            gemm(&e, c, a, b, &g);
            memmove(a + 1, a, M * K * sizeof *a);
            memmove(b + 3, b, N * K * sizeof *b);
            gemm(&e, again, a + 1, b + 3, &g);
            assert_memory_equal(c, again, M * N * sizeof *c);
            memmove(a, a + 1, M * K * sizeof *a);
            memmove(b, b + 3, N * K * sizeof *b);
        }
    }
    free(a);
    free(b);
    free(c);
    free(again);
}

/* w as `packed` reads it, by the table's own pack, GUARD elements into memory to be freed. */
static float *pack(const qkv_kernels *kernels, const qkv_exec *e, const float *w, size_t n,
                   size_t k)
{
    size_t groups = (n + QKV_K_PACKED - 1) / QKV_K_PACKED, size = groups * k * QKV_K_PACKED;
    float *all = nan_array(size + 2 * GUARD);
    uint32_t untouched;
    memcpy(&untouched, all, sizeof untouched);
    kernels->pack(e, all + GUARD, w, n, k);
    for (size_t i = 0; i < size; i++) {
        size_t row = i / (k * QKV_K_PACKED) * QKV_K_PACKED + i % QKV_K_PACKED;
        float want = row < n ? w[row * k + i / QKV_K_PACKED % k] : 0;
        assert_memory_equal(&all[GUARD + i], &want, sizeof want);
    }
    for (size_t i = 0; i < GUARD; i++) {
        assert_memory_equal(&all[i], &untouched, sizeof untouched);
        assert_memory_equal(&all[GUARD + size + i], &untouched, sizeof untouched);
    }
    return all;
}

/* gemv, or packed. */
static void check_gemv(fixture *f, unsigned isa, int threads, size_t m, size_t n, size_t k,
                       bool with_bias, size_t pad, bool packed)
{
    size_t ldx = k + pad, ldy = n + pad, size = m * ldy + 2 * GUARD;
    float *x = random_array(f, m * ldx), *w = random_array(f, n * k);
    float *bias = random_array(f, n), *y = nan_array(size);
    uint32_t untouched;
    memcpy(&untouched, y, sizeof untouched);
    qkv_exec e = {.threads = threads, .scratch = f->scratch};
    const qkv_kernels *kernels = qkv__kernels(isa);
    float *copy = packed ? pack(kernels, &e, w, n, k) : NULL;
    qkv_k_gemv_fn *fn = packed ? kernels->packed : kernels->gemv;
    fn(&e, y + GUARD, ldy, x, ldx, packed ? copy + GUARD : w, with_bias ? bias : NULL, m, n, k);
    free(copy);
    for (size_t i = 0; i < size; i++) {
        size_t at = i - GUARD;
        if (i >= GUARD && at < m * ldy && at % ldy < n) {
            size_t row = at / ldy, j = at % ldy;
            check_entry(y[i], x + row * ldx, 1, w + j * k, 1, k, 0,
                        with_bias ? (double)bias[j] : 0);
        } else if (memcmp(&y[i], &untouched, sizeof untouched) != 0) {
            fail_msg("isa %x: wrote outside y, at %zu of %zu", isa, i, size);
        }
    }
    free(x);
    free(w);
    free(bias);
    free(y);
}

static void test_gemv(void **state)
{
    static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 32};
    fixture *f = *state;
    for (size_t t = 0; t < table_count; t++) {
        for (size_t s = 0; s < sizeof rows / sizeof *rows; s++) {
            for (unsigned i = 0; i < 12; i++) {
                check_gemv(f, tables[t], teams[i % 3], rows[s], awkward_size(f), awkward_size(f),
                           i & 1, i & 2 ? 5 : 0, false);
            }
            check_gemv(f, tables[t], 2, rows[s], 1009, 768, true, 0, false);
        }
    }
}

/* Every height of a tile, one and many of them, with 1 to 3 groups of columns left over, the last
 * one cut anywhere, rows of x in more blocks than one, and copied into tiles. */
static void test_packed(void **state)
{
    static const size_t big[][3] = {
        {300, 97, 700}, {5, 2001, 64}, {20, 50, 9000}, {75, 1001, 1600}};
    fixture *f = *state;
    for (size_t t = 0; t < table_count; t++) {
        for (size_t m = 1; m <= 20; m++) {
            for (unsigned i = 0; i < 6; i++) {
                check_gemv(f, tables[t], teams[i % 3], m, 1 + qkv_rng_below(&f->rng, 130),
                           awkward_size(f), i & 1, i & 2 ? 5 : 0, true);
            }
        }
        for (size_t s = 0; s < 3 * sizeof big / sizeof *big; s++) {
            check_gemv(f, tables[t], teams[s % 3], big[s / 3][0], big[s / 3][1], big[s / 3][2],
                       true, s & 1, true);
        }
        for (int threads = 1; threads <= 17; threads += 4) {
            check_gemv(f, tables[t], threads, 67, 211, 31, true, 0, true);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_awkward_shapes), cmocka_unit_test(test_big_shapes),
        cmocka_unit_test(test_cut),            cmocka_unit_test(test_empty_sum),
        cmocka_unit_test(test_repeats),        cmocka_unit_test(test_gemv),
        cmocka_unit_test(test_packed),
    };
    return run_each(tests, sizeof tests / sizeof *tests, gemm_setup, teardown);
}
