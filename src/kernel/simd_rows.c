/* simd_rows.c - rows in vector types. */
#include "kernel/simd.h"

void QKV_SIMD(qkv__kernels_rows)(qkv_kernels *k)
{
    (void)k;
}
