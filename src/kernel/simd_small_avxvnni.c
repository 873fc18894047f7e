/* simd_small_avxvnni.c - products with weights in fewer bits by AVX_VNNI, which processors without
 * AVX-512 have: as simd_small_vnni.c, in half as wide vectors. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx2

#include "kernel/simd_small_avx2.h"

#include "kernel/simd_small.h"

void QKV_SIMD(qkv__kernels_small_avxvnni)(qkv_kernels *k)
{
    k->small = k->small_many = simd_small_small;
}

#endif
