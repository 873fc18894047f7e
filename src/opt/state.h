/* state.h - the numbers an optimiser or an average keeps per parameter: one block of memory,
 * cut into arrays of the parameters' sizes. */
#ifndef QKV_OPT_STATE_H
#define QKV_OPT_STATE_H

#include "base/base.h"
#include "qkv/opt.h"

/* Bytes that an array of n numbers takes in the block: whole cache lines. */
static inline size_t qkv__state_bytes(size_t n)
{
    return (n * sizeof(qkv_real) + 63) / 64 * 64;
}

/* The description of an array of p's shape. */
qkv_state qkv__state_of(const qkv_param *p, const char *what, qkv_real *data);

#endif
