/* attention_bf16_groups.cuh - what attention of 64 channels by groups of warps shares between its
 * forward and its backward pass: tiles on their way to shared memory. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_BF16_GROUPS_CUH
#define QKV_KERNEL_CUDA_ATTENTION_BF16_GROUPS_CUH

#include "kernel/cuda/attention_bf16.cuh"
#include "kernel/cuda/wgmma.cuh"

enum {
    GROUPS = 2, GROUP_THREADS = GROUPS * GROUP, /* of a block */
    TILE = 64 * TILE_WIDE                       /* numbers of 64 rows */
};

/* ROWS rows, begun; 0 from `rows` on. */
template <int ROWS>
static __device__ __forceinline__ void begin_tile(bf16 *tile, const operand &from, size_t row,
                                                  int head, int rows)
{
    const int column = (int)threadIdx.x % 8 * 8, first = (int)threadIdx.x / 8;
    const bf16 *x = from.x + (row + (size_t)first) * from.row + (size_t)head * from.head +
                    (size_t)column;
#pragma unroll
    for (int n = 0; n < ROWS * TILE_WIDE / 8 / GROUP_THREADS; n++) {
        const int r = n * (GROUP_THREADS / 8);
        copy_async_16(tile + tile_place(first + r, column), x + (size_t)r * from.row,
                      first + r < rows && column < from.width);
    }
}

#endif
