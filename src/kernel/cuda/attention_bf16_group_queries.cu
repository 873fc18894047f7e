/* attention_bf16_group_queries.cu - the gradient of queries, of attention of 64 channels, by groups
 * of warps.
 *
 * A block has two groups of 64 queries and goes over the keys that they see in tiles. Scores and
 * their gradients have queries as rows: as they lie in registers they are operands of dq, which
 * stays in registers too, so that one block makes all of a dq. What a tile adds to dq is computed
 * with the scores of the next; while weights are computed, products with values are; two tiles
 * more are on their way. */
#include <cmath>

#include "kernel/cuda/attention_bf16_forward.cuh"
#include "kernel/cuda/attention_bf16_gradients.cuh"
#include "kernel/cuda/attention_bf16_groups.cuh"

enum {
    BLOCK_QUERIES = GROUPS * QUERIES, STAGES = 4,
    BYTES = (4 + 2 * STAGES) * TILE * 2 + TILE_ALIGNED
};

typedef struct {
    bf16 *q, *dout, *k, *v; /* (128, 64) twice, (STAGES, 64, 64) twice */
} group_memory;

static __device__ __forceinline__ group_memory memory_at(char *p)
{
    group_memory in;
    in.q = (bf16 *)tile_aligned(p);
    in.dout = in.q + GROUPS * TILE;
    in.k = in.dout + GROUPS * TILE;
    in.v = in.k + STAGES * TILE;
    return in;
}

/* Tile `tile` of keys, if the block sees it: begun. */
static __device__ __forceinline__ void begin_keys(const group_memory &to, const backward_args &f,
                                                  const sequence &q, int head, int tile, int tiles)
{
    const int at = tile % STAGES * TILE, j0 = tile * KEYS;
    if (tile < tiles) {
        begin_tile<KEYS, GROUPS>(to.k + at, f.k, key_row(f.k, q, j0), head, q.keys - j0);
        begin_tile<KEYS, GROUPS>(to.v + at, f.v, key_row(f.v, q, j0), head, q.keys - j0);
    }
    copy_async_group();
}

/* Of the lane's rows g and g + 8: log-sum-exp and delta. */
typedef struct {
    float2 row[2];
} row_stats;

static __device__ __forceinline__ row_stats stats_of(const backward_args &f, const sequence &q,
                                                     int h, int row)
{
    row_stats x;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = row + 8 * r + (int)threadIdx.x % WARP / 4;
        x.row[r] = make_float2(INFINITY, 0); /* weights of 0 */
        if (i < q.queries)
            x.row[r] = f.stats[(size_t)h * f.rows_q + q.q_at + (size_t)i];
    }
    return x;
}

/* Weights x and products y of the gradient of the output with values: y becomes gradients of the
 * scores times scale. */
template <bool DROPS>
static __device__ __forceinline__ void gradients(const float (&x)[8][4], float (&y)[8][4],
                                                 const row_stats &stats, const attention_shape &s,
                                                 const sequence &q, int h, int row, int j0)
{
    const float scale = DROPS ? s.scale * s.kept : s.scale;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const unsigned kept = DROPS ? kept_of_rows(s, q, h, row, j0 + 8 * n) : 0;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool keep = !DROPS || kept >> e & 1;
            y[n][e] = x[n][e] * ((keep ? y[n][e] * scale : 0) - stats.row[e / 2].y);
        }
    }
}

static __device__ __forceinline__ void none(unsigned (&a)[4][4])
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        a[k][0] = a[k][1] = a[k][2] = a[k][3] = 0;
}

template <bool DROPS>
static __global__ void __launch_bounds__(GROUP_THREADS, DROPS ? 1 : 2)
    backward_queries(const backward_args f, int tiles)
{
    DYNAMIC_SHARED(memory);
    const group_memory in = memory_at(memory);
    const unsigned rest = blockIdx.x / (unsigned)tiles;
    const int h = (int)(rest % (unsigned)f.s.H), head = h / (f.s.H / f.s.Hkv);
    /* The last queries, who may see the most keys, come first. */
    const int i0 = (tiles - 1 - (int)(blockIdx.x % (unsigned)tiles)) * BLOCK_QUERIES;
    const sequence q = f.s.sequences[rest / (unsigned)f.s.H];
    if (i0 >= q.queries)
        return;
    const int warp = warp_index(), group = warp / 4, row = i0 + warp * 16;
    const int first = i0 + group * QUERIES;
    const span all = keys_seen(f.s, q, i0, min(i0 + BLOCK_QUERIES, q.queries) - 1);
    const span mine = keys_seen(f.s, q, first, first + QUERIES - 1);
    const int begin = all.from / KEYS, end = (all.to + KEYS - 1) / KEYS;
    float dq[1][8][4];
    unsigned a[4][4];
    clear(dq[0]);
    begin_tile<BLOCK_QUERIES, GROUPS>(in.q, f.q, query_row(f.q, q, i0), h, q.queries - i0);
    begin_tile<BLOCK_QUERIES, GROUPS>(in.dout, f.dout, query_row(f.dout, q, i0), h,
                                      q.queries - i0);
    begin_keys(in, f, q, head, begin, end); /* with the queries */
    begin_keys(in, f, q, head, begin + 1, end);
    const row_stats stats = stats_of(f, q, h, row);
    none(a);
    int before = -1; /* where the keys of a lie; before the first, a is 0 */
#pragma unroll 1
    for (int tile = begin; tile < end; tile++) {
        const int j0 = tile * KEYS, at = tile % STAGES * TILE;
        copy_async_wait<1>();
        wgmma_wrote();
        __syncthreads(); /* the tile is here, and no group still reads the last but one */
        begin_keys(in, f, q, head, tile + 2, end);
        if (first < q.queries && j0 < mine.to && j0 + KEYS > mine.from) {
            float x[1][8][4], y[8][4];
            wgmma_fence();
            multiply_rows(x[0], in.q + group * TILE, in.k + at);
            add_product(dq[0], a, in.k + (before < 0 ? at : before));
            wgmma_set();
            wgmma_wait<0>();
            wgmma_done(x[0]);
            wgmma_done(dq[0]);
            wgmma_fence();
            multiply_rows(y, in.dout + group * TILE, in.v + at);
            wgmma_set();
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[0][n][e] = exp2_fast(x[0][n][e] * f.s.scale2 - stats.row[e / 2].x);
            if (j0 + KEYS > q.keys ||
                (f.s.causal && (j0 + KEYS - 1 > first + q.ahead ||
                                j0 <= first + QUERIES - 1 + q.ahead - f.s.window)))
                hide_keys(x, f.s, q, row, j0, 0);
            wgmma_wait<0>();
            wgmma_done(y);
            gradients<DROPS>(x[0], y, stats, f.s, q, h, row, j0);
            round_to(a, y);
            before = at;
        }
    }
    copy_async_wait<0>();
    if (before >= 0) {
        wgmma_fence();
        add_product(dq[0], a, in.k + before);
        wgmma_set();
        wgmma_wait<0>();
        wgmma_done(dq[0]);
    }
    store_sums<64>(f.dq, dq, 1, q.q_begin, q.queries, h, row, f.s.D);
}

template <bool DROPS> static void launch(const backward_args &f, size_t B, int tiles)
{
    cuda_note(cudaFuncSetAttribute(backward_queries<DROPS>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)BYTES));
    LAUNCH((backward_queries<DROPS>), (unsigned)(B * (size_t)f.s.H * (size_t)tiles), GROUP_THREADS,
           BYTES, f, tiles);
}

void queries_by_groups(const backward_args &f, const attention_sizes &n, const attention_args *a)
{
    const int tiles = (int)((n.longest_q + BLOCK_QUERIES - 1) / BLOCK_QUERIES);
    if (a->dropout.p > 0)
        launch<true>(f, a->B, tiles);
    else
        launch<false>(f, a->B, tiles);
}
