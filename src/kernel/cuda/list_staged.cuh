/* list_staged.cuh - the rows that a product multiplies, in shared memory: as they are, or their
 * norm, which each block makes for itself. One function serves all products and its loops are not
 * unrolled, so that its instructions stay in the cache. */
#ifndef QKV_KERNEL_CUDA_LIST_STAGED_CUH
#define QKV_KERNEL_CUDA_LIST_STAGED_CUH

#include "kernel/cuda/list_start.cuh"

/* Rows of x (m, k). wide: they begin at multiples of 16 bytes. */
struct stream_rows {
    const float *x;
    size_t m, k, ldx;
    bool wide;
};

/* C numbers to shared memory, by all warps but the one that waits for the other blocks. */
static __device__ __forceinline__ void fetch_channels(float *to, const float *from, unsigned C)
{
    if (!from || threadIdx.x < WARP)
        return;
#pragma unroll 1
    for (unsigned c = 4 * (threadIdx.x - WARP); c < C; c += 4 * (blockDim.x - WARP))
#ifdef QKV_CUDA_EMULATED
        *(float4 *)(to + c) = *(const float4 *)(from + c);
#else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         (unsigned)__cvta_generic_to_shared(to + c)),
                     "l"(from + c)
                     : "memory");
#endif
}

static __device__ __forceinline__ void channels_are_there(void)
{
#ifndef QKV_CUDA_EMULATED
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Rows one behind the other. */
static __device__ __forceinline__ void stage_rows(float *room, const stream_rows &a)
{
    const unsigned k = (unsigned)a.k;
#pragma unroll 1
    for (unsigned i = 0; i < a.m; i++) {
        const float *x = in_global(a.x) + i * a.ldx;
        if (a.wide && k % 4 == 0) {
#pragma unroll 2
            for (unsigned c = 4 * threadIdx.x; c < k; c += 4 * blockDim.x)
                *(float4 *)(room + i * k + c) = *(const float4 *)(x + c);
        } else {
#pragma unroll 1
            for (unsigned c = threadIdx.x; c < k; c += blockDim.x)
                room[i * k + c] = x[c];
        }
    }
}

/* Sums of what a norm adds up; one block stores those. */
static __device__ __forceinline__ void stage_sums(float *room, const norm_job &a, bool stores)
{
    const unsigned n = (unsigned)(a.N * a.C);
#pragma unroll 1
    for (unsigned c = 4 * threadIdx.x; c < n; c += 4 * blockDim.x) {
        float4 v = *(const float4 *)(in_global(a.x) + c);
        if (a.residual)
            v = add4(v, *(const float4 *)(in_global(a.residual) + c));
        if (a.residual && a.sum && stores)
            *(float4 *)(in_global(a.sum) + c) = v;
        *(float4 *)(room + c) = v;
    }
}

/* The mean of a staged row, and its rstd, by every warp. */
static __device__ __forceinline__ float2 row_numbers(const float *row, const norm_job &a)
{
    const unsigned C = (unsigned)a.C, lane4 = 4 * (threadIdx.x % WARP);
    float2 sums = make_float2(0, 0);
    float mean = 0, shift;
    if (!a.rms) {
#pragma unroll 2
        for (unsigned c = lane4; c < C; c += 4 * WARP)
            sums.x += quad_sum(*(const float4 *)(row + c));
        mean = warp_sum(sums.x) / (float)C;
        sums.x = 0;
    }
#pragma unroll 2
    for (unsigned c = lane4; c < C; c += 4 * WARP) {
        const float4 v = minus4(*(const float4 *)(row + c), make_float4(mean, mean, mean, mean));
        sums.x += quad_sum(v);
        sums.y += quad_dot(v, v);
    }
    sums = make_float2(warp_sum(sums.x), warp_sum(sums.y));
    const float rstd = norm_rstd(a, sums, &shift);
    return make_float2(mean + shift, rstd);
}

/* A staged row becomes its norm. weight, bias: C numbers of shared memory, or NULL. */
static __device__ __forceinline__ void norm_row(float *row, float *y, float2 n, unsigned C,
                                                const float *weight, const float *bias)
{
#pragma unroll 1
    for (unsigned c = 4 * threadIdx.x; c < C; c += 4 * blockDim.x) {
        const float4 none = make_float4(0, 0, 0, 0);
        float4 v = minus4(*(const float4 *)(row + c), make_float4(n.x, n.x, n.x, n.x));
        v = make_float4(v.x * n.y, v.y * n.y, v.z * n.y, v.w * n.y);
        v = weight ? fma4(v, *(const float4 *)(weight + c), none) : v;
        v = bias ? add4(v, *(const float4 *)(bias + c)) : v;
        *(float4 *)(row + c) = v;
        if (y)
            *(float4 *)(in_global(y) + c) = v;
    }
}

/* The blocks meet, and x is in shared memory, if it is a norm's or `stages`. */
static __device__ __noinline__ void begin_stream(const list_turn &s, const stream_rows &a,
                                                 bool stages)
{
    const norm_job *n = s.norm;
    float *const room = in_shared(s.p.room), *const channels = room + LIST_HELD / sizeof(float);
    const bool first = s.p.block == 0;
    if (n) {
        fetch_channels(channels, n->weight, (unsigned)n->C);
        fetch_channels(channels + n->C, n->bias, (unsigned)n->C);
    }
    if (s.m.arrived)
        bring_some(*s.ahead, s.items);
    channels_are_there();
    meet_end(s.m);
    if (n)
        stage_sums(room, *n, first);
    else if (stages)
        stage_rows(room, a);
    __syncthreads();
#pragma unroll 1
    for (unsigned i = 0; n && i < n->N; i++) {
        float *const row = room + i * n->C;
        const float2 numbers = row_numbers(row, *n);
        if (first && threadIdx.x == 0)
            norm_keep(*n, i, numbers.x, numbers.y);
        __syncthreads();
        norm_row(row, first && n->y ? n->y + i * n->C : NULL, numbers, (unsigned)n->C,
                 n->weight ? channels : NULL, n->bias ? channels + n->C : NULL);
        __syncthreads();
    }
}

#endif
