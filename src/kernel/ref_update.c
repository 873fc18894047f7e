/* ref_update.c - plain C: optimiser updates. */
#include "kernel/kernel.h"

void qkv__kernels_ref_update(qkv_kernels *k)
{
    (void)k;
}
