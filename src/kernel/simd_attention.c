/* simd_attention.c - attention in vector types. */
#include "kernel/simd.h"

void QKV_SIMD(qkv__kernels_attention)(qkv_kernels *k)
{
    (void)k;
}
