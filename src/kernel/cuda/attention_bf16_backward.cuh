/* attention_bf16_backward.cuh - the backward pass of attention on tensor cores, as a warp takes it:
 * its keys against half a tile of queries. Scores and their gradients have keys as rows: as they
 * lie in registers they are operands of dk and dv; those of dq go through shared memory. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_BF16_BACKWARD_CUH
#define QKV_KERNEL_CUDA_ATTENTION_BF16_BACKWARD_CUH

#include "kernel/cuda/attention_bf16.cuh"

enum { QUERIES = 64, HALF = QUERIES / 2, BLOCKS_WANTED = 264 };

/* Of D channels: a warp has M tiles of 16 keys. */
template <int D> struct backward_sizes {
    enum {
        M = D <= 64 ? 2 : 1, WARP_KEYS = 16 * M, KEYS = ATTENTION_WARPS * WARP_KEYS,
        WIDE = D + ATTENTION_GAP, WIDE_DS = QUERIES + ATTENTION_GAP, STAGE = 2 * QUERIES * WIDE,
        SHARED = (2 * KEYS * WIDE + 2 * STAGE + KEYS * WIDE_DS) * 2 + 2 * QUERIES * 8
    };
};

typedef struct {
    attention_shape s;
    operand q, k, v, dout;
    const float2 *stats; /* (H, rows_q): log-sum-exp in powers of two, delta times scale */
    size_t rows_q;
    rows_out dq, dk, dv;
    int splits;     /* blocks of a head */
    float *partial; /* (splits, rows_q, H, channels): their dq; NULL: one block adds to dq itself */
    int channels;   /* that heads are computed with */
} backward_args;

/* The products by groups of warps (wgmma.cuh), of 64 channels: all of them, and dq alone. */
void backward_by_groups(const backward_args &f, const attention_sizes &n, const attention_args *a);
void queries_by_groups(const backward_args &f, const attention_sizes &n, const attention_args *a);

/* ---- which keys meet which queries ----------------------------------------------------------- */

/* Keys that a tile of queries sees. */
static __device__ __forceinline__ span keys_of_tile(const attention_shape &s, const sequence &q,
                                                    int i0)
{
    return keys_seen(s, q, i0, min(i0 + (int)QUERIES, q.queries) - 1);
}

/* Of the tiles that a block has, the first that meets queries which see keys from `from` on. */
static __device__ __forceinline__ int first_tile(int from, int keys_of_one, int split, int splits)
{
    const int first = from / keys_of_one;
    return first + (split - first % splits + splits) % splits;
}

/* Queries, in tiles of TILE, that see a key of j0 .. j0 + keys - 1. */
template <int TILE>
static __device__ __forceinline__ span query_tiles(const attention_shape &s, const sequence &q,
                                                   int j0, int keys)
{
    const int last_key = min(j0 + keys, q.keys) - 1;
    int first = 0, last = q.queries - 1;
    if (s.causal) {
        first = max(0, j0 - q.ahead);
        last = min(last, last_key - q.ahead + s.window - 1);
    }
    if (last_key < j0 || first > last)
        return {0, 0};
    return {first / TILE, last / TILE + 1};
}

/* ---- a warp ---------------------------------------------------------------------------------- */

typedef struct {
    bf16 *k, *v, *stage, *ds;
    float2 *stats;
} memory_of;

template <int D>
static __device__ __forceinline__ void begin_queries(const memory_of &to, const backward_args &f,
                                                     const sequence &q, int h, int i0, int stage)
{
    enum { WIDE = backward_sizes<D>::WIDE };
    bf16 *tile = to.stage + stage * backward_sizes<D>::STAGE;
    const int rows = q.queries - i0, r = (int)threadIdx.x;
    const size_t row = q.q_at + (size_t)i0;
    begin_copy<D, QUERIES>(tile, f.q, query_row(f.q, q, i0), h, rows);
    begin_copy<D, QUERIES>(tile + QUERIES * WIDE, f.dout, query_row(f.dout, q, i0), h, rows);
    float2 *stats = to.stats + stage * QUERIES;
    if (r < QUERIES) {
        if (r < rows)
            copy_async_8(stats + r, f.stats + (size_t)h * f.rows_q + row + (size_t)r);
        else
            stats[r] = make_float2(INFINITY, 0); /* weights of 0 */
    }
    copy_async_group();
}

/* x (the warp's keys, HALF) = keys from `key` on times queries from `query` on. */
template <int D>
static __device__ __forceinline__ void multiply(float (&x)[backward_sizes<D>::M][HALF / 8][4],
                                                const bf16 *keys, int key, const bf16 *queries,
                                                int query)
{
    enum { M = backward_sizes<D>::M };
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < HALF / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[m][n][i] = 0;
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        unsigned a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
            load_matrices(a[m], above_first<D>(keys, key + 16 * m, 16 * c));
#pragma unroll
        for (int n = 0; n < HALF / 16; n++) {
            unsigned b[4];
            load_matrices(b, beside_first<D>(queries, query + 16 * n, 16 * c));
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma_16x8x16(x[m][2 * n], a[m], b[0], b[1]);
                mma_16x8x16(x[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Bit 2 r + c: whether the weight of key g + 8 r and query 2t + c stays, of keys from j and queries
 * from i on. The four lanes that hold four neighbouring keys ask for one of their queries and one
 * half of the keys each. */
static __device__ __forceinline__ unsigned kept_of_tile(const attention_shape &s, const sequence &q,
                                                        int h, int j, int i)
{
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, which = g % 4;
    const unsigned four = weights_kept(s, q.q_begin + (size_t)(i + lane % 4 * 2 + which % 2), h,
                                       j + which / 2 * 8 + g / 4 * 4);
    unsigned all = four << 4 * which;
    all |= __shfl_xor_sync(0xffffffffu, all, 4);
    all |= __shfl_xor_sync(0xffffffffu, all, 8);
    all >>= which; /* bits 0, 4, 8, 12 */
    return (all & 1) | (all >> 3 & 2) | (all >> 6 & 4) | (all >> 9 & 8);
}

/* Those of keys from j on and queries that do not see them, from i on, become `hidden`. */
template <int M, int N>
static __device__ __forceinline__ void hide(float (&x)[M][N][4], const attention_shape &s,
                                            const sequence &q, int j, int i, float hidden)
{
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int query = i + 8 * n + 2 * t + c;
            const span seen = keys_seen(s, q, query, query);
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const int key = j + 16 * m + 8 * r + g;
                    if (key < seen.from || key >= seen.to)
                        x[m][n][2 * r + c] = hidden;
                }
        }
}

/* Scores x become weights. */
template <int M, int N>
static __device__ __forceinline__ void weigh_again(float (&x)[M][N][4], const attention_shape &s,
                                                   const float2 *stats)
{
    const int t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float4 two = *(const float4 *)(stats + 8 * n + 2 * t);
        const float lse[2] = {two.x, two.z};
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[m][n][e] = exp2_fast(x[m][n][e] * s.scale2 - lse[e % 2]);
    }
}

/* Weights x become those after dropout, not yet divided by 1 - p; y, products of the gradient of
 * the output with values, become gradients of the scores times scale. */
template <bool DROPS, int M, int N>
static __device__ __forceinline__ void differentiate(float (&x)[M][N][4], float (&y)[M][N][4],
                                                     const attention_shape &s, const sequence &q,
                                                     int h, int j, int i, const float2 *stats)
{
    const int t = (int)threadIdx.x % 4;
    const float scale = DROPS ? s.scale * s.kept : s.scale;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float4 two = *(const float4 *)(stats + 8 * n + 2 * t);
        const float delta[2] = {two.y, two.w};
#pragma unroll
        for (int m = 0; m < M; m++) {
            const unsigned kept = DROPS ? kept_of_tile(s, q, h, j + 16 * m, i + 8 * n) : 0;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool keep = !DROPS || kept >> e & 1;
                const float p = x[m][n][e];
                x[m][n][e] = keep ? p : 0;
                y[m][n][e] = p * ((keep ? y[m][n][e] * scale : 0) - delta[e % 2]);
            }
        }
    }
}

/* Words of the operand that has keys as rows and 16 queries from 16 k on as columns. */
template <int M, int N>
static __device__ __forceinline__ void rounded(unsigned (&a)[M][4], const float (&x)[M][N][4],
                                               int k)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[m][i] = bf16_pair(x[m][2 * k + i / 2][i % 2 * 2], x[m][2 * k + i / 2][i % 2 * 2 + 1]);
}

/* sum (keys, D) += a times 16 rows of the tile. */
template <int D>
static __device__ __forceinline__ void add_rows(float (&sum)[backward_sizes<D>::M][D / 8][4],
                                                const unsigned (&a)[backward_sizes<D>::M][4],
                                                const bf16 *tile, int row)
{
#pragma unroll
    for (int n = 0; n < D / 16; n++) {
        unsigned b[4];
        load_matrices_across(b, above_first<D>(tile, row, 16 * n));
#pragma unroll
        for (int m = 0; m < backward_sizes<D>::M; m++) {
            mma_16x8x16(sum[m][2 * n], a[m], b[0], b[1]);
            mma_16x8x16(sum[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

/* ds as the block shares it: (KEYS, WIDE_DS). */
template <int M>
static __device__ __forceinline__ void share(bf16 *ds, const unsigned (&a)[M][4], int key,
                                             int query)
{
    enum { WIDE_DS = QUERIES + ATTENTION_GAP };
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(unsigned *)(ds + (key + 16 * m + 8 * (i % 2) + g) * WIDE_DS + query + 8 * (i / 2) +
                          2 * t) = a[m][i];
}

template <int D> struct sums {
    float dk[backward_sizes<D>::M][D / 8][4], dv[backward_sizes<D>::M][D / 8][4];
};

/* Half a tile of queries against the warp's keys, which begin at `key` of the tile from j0 on.
 * i: the first query. */
template <int D, bool DROPS>
static __device__ __forceinline__ void half_tile(sums<D> &sum, const memory_of &in, int key,
                                                 int stage, int half, const backward_args &f,
                                                 const sequence &q, int h, int j0, int i)
{
    enum { M = backward_sizes<D>::M, WARP_KEYS = backward_sizes<D>::WARP_KEYS };
    const int j = j0 + key, last = i + HALF - 1 + q.ahead;
    const bf16 *queries = in.stage + stage * backward_sizes<D>::STAGE;
    const bf16 *dout = queries + QUERIES * backward_sizes<D>::WIDE;
    unsigned a[M][4];
    if (j >= q.keys || i >= q.queries ||
        (f.s.causal && (j > last || j + WARP_KEYS - 1 <= i + q.ahead - f.s.window))) {
#pragma unroll
        for (int m = 0; m < M; m++)
            a[m][0] = a[m][1] = a[m][2] = a[m][3] = 0;
        share<M>(in.ds, a, key, half * HALF);
        share<M>(in.ds, a, key, half * HALF + 16);
        return;
    }
    float x[M][HALF / 8][4], y[M][HALF / 8][4];
    multiply<D>(x, in.k, key, queries, half * HALF);
    multiply<D>(y, in.v, key, dout, half * HALF);
    if (j + WARP_KEYS > q.keys ||
        (f.s.causal && (j + WARP_KEYS - 1 > i + q.ahead || j <= last - f.s.window)))
        hide(x, f.s, q, j, i, -INFINITY);
    weigh_again(x, f.s, in.stats + stage * QUERIES + half * HALF);
    differentiate<DROPS>(x, y, f.s, q, h, j, i, in.stats + stage * QUERIES + half * HALF);
#pragma unroll
    for (int k = 0; k < HALF / 16; k++) {
        rounded(a, x, k);
        add_rows<D>(sum.dv, a, dout, half * HALF + 16 * k);
        rounded(a, y, k);
        share<M>(in.ds, a, key, half * HALF + 16 * k);
        add_rows<D>(sum.dk, a, queries, half * HALF + 16 * k);
    }
}

#endif
