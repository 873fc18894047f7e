/* list_part.cuh - a block's part of an item of a list, and what several items share: activations
 * chosen at run time, copies, norms. */
#ifndef QKV_KERNEL_CUDA_LIST_PART_CUH
#define QKV_KERNEL_CUDA_LIST_PART_CUH

#include "kernel/cuda/list_meet.cuh"

/* Shared memory of products whose weights are on their way before the blocks have met: slots of
 * each warp, a barrier and the next parity of each slot. */
struct list_ring {
    char *slots;        /* (warps, LIST_RING, STREAM_SLOT) */
    uint64_t *full;     /* (warps, LIST_RING) */
    unsigned *parities; /* (warps) */
};

struct part {
    unsigned block, blocks;
    float *room, *partial; /* shared memory: LIST_ROOM, 2 WARP numbers */
    const list_ring *ring;
    __device__ size_t thread() const { return (size_t)block * blockDim.x + threadIdx.x; }
    __device__ size_t threads() const { return (size_t)blocks * blockDim.x; }
    /* Neighbouring warps are of different blocks. */
    __device__ size_t warp() const { return (size_t)(threadIdx.x / WARP) * blocks + block; }
    __device__ size_t warps() const { return (size_t)blocks * (blockDim.x / WARP); }
};

static __device__ __noinline__ float act_any_value(qkv_k_act act, float x)
{
#define VALUE(A) return act_value<A>(x)
    BY_ACTIVATION(act, VALUE)
#undef VALUE
    return x;
}

/* Where else a number of what an item has made goes. */
static __device__ __forceinline__ void copy_elsewhere(const list_copies *copies, const float *place,
                                                      float v)
{
#pragma unroll 1
    for (size_t r = 0; copies && r < copies->rows; r++) {
        const list_row &row = copies->row[r];
        if (place >= row.x && place < row.x + row.n)
            row.y[place - row.x] = v;
    }
}

static __device__ __forceinline__ void norm_of_rows(const norm_job &a, size_t team, size_t teams,
                                                    float *partial)
{
    const size_t warps = blockDim.x / WARP;
    if (a.C <= 4 * WARP * WARP_QUADS)
        for (size_t row = team * warps + threadIdx.x / WARP; row < a.N; row += teams * warps)
            norm_held_row<WARP_QUADS, false>(a, row, partial);
    else
        for (size_t row = team; row < a.N; row += teams)
            norm_held_row<BLOCK_QUADS, true>(a, row, partial);
}

/* All rows, by every block, into room; one block stores them. */
static __device__ __noinline__ void norm_for_product(norm_job a, const part &p)
{
    float *const y = a.y;
    const bool stores = p.block == 0;
    a.y = p.room;
    if (!stores)
        a.sum = a.mean = a.rstd = NULL;
    norm_of_rows(a, 0, 1, p.partial);
    __syncthreads();
#pragma unroll 1
    for (size_t i = threadIdx.x; stores && i < a.N * a.C; i += blockDim.x)
        y[i] = p.room[i];
}

#endif
