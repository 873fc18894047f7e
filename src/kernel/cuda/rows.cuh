/* rows.cuh - what kernels that work row by row share: rows read in groups of four numbers at
 * 16-byte boundaries wherever they begin, and the largest number of a row with the sum of the
 * exponentials below it. */
#ifndef QKV_KERNEL_CUDA_ROWS_CUH
#define QKV_KERNEL_CUDA_ROWS_CUH

#include "kernel/cuda/cuda.cuh"

/* Threads of a block that works on one row of n numbers. */
static inline unsigned row_threads(size_t n)
{
    return n <= 256 ? 32 : n <= 1024 ? 128 : n <= 16384 ? 256 : 1024;
}

static inline unsigned row_blocks(size_t N)
{
    return (unsigned)(N < GRID_MOST ? N : (size_t)GRID_MOST);
}

/* NULL fits too. */
static inline bool quads_fit(const void *p) { return (uintptr_t)p % 16 == 0; }

/* ---- groups of four ---------------------------------------------------------------------------- */

/* A row of n numbers as `count` groups; group j is numbers 4 j - shift .. 4 j - shift + 3, and the
 * first and the last group may reach beyond the row. */
typedef struct {
    size_t n, count;
    unsigned shift;
} row_groups;

static __device__ __forceinline__ row_groups groups_of(const float *x, size_t n)
{
    row_groups g;
    g.n = n;
    g.shift = (unsigned)((uintptr_t)x / 4 % 4);
    g.count = (g.shift + n + 3) / 4;
    return g;
}

static __device__ __forceinline__ ptrdiff_t group_first(row_groups g, size_t j)
{
    return (ptrdiff_t)(4 * j) - (ptrdiff_t)g.shift;
}

static __device__ __forceinline__ bool in_row(row_groups g, ptrdiff_t i)
{
    return i >= 0 && (size_t)i < g.n;
}

/* Group j of x, which may be aligned in another way than the row the groups were made for; fill
 * where it reaches beyond the row. */
static __device__ __forceinline__ float4 load_group(const float *x, row_groups g, size_t j,
                                                    float fill)
{
    ptrdiff_t i = group_first(g, j);
    const float *p = x + i;
    if (i >= 0 && (size_t)i + 4 <= g.n && (uintptr_t)p % 16 == 0)
        return *(const float4 *)p;
    return make_float4(in_row(g, i) ? p[0] : fill, in_row(g, i + 1) ? p[1] : fill,
                       in_row(g, i + 2) ? p[2] : fill, in_row(g, i + 3) ? p[3] : fill);
}

static __device__ __forceinline__ void store_group(float *y, row_groups g, size_t j, float4 v)
{
    ptrdiff_t i = group_first(g, j);
    float *p = y + i;
    if (i >= 0 && (size_t)i + 4 <= g.n && (uintptr_t)p % 16 == 0) {
        *(float4 *)p = v;
        return;
    }
    if (in_row(g, i))
        p[0] = v.x;
    if (in_row(g, i + 1))
        p[1] = v.y;
    if (in_row(g, i + 2))
        p[2] = v.z;
    if (in_row(g, i + 3))
        p[3] = v.w;
}

/* ---- sums of exponentials ---------------------------------------------------------------------- */

/* Of the numbers read so far: the largest (-inf: none), the first column that has it, and the sum of
 * exp(x - max). NaNs are in the sum alone. */
typedef struct {
    float max, sum;
    int32_t at;
} row_reading;

static __device__ __forceinline__ row_reading reading_of_none(void)
{
    row_reading r = {-INFINITY, 0, INT32_MAX};
    return r;
}

/* first: the column of v.x. Numbers of -inf count as absent. */
static __device__ __forceinline__ void read_group(row_reading *r, float4 v, ptrdiff_t first)
{
    float most = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    if (most > r->max) {
        r->sum *= expf(r->max - most);
        r->max = most;
        r->at = (int32_t)first + (v.x == most ? 0 : v.y == most ? 1 : v.z == most ? 2 : 3);
    }
    float m = r->max == -INFINITY ? 0 : r->max;
    r->sum += (expf(v.x - m) + expf(v.y - m)) + (expf(v.z - m) + expf(v.w - m));
}

static __device__ __forceinline__ int32_t block_least(int32_t x, float *partial)
{
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    int32_t *least = (int32_t *)partial;
    for (int d = WARP / 2; d > 0; d /= 2)
        x = min(x, __shfl_xor_sync(0xffffffffu, x, d));
    if (lane == 0)
        least[warp] = x;
    __syncthreads();
    x = least[lane < warps ? lane : 0];
    for (int d = WARP / 2; d > 0; d /= 2)
        x = min(x, __shfl_xor_sync(0xffffffffu, x, d));
    __syncthreads();
    return x;
}

/* The readings of all threads of a block in one; at only if wanted, and 0 where there is none. */
static __device__ __forceinline__ row_reading block_reading(row_reading r, bool at, float *partial)
{
    row_reading all;
    all.max = block_max(r.max, partial);
    all.sum = block_sum(r.max == all.max ? r.sum : r.sum * expf(r.max - all.max), partial);
    all.at = 0;
    if (at) {
        all.at = block_least(r.max == all.max ? r.at : INT32_MAX, partial);
        all.at = all.at == INT32_MAX ? 0 : all.at;
    }
    return all;
}

#endif
