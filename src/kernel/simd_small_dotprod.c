/* simd_small_dotprod.c - products with weights in fewer bits by the dot products of ARMv8.2, which
 * most 64-bit Arm processors since 2018 have. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_neon

#include "kernel/simd_small_neon.h"

#include "kernel/simd_small.h"

void QKV_SIMD(qkv__kernels_small_dotprod)(qkv_kernels *k)
{
    k->small = k->small_many = simd_small_small;
}

#endif
