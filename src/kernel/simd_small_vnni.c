/* simd_small_vnni.c - products with weights in fewer bits by AVX512_VNNI: bytes of w without a sign
 * meet bytes of x with one, four a lane and instruction, and what w's offset adds is known from x
 * alone. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512

#include "kernel/simd_small_vnni.h"

#include "kernel/simd_small.h"

void QKV_SIMD(qkv__kernels_small_vnni)(qkv_kernels *k)
{
    k->small = k->small_many = simd_small_small;
}

#endif
