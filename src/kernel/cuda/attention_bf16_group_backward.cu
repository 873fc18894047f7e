/* attention_bf16_group_backward.cu - gradients of attention of 64 channels, by groups of warps.
 *
 * As attention_bf16_backward.cu, in whose place it serves cards that have products of groups, but
 * with dq by a kernel of its own (attention_bf16_group_queries.cu): scores are computed twice, and
 * in return no sums go through memory, and no group waits for what another leaves in shared
 * memory. Here a block is one group with 64 keys, which goes over the queries that see them, 64 at
 * a time; two tiles of these are on their way. Blocks of a multiprocessor do not wait for each
 * other: one computes weights while another multiplies. */
#include <cmath>

#include "kernel/cuda/attention_bf16_gradients.cuh"
#include "kernel/cuda/attention_bf16_groups.cuh"

enum {
    KEYS = 64, THREADS = GROUP, BLOCKS = 3, /* of a multiprocessor */
    STAGES = 3, BYTES = (2 + 2 * STAGES) * TILE * 2 + STAGES * QUERIES * 8 + TILE_ALIGNED
};

typedef struct {
    bf16 *k, *v, *q, *dout; /* (64, 64) twice, (STAGES, 64, 64) twice */
    float2 *stats;          /* (STAGES, 64) */
} group_memory;

static __device__ __forceinline__ group_memory memory_at(char *p)
{
    group_memory in;
    in.k = (bf16 *)tile_aligned(p);
    in.v = in.k + TILE;
    in.q = in.v + TILE;
    in.dout = in.q + STAGES * TILE;
    in.stats = (float2 *)(in.dout + STAGES * TILE);
    return in;
}

/* Queries of a head, from i on: a step of the block. */
typedef struct {
    int h, i;
} place;

static __device__ __forceinline__ void go_on(place &p, const span &tiles)
{
    p.i += QUERIES;
    if (p.i == tiles.to * QUERIES)
        p.i = tiles.from * QUERIES, p.h++;
}

/* The queries of a step, if there is one: begun. */
static __device__ __forceinline__ void begin_step(const group_memory &to, const backward_args &f,
                                                  const sequence &q, const place &p, int step,
                                                  int steps)
{
    const int stage = step % STAGES, rows = q.queries - p.i, r = (int)threadIdx.x;
    if (step < steps) {
        begin_tile<QUERIES, 1>(to.q + stage * TILE, f.q, query_row(f.q, q, p.i), p.h, rows);
        begin_tile<QUERIES, 1>(to.dout + stage * TILE, f.dout, query_row(f.dout, q, p.i), p.h,
                               rows);
        float2 *stats = to.stats + stage * QUERIES;
        if (r < QUERIES) {
            if (r < rows)
                copy_async_8(stats + r,
                             f.stats + (size_t)p.h * f.rows_q + q.q_at + (size_t)(p.i + r));
            else
                stats[r] = make_float2(INFINITY, 0); /* weights of 0 */
        }
    }
    copy_async_group();
}

/* The block's keys: the first of the block, and of the warp. */
typedef struct {
    int j, key;
    float dk[1][8][4], dv[1][8][4];
} block_keys;

/* Queries `now`, which lie in the stage, against the block's keys. */
template <bool DROPS>
static __device__ __forceinline__ void add_step(block_keys &b, const group_memory &in, int stage,
                                                const backward_args &f, const sequence &q,
                                                const place &now)
{
    const bf16 *queries = in.q + stage * TILE, *dout = in.dout + stage * TILE;
    const float2 *stats = in.stats + stage * QUERIES;
    float x[1][8][4], y[1][8][4];
    unsigned p[4][4], ds[4][4];
    const bool works = b.key < q.keys; /* of keys that are not there, products are 0 */
    wgmma_fence();
    multiply_rows(x[0], in.k, queries);
    wgmma_set();
    multiply_rows(y[0], in.v, dout);
    wgmma_set();
    wgmma_wait<1>();
    wgmma_done(x[0]);
    if (works)
        weigh_again(x, f.s, stats);
    if (b.j + KEYS > q.keys ||
        (f.s.causal && (b.j + KEYS - 1 > now.i + q.ahead ||
                        b.j <= now.i + QUERIES - 1 + q.ahead - f.s.window)))
        hide(x, f.s, q, b.key, now.i, 0);
    wgmma_wait<0>();
    wgmma_done(y[0]);
    if (works)
        differentiate<DROPS>(x, y, f.s, q, now.h, b.key, now.i, stats);
    round_to(p, x[0]);
    round_to(ds, y[0]);
    wgmma_fence();
    add_product(b.dv[0], p, dout);
    add_product(b.dk[0], ds, queries);
    wgmma_set();
    wgmma_wait<0>();
    wgmma_done(b.dv[0]);
    wgmma_done(b.dk[0]);
}

template <bool DROPS>
static __global__ void __launch_bounds__(THREADS, DROPS ? 1 : BLOCKS)
    backward_keys(const backward_args f, int tiles)
{
    DYNAMIC_SHARED(memory);
    const group_memory in = memory_at(memory);
    const unsigned rest = blockIdx.x / (unsigned)tiles;
    const int head = (int)(rest % (unsigned)f.s.Hkv), heads = f.s.H / f.s.Hkv;
    const int j = (int)(blockIdx.x % (unsigned)tiles) * KEYS;
    const sequence q = f.s.sequences[rest / (unsigned)f.s.Hkv];
    if (j >= q.keys_full)
        return;
    const span all = query_tiles<QUERIES>(f.s, q, j, KEYS);
    const int steps = (all.to - all.from) * heads;
    place now = {head * heads, all.from * QUERIES}, next = now;
    block_keys b;
    b.j = j, b.key = j + warp_index() * 16;
    clear(b.dk[0]);
    clear(b.dv[0]);
    if (steps > 0) {
        begin_tile<KEYS, 1>(in.k, f.k, key_row(f.k, q, j), head, q.keys - j);
        begin_tile<KEYS, 1>(in.v, f.v, key_row(f.v, q, j), head, q.keys - j);
    }
    begin_step(in, f, q, next, 0, steps); /* with the keys */
    go_on(next, all);
    begin_step(in, f, q, next, 1, steps);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        copy_async_wait<1>();
        wgmma_wrote();
        __syncthreads(); /* the step's queries are here; no warp still reads the last ones */
        go_on(next, all);
        begin_step(in, f, q, next, step + 2, steps);
        add_step<DROPS>(b, in, step % STAGES, f, q, now);
        go_on(now, all);
    }
    copy_async_wait<0>();
    store_sums<64>(f.dk, b.dk, 1, q.k_begin, q.keys_full, head, b.key, f.s.D);
    store_sums<64>(f.dv, b.dv, f.s.kept, q.k_begin, q.keys_full, head, b.key, f.s.Dv);
}

template <bool DROPS> static void launch(const backward_args &f, size_t B, int tiles)
{
    cuda_note(cudaFuncSetAttribute(backward_keys<DROPS>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)BYTES));
    LAUNCH((backward_keys<DROPS>), (unsigned)(B * (size_t)f.s.Hkv * (size_t)tiles), THREADS, BYTES,
           f, tiles);
}

void backward_by_groups(const backward_args &f, const attention_sizes &n, const attention_args *a)
{
    const int tiles = (int)((n.longest_full + KEYS - 1) / KEYS);
    if (f.dq.x)
        queries_by_groups(f, n, a);
    if (!f.dk.x && !f.dv.x)
        return;
    if (a->dropout.p > 0)
        launch<true>(f, a->B, tiles);
    else
        launch<false>(f, a->B, tiles);
}
