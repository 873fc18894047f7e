/* simd_pool.c - the largest of every window, in vector types. Where it stood is remembered, so
 * plain C compares number by number; here a vector of channels goes through the window. */
#include <math.h>

#include "kernel/pool.h"
#include "kernel/simd.h"

/* Channels 0 .. lanes-1 of x: the largest in a window that is not empty, the first of equals, or
 * its last NaN. */
QKV_INLINE void largest(float *y, int32_t *from, const float *x, const qkv_k_conv_args *a,
                        qkv__range rows, qkv__range columns, size_t lanes)
{
    vf best = vf_set1(-INFINITY), place = vf_zero();
    for (size_t p = rows.first; p < rows.end; p++)
        for (size_t q = columns.first; q < columns.end; q++) {
            vf v = vf_get(x + (p * a->W + q) * a->C, lanes);
            vf here = (vf)vi_set1((uint32_t)(p * a->W + q));
            bool first = p == rows.first && q == columns.first;
            vm larger = vf_lt(best, v), number = vf_ge(vf_abs(v), vf_zero());
            vf kept = first ? here : vf_select(larger, here, place);
            best = vf_select(number, vf_select(larger, v, best), v);
            place = vf_select(number, kept, here);
        }
    vf_put(y, best, lanes);
    vf_put((float *)(void *)from, place, lanes);
}

static void simd_pool_max_pool(const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x,
                               const qkv_k_conv_args *a)
{
#pragma omp parallel for num_threads(e->threads) if (qkv__pool_threaded(a)) default(none) \
    shared(y, from, x, a)
    for (size_t i = 0; i < a->B * a->OH * a->OW; i++) {
        size_t r = i / a->OW, at = i * a->C, c = 0;
        const float *image = x + r / a->OH * a->H * a->W * a->C;
        qkv__range rows = qkv__pool_rows(a, r), columns = qkv__pool_columns(a, i % a->OW);
        if (rows.first == rows.end || columns.first == columns.end) {
            for (; c < a->C; c++) {
                y[at + c] = -INFINITY;
                from[at + c] = -1;
            }
            continue;
        }
        for (; c + VF <= a->C; c += VF)
            largest(y + at + c, from + at + c, image + c, a, rows, columns, VF);
        if (c < a->C)
            largest(y + at + c, from + at + c, image + c, a, rows, columns, a->C - c);
    }
}

void QKV_SIMD(qkv__kernels_pool)(qkv_kernels *k)
{
    k->max_pool = simd_pool_max_pool;
}
