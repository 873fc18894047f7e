/* simd_update.c - update in vector types. */
#include "kernel/simd.h"

void QKV_SIMD(qkv__kernels_update)(qkv_kernels *k)
{
    (void)k;
}
