/* simd_small.c - products with weights in fewer bits by AVX2 and by NEON: bytes are multiplied and
 * added in pairs of 16 bits. AVX2's saturate, so of 8 bits one factor gives its sign to the other
 * first: 2 x 127 x 128 is 32512. */
#include "kernel/simd.h"

#if defined(QKV_SIMD_avx2) || defined(QKV_SIMD_neon)

#ifdef QKV_SIMD_avx2
#include "kernel/simd_small_avx2.h"
#else
#include "kernel/simd_small_neon.h"
#endif

#include "kernel/simd_small.h"

void QKV_SIMD(qkv__kernels_small)(qkv_kernels *k)
{
    k->small = k->small_many = simd_small_small;
}

#endif
