/* simd_small.c - products with weights in fewer bits by AVX2: bytes are multiplied and added in
 * pairs of 16 bits. These saturate, so of 8 bits one factor gives its sign to the other first:
 * 2 x 127 x 128 is 32512. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx2

#include "kernel/simd_small_avx2.h"

#include "kernel/simd_small.h"

void QKV_SIMD(qkv__kernels_small)(qkv_kernels *k)
{
    k->small = k->small_many = simd_small_small;
}

#endif
