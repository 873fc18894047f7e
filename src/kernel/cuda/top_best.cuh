/* top_best.cuh - the largest of a row and its log-probability: blocks read parts of rows, and a
 * warp puts a row's parts together in the order of their numbers. */
#ifndef QKV_KERNEL_CUDA_TOP_BEST_CUH
#define QKV_KERNEL_CUDA_TOP_BEST_CUH

#include "kernel/cuda/rows.cuh"

enum { BEST_COLUMNS = 1024 }; /* of a part */

struct best_job {
    float *value;
    int32_t *id;
    const float *x;
    row_reading *parts; /* (N, best_parts(V)) */
    size_t N, V;
};

static inline __host__ __device__ size_t best_parts(size_t V)
{
    return (V + BEST_COLUMNS - 1) / BEST_COLUMNS;
}

/* partial: WARP numbers of shared memory. */
static __device__ __forceinline__ void best_read(const best_job &a, size_t place, float *partial)
{
    const size_t parts = best_parts(a.V), row = place / parts;
    const size_t first = place % parts * BEST_COLUMNS, left = a.V - first;
    const float *x = a.x + row * a.V + first;
    const row_groups g = groups_of(x, left < BEST_COLUMNS ? left : (size_t)BEST_COLUMNS);
    row_reading r = reading_of_none();
    for (unsigned j = threadIdx.x; j < g.count; j += blockDim.x)
        read_group(&r, load_group(x, g, j, -INFINITY), group_first(g, j));
    r = block_reading(r, true, partial);
    r.at += (int32_t)first;
    if (threadIdx.x == 0)
        a.parts[place] = r;
}

/* By the calling warp. */
static __device__ __forceinline__ void best_whole(const best_job &a, size_t row)
{
    const row_reading *parts = a.parts + row * best_parts(a.V);
    float most = -INFINITY, sum = 0;
    int32_t at = INT32_MAX;
    for (size_t i = threadIdx.x % WARP; i < best_parts(a.V); i += WARP)
        most = fmaxf(most, parts[i].max);
    most = warp_max(most);
    for (size_t i = threadIdx.x % WARP; i < best_parts(a.V); i += WARP) {
        const row_reading r = parts[i];
        sum += r.max == most ? r.sum : r.sum * expf(r.max - most);
        at = r.max == most && r.at < at ? r.at : at;
    }
    sum = warp_sum(sum);
    for (int d = WARP / 2; d > 0; d /= 2)
        at = min(at, __shfl_xor_sync(0xffffffffu, at, d));
    const double log_sum = log((double)sum);
    const bool there = most > -INFINITY;
    if (threadIdx.x % WARP == 0) {
        a.id[row] = there ? at : -1;
        a.value[row] = there || log_sum != log_sum ? (float)(0 - log_sum) : -INFINITY;
    }
}

#endif
