/* simd.h - the vector types in which simd_*.c are written, once for every instruction set.
 *
 * vf is VF floats, vi as many 32-bit words, vm a mask of VF lanes. Arithmetic that C's own
 * operators give (+ - * /) is written with them: vf is a GNU vector type. A file simd_x.c ends with
 *     void QKV_SIMD(qkv__kernels_x)(qkv_kernels *k) { k->... = ...; }
 * and everything else in it is static. Tails use vf_load_n / vf_store_n (n < VF lanes). vd is
 * VD = VF/2 doubles. More functions: simd_math.h (activations), simd_random.h (dropout). */
#ifndef QKV_SIMD_H
#define QKV_SIMD_H

#include "kernel/kernel.h"

#define QKV_SIMD_PASTE2(a, b) a##_##b
#define QKV_SIMD_PASTE(a, b) QKV_SIMD_PASTE2(a, b)
#define QKV_SIMD(name) QKV_SIMD_PASTE(name, QKV_SIMD_NAME) /* name_avx2, name_neon */

#if defined(QKV_SIMD_avx512)
#include "kernel/simd_avx512.h"
#elif defined(QKV_SIMD_avx2)
#include "kernel/simd_avx2.h"
#elif defined(QKV_SIMD_neon)
#include "kernel/simd_neon.h"
#else
#error "simd.h needs an instruction set"
#endif

static inline size_t at_most(size_t n, size_t most) { return n < most ? n : most; }

/* The first n <= VF lanes. A loop body written once with these and called with the constant VF,
 * then with what is left, is a plain load and store in the loop and a masked one at the end. */
static inline vf vf_get(const float *p, size_t n)
{
    return n == VF ? vf_load(p) : vf_load_n(p, n);
}
static inline void vf_put(float *p, vf x, size_t n)
{
    if (n == VF)
        vf_store(p, x);
    else
        vf_store_n(p, x, n);
}

#define QKV_INLINE static inline __attribute__((always_inline))

/* Numbers in a cache line. Memory that one thread writes ends where a line does: two threads that
 * write the same line wait for each other. */
enum { QKV__LINE = 16 };
static inline size_t qkv__whole_lines(size_t n)
{
    return (n + QKV__LINE - 1) / QKV__LINE * QKV__LINE;
}

/* Before a loop whose bounds are constants once its function is inlined; before another one. */
#if defined(__clang__)
#define QKV_UNROLL _Pragma("unroll")
#define QKV_UNROLL_4 _Pragma("unroll 4")
#else
#define QKV_UNROLL _Pragma("GCC unroll 16")
#define QKV_UNROLL_4 _Pragma("GCC unroll 4")
#endif

/* exp(x) to 1 ulp or so for x in [-87.3, 88.7]; 0 below, inf above; exp(NaN) is NaN.
 * Cephes' reduction x = n ln 2 + r with a degree-6 polynomial on |r| <= ln(2)/2. */
static inline vf vf_exp(vf x)
{
    x = vf_min(vf_set1(89.0f), x); /* keeps NaN, and inf - inf from making one */
    vf n = vf_round(x * vf_set1(1.44269504088896341f));
    vf r = vf_fnma(n, vf_set1(0.693359375f), x);
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(p, r * r, r) + vf_set1(1.0f);
    return vf_scale2(p, n, x);
}

/* 2^x for x up to 126, 0 below -126; relative error below 1e-7. */
static inline vf vf_exp2(vf x)
{
    vf n = vf_round(x), r = x - n;
    vf p = vf_set1(1.5353362e-4f);
    p = vf_fma(p, r, vf_set1(1.33988739e-3f));
    p = vf_fma(p, r, vf_set1(9.61843692e-3f));
    p = vf_fma(p, r, vf_set1(5.55033237e-2f));
    p = vf_fma(p, r, vf_set1(2.40226477e-1f));
    p = vf_fma(p, r, vf_set1(6.93147182e-1f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vf_scale2_near(p, n, x);
}

/* qkv__philox with one counter in every lane; c holds the counters, then the words. */
static inline void vi_philox(vi c[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        vi low0, high0, low2, high2;
        vi_mul_wide(&low0, &high0, c[0], vi_set1(0xD2511F53u));
        vi_mul_wide(&low2, &high2, c[2], vi_set1(0xCD9E8D57u));
        c[0] = vi_xor(vi_xor(high2, c[1]), vi_set1(key0));
        c[1] = low2;
        c[2] = vi_xor(vi_xor(high0, c[3]), vi_set1(key1));
        c[3] = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

#endif
