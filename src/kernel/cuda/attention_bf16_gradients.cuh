/* attention_bf16_gradients.cuh - where the sums of the backward pass on tensor cores go: dq, which
 * tile after tile of keys adds to, and rows of dk and dv. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_BF16_GRADIENTS_CUH
#define QKV_KERNEL_CUDA_ATTENTION_BF16_GRADIENTS_CUH

#include "kernel/cuda/attention_bf16_backward.cuh"

/* The f32 numbers that the block's dq is added to. */
typedef struct {
    float *x; /* row 0 of the sequence and the head */
    size_t row;
    int width;
    bool pairs, acc;
} dq_rows;

static __device__ __forceinline__ dq_rows dq_of(const backward_args &f, const sequence &q,
                                                int split, int h)
{
    if (f.partial) {
        const size_t row = (size_t)split * f.rows_q + q.q_at;
        const size_t wide = (size_t)(f.s.H * f.channels);
        return {f.partial + row * wide + (size_t)(h * f.channels), wide, f.channels, true, false};
    }
    return {(float *)f.dq.x + q.q_begin * f.dq.row + (size_t)h * f.dq.head, f.dq.row, f.s.D,
            f.dq.pairs, f.dq.acc};
}

/* A warp's part of dq: half the queries, N tiles of 8 channels from `left` on; x: of its first
 * query. There are `rows` queries. */
template <int N> struct dq_part {
    float z[2][N][4];
};

template <int N, bool WHOLE>
static __device__ __forceinline__ void load_dq(dq_part<N> &part, const float *x, size_t stride,
                                               int left, int rows, int width)
{
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = 16 * m + 8 * r + g;
#pragma unroll
            for (int n = 0; n < N; n++) {
                float2 old = make_float2(0, 0);
                if (i < rows)
                    old = load_pair(x + (size_t)i * stride, left + 8 * n + 2 * t, width, WHOLE);
                part.z[m][n][2 * r] = old.x, part.z[m][n][2 * r + 1] = old.y;
            }
        }
}

template <int N, bool WHOLE>
static __device__ __forceinline__ void store_dq(const dq_part<N> &part, float *x, size_t stride,
                                                int left, int rows, int width)
{
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = 16 * m + 8 * r + g;
#pragma unroll
            for (int n = 0; n < N; n++)
                if (i < rows)
                    store_pair(x + (size_t)i * stride, part.z[m][n][2 * r], part.z[m][n][2 * r + 1],
                               left + 8 * n + 2 * t, width, WHOLE);
        }
}

/* part += ds times keys `from` .. to - 1 of the tile, of queries from `query` on. */
template <int D, int N>
static __device__ __forceinline__ void multiply_dq(dq_part<N> &part, const memory_of &in, int query,
                                                   int left, int from, int to)
{
    for (int k = from; k < to; k += 16) {
        unsigned a[2][4];
        load_matrices_across(a[0], beside_first<QUERIES>(in.ds, k, query));
        load_matrices_across(a[1], beside_first<QUERIES>(in.ds, k, query + 16));
#pragma unroll
        for (int n = 0; n < N / 2; n++) {
            unsigned b[4];
            load_matrices_across(b, above_first<D>(in.k, k, left + 16 * n));
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_16x8x16(part.z[m][2 * n], a[m], b[0], b[1]);
                mma_16x8x16(part.z[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* dq of a tile of queries += ds times keys `from` .. to - 1 of the tile, or = it. A warp has half
 * the queries and half the channels, in passes of N tiles. x: the first query's; of `rows`. */
template <int D, bool WHOLE>
static __device__ __forceinline__ void add_dq(float *x, size_t stride, bool adds,
                                              const memory_of &in, int warp, int rows, int from,
                                              int to, int width)
{
    enum { N = D == 96 ? 2 : D / 16 < 4 ? D / 16 : 4, PASSES = D / 16 / N };
    const int query = warp % 2 * HALF;
    int left = warp / 2 * (D / 2);
    dq_part<N> part;
    x += (size_t)query * stride;
    rows -= query;
    load_dq<N, WHOLE>(part, x, stride, left, adds ? rows : 0, width);
    __syncthreads(); /* ds of all warps is there */
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++, left += 8 * N) {
        if (pass > 0)
            load_dq<N, WHOLE>(part, x, stride, left, adds ? rows : 0, width);
        multiply_dq<D, N>(part, in, query, left, from, to);
        store_dq<N, WHOLE>(part, x, stride, left, rows, width);
    }
}

/* Rows of dq, dk or dv, from i on of `rows`; row 0 is row `begin` of the tensor. */
template <int D, bool WHOLE, int M>
static __device__ __forceinline__ void store_rows(const rows_out &g, const float (&x)[M][D / 8][4],
                                                  float factor, size_t begin, int rows, int head,
                                                  int i, int width)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = i + 16 * m + 8 * r + lane / 4;
            const size_t at = (begin + (size_t)row) * g.row + (size_t)head * g.head;
            if (row >= rows)
                continue;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                const int column = 8 * n + lane % 4 * 2;
                float2 old = make_float2(0, 0);
                if (g.acc)
                    old = load_pair_of(g, at, column, width, WHOLE);
                store_pair_of(g, at, old.x + x[m][n][2 * r] * factor,
                              old.y + x[m][n][2 * r + 1] * factor, column, width, WHOLE);
            }
        }
}

template <int D, int M>
static __device__ __forceinline__ void store_sums(const rows_out &g, const float (&x)[M][D / 8][4],
                                                  float factor, size_t begin, int rows, int head,
                                                  int i, int width)
{
    if (!g.x)
        return;
    if (g.pairs && width == D)
        store_rows<D, true>(g, x, factor, begin, rows, head, i, width);
    else
        store_rows<D, false>(g, x, factor, begin, rows, head, i, width);
}

#endif
