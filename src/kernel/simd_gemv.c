/* simd_gemv.c - gemv in vector types. */
#include "kernel/simd.h"

void QKV_SIMD(qkv__kernels_gemv)(qkv_kernels *k)
{
    (void)k;
}
