/* small_weights.h - what tests of weights in fewer bits share: random matrices, rounded into memory
 * of just the size that they say they take, between guards. */
#ifndef SMALL_WEIGHTS_H
#define SMALL_WEIGHTS_H

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
#include "isas.h"
#include "kernel/small.h"
#include "products.h"

enum { GUARD = 64 };

/* The last: AVX2 as on a processor without AVX_VNNI, a bit that no table has. */
enum { WITHOUT_VNNI = 1 << 30 };
static const unsigned tables[] = {QKV_ISA_REFERENCE, QKV_ISA_AVX2, QKV_ISA_AVX2 | QKV_ISA_AVX512,
                                  QKV_ISA_AVX2 | WITHOUT_VNNI};
static const qkv_k_small_type types[] = {QKV_K_BF16, QKV_K_INT8, QKV_K_INT4};
enum { TABLES = 4, TYPES = 3, AMX = QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16_AMX };

#pragma weak qkv__kernels_small_avx2 /* a build without vector instructions lacks it */
static inline const qkv_kernels *kernels_of(unsigned table)
{
    static qkv_kernels without;
    const qkv_kernels *k = qkv__kernels(table & ~(unsigned)WITHOUT_VNNI);
    if ((table & WITHOUT_VNNI) && qkv__kernels_small_avx2 && machine_has(QKV_ISA_AVX2)) {
        without = *k;
        qkv__kernels_small_avx2(&without);
        k = &without;
    }
    return k;
}

/* From the heap, as all that kernels are given: a card cannot see the stack. */
static inline float *array_of(size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    return x;
}

static inline int32_t *ids_of(size_t n) { return (int32_t *)(void *)array_of(n); }

/* bytes between guards of 0x5c. */
static inline unsigned char *guarded(size_t bytes)
{
    unsigned char *all = malloc(bytes + 2 * GUARD);
    assert_non_null(all);
    memset(all, 0x5c, bytes + 2 * GUARD);
    return all;
}

static inline void check_guards(const unsigned char *all, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        assert_true(all[i] == 0x5c && all[GUARD + bytes + i] == 0x5c);
}

/* w (n, k) rounded, in memory of just the size that it says it takes. */
typedef struct {
    qkv_k_small w;
    unsigned char *words, *scales;
} rounded;

static inline rounded round_of(qkv_k_small_type type, const float *x, size_t n, size_t k,
                               int threads)
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

static inline void free_rounded(rounded *r)
{
    free(r->words);
    free(r->scales);
}

#endif
