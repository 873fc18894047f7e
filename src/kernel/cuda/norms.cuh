/* norms.cuh - what both passes of norms share: teams of threads, a warp or a block, that keep a row
 * in registers. */
#ifndef QKV_KERNEL_CUDA_NORMS_CUH
#define QKV_KERNEL_CUDA_NORMS_CUH

#include "kernel/cuda/columns.cuh"

enum { WARP_QUADS = 6, BLOCK_QUADS = 4, BLOCK_MOST = 512 };

/* How rows of C numbers are shared out: teams of `team` threads in blocks of `threads`. Each thread
 * has quads groups of four numbers of a row; 0: rows of C do not fit. */
typedef struct {
    unsigned team, threads;
    int quads;
} row_teams;

static inline row_teams row_teams_of(size_t C)
{
    row_teams t = {WARP, BLOCK, 0};
    if (C <= 4 * WARP * WARP_QUADS) {
        t.quads = C <= 4 * WARP ? 1 : C <= 8 * WARP ? 2 : C <= 16 * WARP ? 4 : WARP_QUADS;
        return t;
    }
    for (t.team = 128; t.team < BLOCK_MOST && 4 * t.team * BLOCK_QUADS < C;)
        t.team *= 2;
    t.threads = t.team;
    t.quads = C <= 8 * t.team ? 2 : C <= 4 * t.team * BLOCK_QUADS ? BLOCK_QUADS : 0;
    return t;
}

/* LAUNCH of the instance of kernel<quads, whole block> that serves teams t. */
#define LAUNCH_TEAMS(kernel, t, grid, shared, ...)                                                 \
    do {                                                                                           \
        if ((t).team > WARP && (t).quads == 2)                                                     \
            LAUNCH((kernel<2, true>), grid, (t).threads, shared, __VA_ARGS__);                     \
        else if ((t).team > WARP)                                                                  \
            LAUNCH((kernel<BLOCK_QUADS, true>), grid, (t).threads, shared, __VA_ARGS__);           \
        else if ((t).quads == 1)                                                                   \
            LAUNCH((kernel<1, false>), grid, (t).threads, shared, __VA_ARGS__);                    \
        else if ((t).quads == 2)                                                                   \
            LAUNCH((kernel<2, false>), grid, (t).threads, shared, __VA_ARGS__);                    \
        else if ((t).quads == 4)                                                                   \
            LAUNCH((kernel<4, false>), grid, (t).threads, shared, __VA_ARGS__);                    \
        else                                                                                       \
            LAUNCH((kernel<WARP_QUADS, false>), grid, (t).threads, shared, __VA_ARGS__);           \
    } while (0)

/* Both sums over a team; partial: 2 WARP numbers. */
template <bool WHOLE> static __device__ __forceinline__ float2 team_sums(float2 x, float *partial)
{
    if (!WHOLE)
        return make_float2(warp_sum(x.x), warp_sum(x.y));
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = make_float2(warp_sum(x.x), warp_sum(x.y));
    if (lane == 0) {
        partial[warp] = x.x;
        partial[WARP + warp] = x.y;
    }
    __syncthreads();
    x.x = warp_sum(lane < warps ? partial[lane] : 0.0f);
    x.y = warp_sum(lane < warps ? partial[WARP + lane] : 0.0f);
    __syncthreads();
    return x;
}

static __device__ __forceinline__ float quad_sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }

static __device__ __forceinline__ float quad_dot(float4 a, float4 b)
{
    return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
}

static __device__ __forceinline__ float4 quad_of(const float *row, size_t j)
{
    return ((const float4 *)row)[j];
}

static inline bool norm_row_fits(row_teams t, size_t C) { return t.quads && C % 4 == 0; }

extern "C" {
qkv_k_norm_bwd_fn cuda_norm_bwd, cuda_norm_bwd_bf16;
}

#endif
