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

/* ROWS rows, begun by a block of GROUP_COUNT groups; 0 from `rows` on. */
template <int ROWS, int GROUP_COUNT>
static __device__ __forceinline__ void begin_tile(bf16 *tile, const operand &from, size_t row,
                                                  int head, int rows)
{
    enum { THREADS = GROUP_COUNT * GROUP };
    const int column = (int)threadIdx.x % 8 * 8, first = (int)threadIdx.x / 8;
    const bf16 *x = from.x + (row + (size_t)first) * from.row + (size_t)head * from.head +
                    (size_t)column;
#pragma unroll
    for (int n = 0; n < ROWS * TILE_WIDE / 8 / THREADS; n++) {
        const int r = n * (THREADS / 8);
        copy_async_16(tile + tile_place(first + r, column), x + (size_t)r * from.row,
                      first + r < rows && column < from.width);
    }
}

/* x = 64 rows of a times 64 rows of b, over the columns; begun. */
static __device__ __forceinline__ void multiply_rows(float (&x)[8][4], const bf16 *a,
                                                     const bf16 *b)
{
    const tile_from from_a = tile_of(a), from_b = tile_of(b);
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma_tiles<0, 0>(x, from_a + k * ALONG, from_b + k * ALONG, k > 0);
}

/* sum += a, of 64 columns, times 64 rows of b; begun. */
static __device__ __forceinline__ void add_product(float (&sum)[8][4], const unsigned (&a)[4][4],
                                                   const bf16 *b)
{
    const tile_from from = tile_of(b);
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma_rows<1>(sum, a[k], from + k * DOWN, true);
}

/* x as an operand: a[k] has its columns 16 k .. */
static __device__ __forceinline__ void round_to(unsigned (&a)[4][4], const float (&x)[8][4])
{
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[k][i] = bf16_pair(x[2 * k + i / 2][i % 2 * 2], x[2 * k + i / 2][i % 2 * 2 + 1]);
}

static __device__ __forceinline__ void clear(float (&x)[8][4])
{
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[n][i] = 0;
}

#endif
