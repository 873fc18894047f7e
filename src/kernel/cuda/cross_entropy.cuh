/* cross_entropy.cuh - what kernels of cross-entropy share: sizes, and the reading of a row. */
#ifndef QKV_KERNEL_CUDA_CROSS_ENTROPY_CUH
#define QKV_KERNEL_CUDA_CROSS_ENTROPY_CUH

#include "kernel/cuda/rows.cuh"

typedef qkv_k_xent_args xent_sizes; /* all of it is numbers */

/* The sum of v without the target's and what lies beyond the row. */
static __device__ __forceinline__ float sum_of_others(float4 v, int first, int target,
                                                      row_groups g)
{
    const float x[4] = {v.x, v.y, v.z, v.w};
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum += in_row(g, first + i) && first + i != target ? x[i] : 0;
    return sum;
}

/* Reads a row, and keeps it if kept is not NULL; others: the sum of x over all but the target. */
static __device__ __forceinline__ row_reading xent_read(const float *x, float4 *kept, row_groups g,
                                                        bool smooth, int target, double *others)
{
    row_reading r = reading_of_none();
    *others = 0;
    for (unsigned start = threadIdx.x; start < g.count; start += AHEAD * blockDim.x) {
        float4 v[AHEAD];
        load_groups(v, x, g, start, -INFINITY);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const unsigned j = start + (unsigned)i * blockDim.x;
            if (j >= g.count)
                break;
            if (kept)
                kept[j] = v[i];
            read_group(&r, v[i], group_first(g, j));
            if (smooth)
                *others += (double)sum_of_others(v[i], group_first(g, j), target, g);
        }
    }
    return r;
}

/* What a job asks for of a row that has been read. others: as of xent_read. */
template <typename Job>
static __device__ __forceinline__ void xent_tell(const Job &a, size_t row, row_reading r,
                                                 bool counts, float of_target, float of_first,
                                                 double others)
{
    const double log_sum = log((double)r.sum), max = (double)r.max, t = (double)of_target - max;
    const double smoothed = a.s.off != 0 ? a.s.off * (others - (double)(a.s.V - 1) * max) : 0;
    a.loss[row] = counts ? (float)(log_sum - a.s.on * t - smoothed) : 0;
    if (a.nll)
        a.nll[row] = counts ? (float)(log_sum - t) : 0;
    if (a.argmax)
        a.argmax[row] = of_first != of_first ? 0 : r.at;
}

static __device__ __forceinline__ void xent_clear(float *d, row_groups g)
{
    for (unsigned j = threadIdx.x; j < g.count; j += blockDim.x)
        store_group(d, g, j, make_float4(0, 0, 0, 0));
}

extern "C" qkv_k_xent_pair_fn cuda_xent_pair;

#endif
