/* rows.cuh - what kernels that work row by row share: rows read in groups of four numbers at
 * 16-byte boundaries wherever they begin, and the largest number of a row with the sum of the
 * exponentials below it. */
#ifndef QKV_KERNEL_CUDA_ROWS_CUH
#define QKV_KERNEL_CUDA_ROWS_CUH

#include "kernel/cuda/cuda.cuh"

enum { ROW_THREADS_MOST = 1024 };

/* Threads of a block that works on one row of n numbers. */
static inline unsigned row_threads(size_t n)
{
    return n <= 256 ? 32 : n <= 1024 ? 128 : n <= 16384 ? 256 : (unsigned)ROW_THREADS_MOST;
}

static inline unsigned row_blocks(size_t N)
{
    return (unsigned)(N < GRID_MOST ? N : (size_t)GRID_MOST);
}

/* NULL fits too. */
static inline __host__ __device__ bool quads_fit(const void *p) { return (uintptr_t)p % 16 == 0; }

/* Four numbers at an address that is a multiple of their size together; and one. */
static __device__ __forceinline__ float4 load_quad(const float *p) { return *(const float4 *)p; }
static __device__ __forceinline__ float4 load_quad(const bf16 *p)
{
    const uint2 words = *(const uint2 *)p;
    const float2 a = floats_of_pair(words.x), b = floats_of_pair(words.y);
    return make_float4(a.x, a.y, b.x, b.y);
}
static __device__ __forceinline__ float load_one(const float *p) { return *p; }
static __device__ __forceinline__ float load_one(const bf16 *p) { return __bfloat162float(*p); }
static __device__ __forceinline__ void store_quad(float *p, float4 v) { *(float4 *)p = v; }
static __device__ __forceinline__ void store_quad(bf16 *p, float4 v)
{
    *(uint2 *)p = make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
}
static __device__ __forceinline__ void store_one(float *p, float x) { *p = x; }
static __device__ __forceinline__ void store_one(bf16 *p, float x) { *p = __float2bfloat16_rn(x); }

/* ---- groups of four -------------------------------------------------------------------------- */

/* A row of n numbers as `count` groups; group j is numbers 4 j - shift .. 4 j - shift + 3, and the
 * first and the last group may reach beyond the row. Groups first .. first + whole - 1 do not. */
typedef struct {
    int n;
    unsigned shift, count, first, whole;
} row_groups;

enum { AHEAD = 4 }; /* groups that a thread has on their way at a time */

static __device__ __forceinline__ row_groups groups_of(const float *x, size_t n)
{
    row_groups g;
    g.n = (int)n;
    g.shift = (unsigned)((uintptr_t)x / 4 % 4);
    g.count = (unsigned)((g.shift + n + 3) / 4);
    g.first = g.shift ? 1 : 0;
    const unsigned end = (unsigned)((g.shift + n) / 4);
    g.whole = end > g.first ? end - g.first : 0;
    return g;
}

/* The place in the row of a group's first number: -3 .. n - 1. */
static __device__ __forceinline__ int group_first(row_groups g, unsigned j)
{
    return (int)(4 * j) - (int)g.shift;
}

static __device__ __forceinline__ bool in_row(row_groups g, int i) { return i >= 0 && i < g.n; }

/* Group j of x, which may be aligned in another way than the row the groups were made for; fill
 * where it reaches beyond the row. */
static __device__ __forceinline__ float4 load_group(const float *x, row_groups g, unsigned j,
                                                    float fill)
{
    const float *start = x - g.shift;
    if (j - g.first < g.whole && quads_fit(start))
        return ((const float4 *)start)[j];
    const int i = group_first(g, j);
    return make_float4(in_row(g, i) ? x[i] : fill, in_row(g, i + 1) ? x[i + 1] : fill,
                       in_row(g, i + 2) ? x[i + 2] : fill, in_row(g, i + 3) ? x[i + 3] : fill);
}

/* Groups j, j + blockDim.x, ...; v of those there are not is fill. */
static __device__ __forceinline__ void load_groups(float4 *v, const float *x, row_groups g,
                                                   unsigned j, float fill)
{
#pragma unroll
    for (int i = 0; i < AHEAD; i++, j += blockDim.x)
        v[i] = j < g.count ? load_group(x, g, j, fill) : make_float4(fill, fill, fill, fill);
}

static __device__ __forceinline__ void store_group(float *y, row_groups g, unsigned j, float4 v)
{
    float *start = y - g.shift;
    if (j - g.first < g.whole && quads_fit(start)) {
        ((float4 *)start)[j] = v;
        return;
    }
    const int i = group_first(g, j);
    if (in_row(g, i))
        y[i] = v.x;
    if (in_row(g, i + 1))
        y[i + 1] = v.y;
    if (in_row(g, i + 2))
        y[i + 2] = v.z;
    if (in_row(g, i + 3))
        y[i + 3] = v.w;
}

/* ---- sums of exponentials -------------------------------------------------------------------- */

/* Of the numbers read so far: the largest (-inf: none), the first column that has it, and the sum
 * of exp(x - max). NaNs are in the sum alone. */
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
static __device__ __forceinline__ void read_group(row_reading *r, float4 v, int first)
{
    float most = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    if (most > r->max) {
        r->sum *= expf(r->max - most);
        r->max = most;
        r->at = first + (v.x == most ? 0 : v.y == most ? 1 : v.z == most ? 2 : 3);
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
