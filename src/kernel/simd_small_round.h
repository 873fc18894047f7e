/* simd_small_round.h - x in 8 bits, as it meets weights that are integers. Include after a header
 * that has small_put and SMALL_OFFSET8 (simd_small.h). */
#ifndef QKV_KERNEL_SIMD_SMALL_ROUND_H
#define QKV_KERNEL_SIMD_SMALL_ROUND_H

#include <math.h>

#include "kernel/simd.h"
#include "kernel/small.h"

/* Where a block of x goes, its scale, and what sums of its products start from: w's bytes have an
 * offset, which would add offset * (the sum of the block's integers) to every sum. */
typedef struct {
    int8_t *q;
    float *scale;
    int32_t *start;
} small_rounded;


/* The offset that integers of this type still have after small_line. */
static inline int small_offset(qkv_k_small_type type)
{
    return type == QKV_K_INT8 ? SMALL_OFFSET8 : qkv__small_kinds[type].offset;
}

/* n numbers of x, at most `block`; the rest of the block is 0. */
static inline void small_round_block(const small_rounded *to, const float *x, size_t n,
                                     size_t block, int offset)
{
    vf most = vf_zero(), odd = vf_zero(), sum = vf_zero();
    for (size_t p = 0; p < n; p += VF) {
        vf v = vf_get(x + p, at_most(n - p, VF));
        most = vf_max(vf_abs(v), most);
        odd = odd + v * vf_zero();
    }
    float size = vf_maximum(most), no_number = vf_sum(odd), inverse = 127 / size;
    bool fine = no_number == 0 && inverse < INFINITY;
    vf factor = vf_set1(fine ? inverse : 0);
    for (size_t p = 0; p < block; p += VF) {
        size_t lanes = p < n ? at_most(n - p, VF) : 0;
        vf v = lanes && fine ? vf_round(vf_get(x + p, lanes) * factor) : vf_zero();
        small_put(to->q + p, v);
        sum = sum + v;
    }
    *to->scale = fine ? size / 127 : no_number;
    *to->start = -offset * (int32_t)vf_sum(sum);
}

#endif
