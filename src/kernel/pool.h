/* pool.h - which pixels a window of a pooling covers. */
#ifndef QKV_KERNEL_POOL_H
#define QKV_KERNEL_POOL_H

#include "kernel/kernel.h"

static const size_t qkv__pool_threads = 1u << 16; /* numbers read that pay for waking a team */

static inline bool qkv__pool_threaded(const qkv_k_conv_args *a)
{
    return a->B * a->OH * a->OW * a->C * a->KH * a->KW > qkv__pool_threads;
}

/* Rows or columns first .. end-1 of the image, those that window `at` covers; none when it lies
 * beside it. */
typedef struct {
    size_t first, end;
} qkv__range;

static inline qkv__range qkv__covered(size_t at, size_t stride, size_t window, size_t before,
                                      size_t size)
{
    size_t begin = at * stride, end = begin + window;
    qkv__range r = {begin < before ? 0 : begin - before, end < before ? 0 : end - before};
    if (r.end > size)
        r.end = size;
    if (r.first > r.end)
        r.first = r.end;
    return r;
}

/* Of output row r, counted through all images, and of output column j. */
static inline qkv__range qkv__pool_rows(const qkv_k_conv_args *a, size_t r)
{
    return qkv__covered(r % a->OH, a->stride, a->KH, a->top, a->H);
}

static inline qkv__range qkv__pool_columns(const qkv_k_conv_args *a, size_t j)
{
    return qkv__covered(j, a->stride, a->KW, a->left, a->W);
}

#endif
