/* kernels.h - what the tests of the kernels share: tables to try, arrays with poison inside and
 * guards around them, comparison with formulas in double. Include after cmocka.h. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "each.h"
#include "isas.h"
#include "kernel/kernel.h"

enum { ARRAY_GUARD = 32, ARRAYS = 64 };

/* A table and a team to try. */
typedef struct {
    const char *name;
    const qkv_kernels *k;
    qkv_exec e;
} kernel_case;

typedef struct {
    float *data;
    size_t n;
} kernel_array;

static struct {
    qkv_context *ctx;
    qkv_exec e;
    qkv_rng rng;
    kernel_array arrays[ARRAYS];
    size_t used;
    const char *name; /* of the table being tried */
} kt;

static inline int kernel_setup(void **state)
{
    (void)state;
    qkv_context_options o = qkv_context_defaults();
    assert_int_equal(qkv_context_create(&kt.ctx, &o), QKV_OK);
    assert_int_equal(qkv__arena_create(&kt.e.scratch, kt.ctx, "scratch"), QKV_OK);
    return 0;
}

static inline int kernel_teardown(void **state)
{
    (void)state;
    qkv__arena_destroy(kt.e.scratch);
    assert_int_equal(qkv_context_memory(kt.ctx).live_bytes, 0);
    qkv_context_destroy(kt.ctx);
    return 0;
}

/* Calls fn for every table this machine can run, with teams of 1 and 3; the same random numbers
 * each time. */
static inline void for_each_table(void (*fn)(const kernel_case *c))
{
#define KERNEL_TABLE(name, bits) {name, bits},
    static const struct {
        const char *name;
        unsigned isa;
    } tables[] = {QKV_ISA_LIST(KERNEL_TABLE)};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (!machine_has(tables[i].isa) || !table_wanted(tables[i].isa))
            continue;
        for (int threads = 1; threads <= (widest_alone() ? 1 : 3); threads += 2) {
            kernel_case c = {tables[i].name, qkv__kernels(tables[i].isa), kt.e};
            c.e.threads = threads;
            kt.name = c.name;
            qkv_rng_init(&kt.rng, 7, 11);
            fn(&c);
            assert_int_equal(qkv__arena_used(kt.e.scratch), 0);
        }
    }
}

/* A cmocka test that runs a check on every table. */
typedef struct {
    void (*fn)(const kernel_case *c);
} kernel_check;

static inline void try_tables(void **state)
{
    const kernel_check *check = *state;
    for_each_table(check->fn);
}

#define KERNEL_CHECK(f) {#f, try_tables, NULL, NULL, &(kernel_check){f}}

static inline double rnd(void) { return qkv_rng_normal(&kt.rng); }
static inline bool coin(void) { return qkv_rng_below(&kt.rng, 2) != 0; }

/* 0, 1, odd, around the widths of vectors and of blocks, large enough for a team. */
static inline size_t random_size(void)
{
    static const size_t sizes[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1023, 2049, 4100};
    size_t i = qkv_rng_below(&kt.rng, 20);
    return i < 16 ? sizes[i] : i == 16 ? 20011 : 1 + qkv_rng_below(&kt.rng, 300);
}

/* An array full of NaN, with guards on both sides that free_arrays looks at. */
static inline float *poisoned(size_t n)
{
    assert_true(kt.used < ARRAYS);
    float *p = malloc((n + 2 * ARRAY_GUARD) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n + 2 * ARRAY_GUARD; i++)
        p[i] = i < ARRAY_GUARD || i >= n + ARRAY_GUARD ? 12345.5f : NAN;
    kt.arrays[kt.used++] = (kernel_array){p, n};
    return p + ARRAY_GUARD;
}

static inline float *randoms(size_t n)
{
    float *p = poisoned(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)rnd();
    return p;
}

static inline float *copied(const float *x, size_t n)
{
    float *p = poisoned(n);
    for (size_t i = 0; i < n; i++)
        p[i] = x[i];
    return p;
}

/* What an output holds before the call: numbers if the kernel adds to it, else poison. */
static inline float *output(size_t n, bool acc) { return acc ? randoms(n) : poisoned(n); }

static inline void free_arrays(void)
{
    while (kt.used) {
        kernel_array a = kt.arrays[--kt.used];
        for (size_t i = 0; i < ARRAY_GUARD; i++) {
            if (a.data[i] != 12345.5f || a.data[ARRAY_GUARD + a.n + i] != 12345.5f)
                fail_msg("%s: wrote outside an array of %zu", kt.name, a.n);
        }
        free(a.data);
    }
}

/* |got - want| <= tolerance * max(|want|, scale); NaN only where NaN is wanted. */
static inline void near_at(const char *what, size_t i, float got, double want, double tolerance,
                           double scale)
{
    if (isnan(want) && isnan(got))
        return;
    if (isinf(want) && (double)got == want)
        return;
    double size = fabs(want) > scale ? fabs(want) : scale;
    if (!(fabs((double)got - want) <= tolerance * size))
        fail_msg("%s: %s[%zu] is %.9g, not %.9g", kt.name, what, i, (double)got, want);
}

#endif
