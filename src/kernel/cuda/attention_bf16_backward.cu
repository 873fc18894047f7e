/* attention_bf16_backward.cu - gradients of attention on tensor cores: operands rounded to bf16,
 * weights and sums in f32.
 *
 * Queries and gradients of the output are rounded once, to scratch memory. A block has one head of
 * keys and values of a sequence: tile by tile of its keys it goes over the queries that see them,
 * adds to the sums of dk and dv in registers, and to dq in memory, which no other block touches.
 * Where there are too few heads to fill the card, blocks share the tiles of a head, each with a dq
 * of its own in scratch memory, and these are added in order. */
#include <cmath>

#include "kernel/cuda/attention_bf16.cuh"

static qkv_k_attention_bwd_fn *backward_f32; /* what serves everything else */

enum { QUERIES = 64, HALF = QUERIES / 2, BLOCKS_WANTED = 264 };

/* Of D channels: a warp has M tiles of 16 keys. */
template <int D> struct backward_sizes {
    enum {
        M = D <= 64 ? 2 : 1, WARP_KEYS = 16 * M, KEYS = ATTENTION_WARPS * WARP_KEYS,
        WIDE = D + ATTENTION_GAP, WIDE_DS = QUERIES + ATTENTION_GAP, STAGE = 2 * QUERIES * WIDE,
        SHARED = (2 * KEYS * WIDE + 2 * STAGE + KEYS * WIDE_DS) * 2 + 2 * QUERIES * 8
    };
};

/* Rows of a gradient; x NULL: not wanted. */
typedef struct {
    float *x;
    size_t row, head;
    bool pairs, acc;
} gradient;

typedef struct {
    attention_shape s;
    rows_f32 k, v;
    const bf16 *q, *dout;  /* (rows_q, H, channels) */
    const float2 *stats;   /* (H, rows_q): log-sum-exp in powers of two, delta times scale */
    size_t rows_q;
    gradient dq, dk, dv;
    int splits;    /* blocks of a head */
    float *partial; /* (splits, rows_q, H, D) where splits > 1: their dq */
} backward_args;

/* ---- queries and gradients of the output in bf16 ------------------------------------------------- */

typedef struct {
    rows_f32 q, dout, out;
    const float *lse;
    bf16 *q_to, *dout_to;
    float2 *stats;
    bool clear; /* dq of queries that no tile of keys meets */
} prepare_args;

static __device__ __forceinline__ span keys_of_tile(const attention_shape &s, const sequence &q,
                                                    int i0)
{
    return keys_seen(s, q, i0, min(i0 + (int)QUERIES, q.queries) - 1);
}

/* delta is of dout as it was rounded: it meets the same numbers in the products. */
static __device__ __forceinline__ float dot_pair(unsigned two, float x, float y)
{
    return __uint_as_float(two << 16) * x + __uint_as_float(two & 0xffff0000u) * y;
}

template <int D>
static __global__ void prepare(const backward_args f, const prepare_args p, unsigned blocks)
{
    enum { LANES = D == 96 ? 16 : D / 8 }; /* of a row of a head */
    const sequence q = f.s.sequences[blockIdx.x / blocks];
    const int row0 = (int)(blockIdx.x % blocks) * PACK_ROWS, per_row = f.s.H * LANES;
    const int items = min(q.queries - row0, (int)PACK_ROWS) * per_row;
    for (int base = 0; base < items; base += BLOCK) {
        const int item = base + (int)threadIdx.x, i = row0 + item / per_row;
        const int h = item % per_row / LANES, column = item % LANES * 8;
        const size_t from = q.q_begin + (size_t)i, row = q.q_at + (size_t)i;
        const size_t to = ((row * (size_t)f.s.H + (size_t)h) * D + (size_t)column) / 8;
        float sum = 0;
        if (item < items && column < D) {
            float x[8], y[8], z[8];
            load_eight(x, p.q.x + from * p.q.row + (size_t)h * p.q.head, column, p.q.width,
                       p.q.quads);
            load_eight(y, p.dout.x + from * p.dout.row + (size_t)h * p.dout.head, column,
                       p.dout.width, p.dout.quads);
            load_eight(z, p.out.x + from * p.out.row + (size_t)h * p.out.head, column, p.out.width,
                       p.out.quads);
            const uint4 words = round_eight(y);
            ((uint4 *)p.q_to)[to] = round_eight(x);
            ((uint4 *)p.dout_to)[to] = words;
            sum = dot_pair(words.x, z[0], z[1]) + dot_pair(words.y, z[2], z[3]) +
                  dot_pair(words.z, z[4], z[5]) + dot_pair(words.w, z[6], z[7]);
        }
#pragma unroll
        for (int d = LANES / 2; d > 0; d /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (item >= items)
            continue;
        if (column == 0) {
            const float lse = p.lse[from * (size_t)f.s.H + (size_t)h];
            p.stats[(size_t)h * f.rows_q + row] =
                make_float2(lse == -INFINITY ? INFINITY : lse * 1.44269504f, sum * f.s.scale);
        }
        const span seen = keys_of_tile(f.s, q, i / QUERIES * QUERIES);
        if (p.clear && seen.from >= seen.to)
            for (int c = column; c < min(column + 8, f.s.D); c++)
                f.dq.x[from * f.dq.row + (size_t)h * f.dq.head + (size_t)c] = 0;
    }
}

/* ---- a tile of keys ---------------------------------------------------------------------------- */

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
    begin_copy<D, QUERIES>(tile, f.q, row, h, f.s.H, rows);
    begin_copy<D, QUERIES>(tile + QUERIES * WIDE, f.dout, row, h, f.s.H, rows);
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

/* Scores of keys from j on that queries from i on do not see become -inf. */
template <int M>
static __device__ __forceinline__ void hide(float (&x)[M][HALF / 8][4], const attention_shape &s,
                                            const sequence &q, int j, int i)
{
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < HALF / 8; n++)
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
                        x[m][n][2 * r + c] = -INFINITY;
                }
        }
}

/* Scores x become weights after dropout, not yet divided by 1 - p; y, products of the gradient of
 * the output with values, become gradients of the scores times scale. */
template <int M, bool DROPS>
static __device__ __forceinline__ void differentiate(float (&x)[M][HALF / 8][4],
                                                     float (&y)[M][HALF / 8][4],
                                                     const attention_shape &s, const sequence &q,
                                                     int h, int j, int i, const float2 *stats)
{
    const int t = (int)threadIdx.x % 4;
    const float scale = DROPS ? s.scale * s.kept : s.scale;
#pragma unroll
    for (int n = 0; n < HALF / 8; n++) {
        const float4 two = *(const float4 *)(stats + 8 * n + 2 * t);
        const float lse[2] = {two.x, two.z}, delta[2] = {two.y, two.w};
#pragma unroll
        for (int m = 0; m < M; m++) {
            const unsigned kept = DROPS ? kept_of_tile(s, q, h, j + 16 * m, i + 8 * n) : 0;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool keep = !DROPS || kept >> e & 1;
                const float p = exp2_fast(x[m][n][e] * s.scale2 - lse[e % 2]);
                x[m][n][e] = keep ? p : 0;
                y[m][n][e] = p * ((keep ? y[m][n][e] * scale : 0) - delta[e % 2]);
            }
        }
    }
}

/* Words of the operand that has keys as rows and 16 queries from 16 k on as columns. */
template <int M>
static __device__ __forceinline__ void rounded(unsigned (&a)[M][4], const float (&x)[M][HALF / 8][4],
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
static __device__ __forceinline__ void share(bf16 *ds, const unsigned (&a)[M][4], int key, int query)
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
        hide<M>(x, f.s, q, j, i);
    differentiate<M, DROPS>(x, y, f.s, q, h, j, i, in.stats + stage * QUERIES + half * HALF);
#pragma unroll
    for (int k = 0; k < HALF / 16; k++) {
        rounded<M>(a, x, k);
        add_rows<D>(sum.dv, a, dout, half * HALF + 16 * k);
        rounded<M>(a, y, k);
        share<M>(in.ds, a, key, half * HALF + 16 * k);
        add_rows<D>(sum.dk, a, queries, half * HALF + 16 * k);
    }
}

/* ---- dq ------------------------------------------------------------------------------------------ */

/* The dq that the block adds to: its own, or the one that is wanted. x: row 0 of the head. */
static __device__ __forceinline__ gradient dq_of(const backward_args &f, const sequence &q, int split,
                                                 int h)
{
    gradient g = f.dq;
    size_t row = q.q_begin;
    if (f.splits > 1) {
        g.row = (size_t)f.s.H * (size_t)f.s.D, g.head = (size_t)f.s.D;
        g.pairs = f.s.D % 2 == 0, g.acc = false;
        g.x = f.partial;
        row = (size_t)split * f.rows_q + q.q_at;
    }
    g.x += row * g.row + (size_t)h * g.head;
    return g;
}

/* A warp's part of dq: half the queries, N tiles of 8 channels from `left` on; x: of its first query.
 * There are `rows` queries. */
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

/* dq of a tile of queries += ds times keys `from` .. to - 1 of the tile, or = it. A warp has half the
 * queries and half the channels, in passes of N tiles. x: the first query's; there are `rows`. */
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

/* ---- the block ----------------------------------------------------------------------------------- */

/* Of the tiles that a block has, the first that meets queries which see keys from `from` on. */
static __device__ __forceinline__ int first_tile(int from, int keys_of_one, int split, int splits)
{
    const int first = from / keys_of_one;
    return first + (split - first % splits + splits) % splits;
}

/* Rows of dk or dv, of keys from j on. */
template <int D, bool WHOLE>
static __device__ __forceinline__ void store_rows(const gradient &g,
                                                  const float (&x)[backward_sizes<D>::M][D / 8][4],
                                                  float factor, const sequence &q, int head, int j,
                                                  int width)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < backward_sizes<D>::M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int key = j + 16 * m + 8 * r + lane / 4;
            float *y = g.x + (q.k_begin + (size_t)key) * g.row + (size_t)head * g.head;
            if (key >= q.keys_full)
                continue;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                const int column = 8 * n + lane % 4 * 2;
                float2 old = make_float2(0, 0);
                if (g.acc)
                    old = load_pair(y, column, width, WHOLE);
                store_pair(y, old.x + x[m][n][2 * r] * factor, old.y + x[m][n][2 * r + 1] * factor,
                           column, width, WHOLE);
            }
        }
}

template <int D>
static __device__ __forceinline__ void store_sums(const gradient &g,
                                                  const float (&x)[backward_sizes<D>::M][D / 8][4],
                                                  float factor, const sequence &q, int head, int j,
                                                  int width)
{
    if (!g.x)
        return;
    if (g.pairs && width == D)
        store_rows<D, true>(g, x, factor, q, head, j, width);
    else
        store_rows<D, false>(g, x, factor, q, head, j, width);
}

/* Queries, in tiles, that see a key of j0 .. j0 + keys - 1. */
static __device__ __forceinline__ span query_tiles(const attention_shape &s, const sequence &q, int j0,
                                                   int keys)
{
    const int last_key = min(j0 + keys, q.keys) - 1;
    int first = 0, last = q.queries - 1;
    if (s.causal) {
        first = max(0, j0 - q.ahead);
        last = min(last, last_key - q.ahead + s.window - 1);
    }
    if (last_key < j0 || first > last)
        return {0, 0};
    return {first / QUERIES, last / QUERIES + 1};
}

template <int D, bool DROPS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2) backward(const backward_args f)
{
    enum {
        M = backward_sizes<D>::M, WARP_KEYS = backward_sizes<D>::WARP_KEYS,
        KEYS = backward_sizes<D>::KEYS, WIDE = backward_sizes<D>::WIDE
    };
    DYNAMIC_SHARED(memory);
    memory_of in;
    in.k = (bf16 *)memory;
    in.v = in.k + KEYS * WIDE;
    in.stage = in.v + KEYS * WIDE;
    in.ds = in.stage + 2 * backward_sizes<D>::STAGE;
    in.stats = (float2 *)(in.ds + KEYS * backward_sizes<D>::WIDE_DS);
    const int split = (int)(blockIdx.x % (unsigned)f.splits), warp = warp_index();
    const unsigned rest = blockIdx.x / (unsigned)f.splits;
    const int head = (int)(rest % (unsigned)f.s.Hkv), group = f.s.H / f.s.Hkv;
    const sequence q = f.s.sequences[rest / (unsigned)f.s.Hkv];
    const int key = warp * WARP_KEYS; /* of a tile: the warp's first */
    for (int tile = split; tile * KEYS < q.keys_full; tile += f.splits) {
        const int j0 = tile * KEYS;
        const span tiles = query_tiles(f.s, q, j0, KEYS);
        const int each = tiles.to - tiles.from, steps = each * group;
        sums<D> sum;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < D / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum.dk[m][n][i] = sum.dv[m][n][i] = 0;
        __syncthreads(); /* no warp still reads the tile before */
        if (steps > 0) {
            begin_queries<D>(in, f, q, head * group, tiles.from * QUERIES, 0);
            load_rounded<D, KEYS>(in.k, f.k, q.k_begin + (size_t)j0, head, q.keys - j0);
            load_rounded<D, KEYS>(in.v, f.v, q.k_begin + (size_t)j0, head, q.keys - j0);
        }
        int h = head * group, i0 = tiles.from * QUERIES;
        for (int step = 0; step < steps; step++) {
            const int stage = step % 2, now = i0, now_h = h;
            i0 += QUERIES;
            if (i0 == tiles.to * QUERIES)
                i0 = tiles.from * QUERIES, h++;
            copy_async_wait<0>();
            __syncthreads(); /* the tile of queries is here; nobody reads the one before, or ds */
            if (step + 1 < steps)
                begin_queries<D>(in, f, q, h, i0, stage ^ 1);
            half_tile<D, DROPS>(sum, in, key, stage, 0, f, q, now_h, j0, now);
            half_tile<D, DROPS>(sum, in, key, stage, 1, f, q, now_h, j0, now + HALF);
            if (f.dq.x) {
                const gradient g = dq_of(f, q, split, now_h);
                float *x = g.x + (size_t)now * g.row;
                const span seen = keys_of_tile(f.s, q, now);
                const bool adds = g.acc || tile != first_tile(seen.from, KEYS, split, f.splits);
                const int from = max(0, seen.from - j0) / 16 * 16, to = min((int)KEYS, seen.to - j0);
                if (g.pairs && f.s.D == D)
                    add_dq<D, true>(x, g.row, adds, in, warp, q.queries - now, from, to, D);
                else
                    add_dq<D, false>(x, g.row, adds, in, warp, q.queries - now, from, to, f.s.D);
            }
        }
        store_sums<D>(f.dk, sum.dk, 1, q, head, j0 + key, f.s.D);
        store_sums<D>(f.dv, sum.dv, f.s.kept, q, head, j0 + key, f.s.Dv);
    }
}

/* dq = [dq +] what the blocks of a head have, in order. */
static __global__ void add_partials(const backward_args f, int keys_of_one, unsigned blocks)
{
    const sequence q = f.s.sequences[blockIdx.x / blocks];
    const int row0 = (int)(blockIdx.x % blocks) * PACK_ROWS, per_row = f.s.H * f.s.D;
    const int items = min(q.queries - row0, (int)PACK_ROWS) * per_row;
    for (int item = (int)threadIdx.x; item < items; item += BLOCK) {
        const int i = row0 + item / per_row, h = item % per_row / f.s.D, c = item % f.s.D;
        const span seen = keys_of_tile(f.s, q, i / QUERIES * QUERIES);
        float *y = f.dq.x + (q.q_begin + (size_t)i) * f.dq.row + (size_t)h * f.dq.head + (size_t)c;
        const float *x = f.partial + (q.q_at + (size_t)row0) * (size_t)per_row + (size_t)item;
        float sum = f.dq.acc ? *y : 0;
        for (int split = 0; seen.from < seen.to && split < f.splits; split++)
            if (first_tile(seen.from, keys_of_one, split, f.splits) <= (seen.to - 1) / keys_of_one)
                sum += x[(size_t)split * f.rows_q * (size_t)per_row];
        *y = sum;
    }
}

/* ---- launches ---------------------------------------------------------------------------------- */

template <int D, bool DROPS> static void launch(const backward_args &f, size_t B)
{
    const size_t shared = backward_sizes<D>::SHARED;
    cuda_note(cudaFuncSetAttribute(backward<D, DROPS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared));
    LAUNCH((backward<D, DROPS>), (unsigned)(B * (size_t)f.s.Hkv * (size_t)f.splits),
           ATTENTION_THREADS, shared, f);
}

/* Enough blocks for a card, as far as there are tiles of keys; sizes alone decide. */
static int splits_of(const attention_sizes &n, const attention_args *a, size_t keys_of_one)
{
    const size_t tiles = (n.longest_full + keys_of_one - 1) / keys_of_one, heads = a->B * a->Hkv;
    const size_t most = ((size_t)512 << 20) / (n.rows_q * a->H * a->D * sizeof(float) + 1);
    size_t splits = (BLOCKS_WANTED + heads - 1) / heads;
    splits = splits < tiles ? splits : tiles;
    splits = splits < most ? splits : most;
    return splits > 1 ? (int)splits : 1;
}

template <int D>
static void run(const qkv_exec *e, backward_args *f, prepare_args *p, const attention_sizes &n,
                const attention_args *a)
{
    const size_t numbers = n.rows_q * a->H * D;
    const unsigned blocks = (unsigned)((n.longest_q + PACK_ROWS - 1) / PACK_ROWS);
    f->splits = f->dq.x ? splits_of(n, a, backward_sizes<D>::KEYS) : 1;
    bf16 *to = (bf16 *)qkv__arena_alloc(e->scratch, 2 * numbers * sizeof *to);
    float2 *stats = (float2 *)qkv__arena_alloc(e->scratch, n.rows_q * a->H * sizeof *stats);
    if (f->splits > 1)
        f->partial = (float *)qkv__arena_alloc(
            e->scratch, (size_t)f->splits * n.rows_q * a->H * a->D * sizeof(float));
    if (!to || !stats || (f->splits > 1 && !f->partial))
        return;
    f->rows_q = n.rows_q;
    f->q = p->q_to = to;
    f->dout = p->dout_to = to + numbers;
    f->stats = p->stats = stats;
    p->clear = f->dq.x && !f->dq.acc && f->splits == 1;
    LAUNCH((prepare<D>), (unsigned)a->B * blocks, BLOCK, 0, *f, *p, blocks);
    if (a->dropout.p > 0)
        launch<D, true>(*f, a->B);
    else
        launch<D, false>(*f, a->B);
    if (f->splits > 1)
        LAUNCH(add_partials, (unsigned)a->B * blocks, BLOCK, 0, *f, (int)backward_sizes<D>::KEYS,
               blocks);
}

static gradient gradient_of(qkv_real *x, size_t row, size_t head, bool acc)
{
    return {x, row, head, in_pairs(x, row, head), acc};
}

static void cuda_attention_bf16_bwd(const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv,
                                    qkv_real *dbias, const qkv_real *dout, const qkv_real *out,
                                    const qkv_real *lse, const qkv_real *q, const qkv_real *k,
                                    const qkv_real *v, const attention_args *a,
                                    const qkv_k_attention_bwd_args *w)
{
    backward_args f = {};
    prepare_args p = {};
    attention_sizes n;
    if (!attention_bf16_shape(&f.s, &n, a)) {
        backward_f32(e, dq, dk, dv, dbias, dout, out, lse, q, k, v, a, w);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    f.k = rows_of(k, a->k_row, a->k_head, a->D);
    f.v = rows_of(v, a->v_row, a->v_head, a->Dv);
    f.dq = gradient_of(dq, w->dq_row, w->dq_head, w->acc_q);
    f.dk = gradient_of(dk, w->dk_row, w->dk_head, w->acc_k);
    f.dv = gradient_of(dv, w->dv_row, w->dv_head, w->acc_v);
    p.q = rows_of(q, a->q_row, a->q_head, a->D);
    p.dout = rows_of(dout, w->do_row, w->do_head, a->Dv);
    p.out = rows_of(out, a->o_row, a->o_head, a->Dv);
    p.lse = lse;
    switch (attention_channels(a)) {
    case 32: run<32>(e, &f, &p, n, a); break;
    case 64: run<64>(e, &f, &p, n, a); break;
    case 96: run<96>(e, &f, &p, n, a); break;
    case 128: run<128>(e, &f, &p, n, a); break;
    }
    qkv__arena_release(e->scratch, mark);
}

void cuda_attention_bf16_backward(qkv_kernels *k)
{
    backward_f32 = k->attention_bwd;
    k->attention_bwd = cuda_attention_bf16_bwd;
}
