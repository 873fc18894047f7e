/* attention_bf16_group_backward.cu - gradients of attention of 64 channels, by groups of warps.
 *
 * As attention_bf16_backward.cu, of which it is the inner kernel for cards that have products of
 * groups: a block has two groups and 128 keys at a time, of which each group has 64, and goes over
 * their queries 128 at a time, in halves. A group adds to dq of one half, from what both groups
 * left in shared memory. What the next step reads is on its way meanwhile. */
#include <cmath>

#include "kernel/cuda/attention_bf16_gradients.cuh"
#include "kernel/cuda/attention_bf16_groups.cuh"

enum {
    GROUP_KEYS = 64, KEYS = GROUPS * GROUP_KEYS, STEP = 2 * QUERIES,
    BYTES = (8 * 2 + 2 * 2) * TILE * 2 + 2 * STEP * 8 + TILE_ALIGNED
};

/* Two of each: what is in use and what is on its way. */
typedef struct {
    bf16 *k, *v, *q, *dout; /* (2, 128, 64) */
    bf16 *ds;               /* of two halves: keys by queries */
    float2 *stats;          /* (2, STEP) */
} group_memory;

/* A step of the block: a tile of keys, a head, queries from i0 on. */
typedef struct {
    int tile, h, i0;
    span steps; /* of the tile */
} place;

/* The first step at the tile p.tile or after it; false: there is none. */
static __device__ __forceinline__ bool enter_tile(place &p, const backward_args &f,
                                                  const sequence &q, int head)
{
    for (; p.tile * KEYS < q.keys_full; p.tile += f.splits) {
        p.steps = query_tiles<STEP>(f.s, q, p.tile * KEYS, KEYS);
        if (p.steps.from < p.steps.to) {
            p.h = head * (f.s.H / f.s.Hkv);
            p.i0 = p.steps.from * STEP;
            return true;
        }
    }
    return false;
}

static __device__ __forceinline__ bool go_on(place &p, const backward_args &f, const sequence &q,
                                             int head)
{
    p.i0 += STEP;
    if (p.i0 < p.steps.to * STEP)
        return true;
    p.i0 = p.steps.from * STEP;
    if (++p.h < (head + 1) * (f.s.H / f.s.Hkv))
        return true;
    p.tile += f.splits;
    return enter_tile(p, f, q, head);
}

static __device__ __forceinline__ void begin_keys(const group_memory &to, const backward_args &f,
                                                  const sequence &q, int head, int j0, int side)
{
    begin_tile<128>(to.k + side * 2 * TILE, f.k, key_row(f.k, q, j0), head, q.keys - j0);
    begin_tile<128>(to.v + side * 2 * TILE, f.v, key_row(f.v, q, j0), head, q.keys - j0);
}

static __device__ __forceinline__ void begin_step(const group_memory &to, const backward_args &f,
                                                  const sequence &q, const place &p, int stage)
{
    const int rows = q.queries - p.i0, r = (int)threadIdx.x;
    begin_tile<128>(to.q + stage * 2 * TILE, f.q, query_row(f.q, q, p.i0), p.h, rows);
    begin_tile<128>(to.dout + stage * 2 * TILE, f.dout, query_row(f.dout, q, p.i0), p.h, rows);
    float2 *stats = to.stats + stage * STEP;
    if (r < STEP) {
        if (r < rows)
            copy_async_8(stats + r, f.stats + (size_t)p.h * f.rows_q + q.q_at + (size_t)(p.i0 + r));
        else
            stats[r] = make_float2(INFINITY, 0); /* weights of 0 */
    }
}

/* Whether no query of 64 from i on sees a key of 64 from j on. */
static __device__ __forceinline__ bool apart(const attention_shape &s, const sequence &q, int j,
                                             int i)
{
    return j >= q.keys || i >= q.queries ||
           (s.causal && (j > i + QUERIES - 1 + q.ahead ||
                         j + GROUP_KEYS - 1 <= i + q.ahead - s.window));
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

/* ds of the group's keys, which begin at `key` of the block's, and of a half's queries. */
static __device__ __forceinline__ void share(bf16 *ds, const unsigned (&a)[4][4], int key)
{
    const int lane = (int)threadIdx.x % WARP, t = lane % 4;
    key += (int)threadIdx.x % GROUP / WARP * 16 + lane / 4;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(unsigned *)(ds + tile_place(key + 8 * (i % 2), 16 * k + 8 * (i / 2) + 2 * t)) =
                a[k][i];
}

/* A group's keys: the first of the block's, and of the sequence. */
typedef struct {
    int key, j;
    float dk[1][8][4], dv[1][8][4];
} group_keys;

/* A half of the step's queries, from i on, against the group's keys. */
template <bool DROPS>
static __device__ __forceinline__ void half_step(group_keys &g, const group_memory &in, int side,
                                                 int stage, int half, const backward_args &f,
                                                 const sequence &q, int h, int i)
{
    const bf16 *queries = in.q + (2 * stage + half) * TILE;
    const bf16 *dout = in.dout + (2 * stage + half) * TILE;
    const int own = 2 * side * TILE + g.key * TILE_WIDE;
    const int warps = g.j + (int)threadIdx.x % GROUP / WARP * 16; /* the warp's first key */
    float x[1][8][4], y[1][8][4];
    unsigned a[4][1][4], b[4][4];
    if (apart(f.s, q, g.j, i))
        return;
    wgmma_fence();
    multiply_rows(x[0], in.k + own, queries);
    multiply_rows(y[0], in.v + own, dout);
    wgmma_set();
    wgmma_wait<0>();
    wgmma_done(x[0]);
    wgmma_done(y[0]);
    wgmma_done(g.dk[0]);
    wgmma_done(g.dv[0]);
    if (g.j + GROUP_KEYS > q.keys ||
        (f.s.causal && (g.j + GROUP_KEYS - 1 > i + q.ahead ||
                        g.j <= i + QUERIES - 1 + q.ahead - f.s.window)))
        hide(x, f.s, q, warps, i);
    differentiate<DROPS>(x, y, f.s, q, h, warps, i, in.stats + stage * STEP + half * QUERIES);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        rounded(a[k], x, k);
        unsigned words[1][4];
        rounded(words, y, k);
        for (int w = 0; w < 4; w++)
            b[k][w] = words[0][w];
    }
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma_rows<1>(g.dv[0], a[k][0], tile_of(dout) + k * DOWN, true);
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma_rows<1>(g.dk[0], b[k], tile_of(queries) + k * DOWN, true);
    wgmma_set();
    if (f.dq.x)
        share(in.ds + half * 2 * TILE, b, g.key);
}

/* What a group adds to: queries from i on of a head; `to` has pairs of all 64 channels. */
typedef struct {
    int h, i;
    bool mine, adds, ends; /* they see keys of this tile, of one before, of none after */
} dq_half;

static __device__ __forceinline__ dq_half half_of(const backward_args &f, const sequence &q,
                                                  const dq_rows &to, int split, const place &now,
                                                  int group)
{
    const int i = now.i0 + group * QUERIES, j0 = now.tile * KEYS;
    const span seen = keys_of_tile(f.s, q, i);
    const bool mine = i < q.queries && seen.from < j0 + KEYS && seen.to > j0 &&
                      seen.from < seen.to;
    const bool adds = mine && (to.acc || now.tile != first_tile(seen.from, KEYS, split, f.splits));
    return {now.h, i, mine, adds, f.ends && seen.to <= j0 + KEYS};
}

/* z = ds times keys, of one half. */
static __device__ __forceinline__ void multiply_half(float (&z)[8][4], const group_memory &in,
                                                     int side, int half, const backward_args &f,
                                                     const sequence &q, int j0, int i)
{
    bool any = false;
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < GROUPS; part++)
        if (!apart(f.s, q, j0 + part * GROUP_KEYS, i)) {
            const tile_from ds = tile_of(in.ds + (2 * half + part) * TILE);
            const tile_from keys = tile_of(in.k + (2 * side + part) * TILE);
#pragma unroll
            for (int k = 0; k < 4; k++)
                wgmma_tiles<1, 1>(z, ds + k * DOWN, keys + k * DOWN, any || k > 0);
            any = true;
        }
    wgmma_set();
    wgmma_wait<0>();
    wgmma_done(z);
}

/* Numbers 2 t and 2 t + 1 of 8 n on, of row i of dq. */
static __device__ __forceinline__ void end_pair(const backward_args &f, const sequence &q, int h,
                                                int i, int column, float2 y)
{
    const bool whole = f.dq.pairs && f.s.D == 64;
    const size_t at = (q.q_begin + (size_t)i) * f.dq.row + (size_t)h * f.dq.head;
    if (f.dq.acc) {
        const float2 before = load_pair_of(f.dq, at, column, f.s.D, whole);
        y.x += before.x, y.y += before.y;
    }
    store_pair_of(f.dq, at, y.x, y.y, column, f.s.D, whole);
}

/* dq of the half that is the group's [+]= ds times keys. */
static __device__ __forceinline__ void add_dq(const group_memory &in, int group, int side,
                                              const backward_args &f, const sequence &q, int split,
                                              const place &now)
{
    const int lane = (int)threadIdx.x % WARP;
    const int row = (int)threadIdx.x % GROUP / WARP * 16 + lane / 4, left = lane % 4 * 2;
    const dq_rows to = dq_of(f, q, split, now.h);
    const dq_half d = half_of(f, q, to, split, now, group);
    float *x = to.x + (size_t)(d.i + row) * to.row + left;
    float z[8][4];
    float2 old[2][8];
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int n = 0; n < 8; n++) {
            old[r][n] = make_float2(0, 0);
            if (d.adds && d.i + row + 8 * r < q.queries)
                old[r][n] = *(const float2 *)(x + (size_t)(8 * r) * to.row + 8 * n);
        }
    wgmma_wrote();
    __syncthreads(); /* ds of both groups is there */
    if (!d.mine)
        return;
    multiply_half(z, in, side, group, f, q, now.tile * KEYS, d.i);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = d.i + row + 8 * r;
        if (i >= q.queries)
            continue;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const float2 y = make_float2(old[r][n].x + z[n][2 * r], old[r][n].y + z[n][2 * r + 1]);
            if (d.ends)
                end_pair(f, q, d.h, i, 8 * n + left, y);
            else
                *(float2 *)(x + (size_t)(8 * r) * to.row + 8 * n) = y;
        }
    }
}

static __device__ __forceinline__ group_memory memory_at(char *p)
{
    group_memory in;
    in.k = (bf16 *)tile_aligned(p);
    in.v = in.k + 4 * TILE;
    in.q = in.v + 4 * TILE;
    in.dout = in.q + 4 * TILE;
    in.ds = in.dout + 4 * TILE;
    in.stats = (float2 *)(in.ds + 4 * TILE);
    return in;
}

template <bool DROPS>
static __global__ void __launch_bounds__(GROUP_THREADS, 1) backward_groups(const backward_args f)
{
    DYNAMIC_SHARED(memory);
    const group_memory in = memory_at(memory);
    const int split = (int)(blockIdx.x % (unsigned)f.splits);
    const unsigned rest = blockIdx.x / (unsigned)f.splits;
    const int head = (int)(rest % (unsigned)f.s.Hkv), group = warp_index() / 4;
    const sequence q = f.s.sequences[rest / (unsigned)f.s.Hkv];
    const int warp_key = warp_index() % 4 * 16;
    group_keys g;
    place next = {split, 0, 0, {0, 0}};
    int stage = 0, side = 0;
    bool more = enter_tile(next, f, q, head);
    if (more) {
        begin_keys(in, f, q, head, next.tile * KEYS, side);
        begin_step(in, f, q, next, stage);
        copy_async_group();
    }
    for (int tile = split; tile * KEYS < q.keys_full; tile += f.splits) {
        g.key = group * GROUP_KEYS;
        g.j = tile * KEYS + g.key;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                g.dk[0][n][i] = g.dv[0][n][i] = 0;
        bool met = false;
        while (more && next.tile == tile) {
            const place now = next;
            met = true;
            more = go_on(next, f, q, head);
            copy_async_wait<0>();
            wgmma_wrote();
            __syncthreads(); /* the step's tiles are here; nobody reads those before, or ds */
            if (more) {
                if (next.tile != tile)
                    begin_keys(in, f, q, head, next.tile * KEYS, side ^ 1);
                begin_step(in, f, q, next, stage ^ 1);
                copy_async_group();
            }
#pragma unroll 1
            for (int half = 0; half < 2; half++)
                half_step<DROPS>(g, in, side, stage, half, f, q, now.h, now.i0 + half * QUERIES);
            if (f.dq.x)
                add_dq(in, group, side, f, q, split, now);
            wgmma_wait<0>();
            wgmma_done(g.dk[0]);
            wgmma_done(g.dv[0]);
            stage ^= 1;
        }
        side ^= met;
        store_sums<64>(f.dk, g.dk, 1, q, head, g.j + warp_key, f.s.D);
        store_sums<64>(f.dv, g.dv, f.s.kept, q, head, g.j + warp_key, f.s.Dv);
    }
}

template <bool DROPS> static void launch(const backward_args &f, size_t B)
{
    cuda_note(cudaFuncSetAttribute(backward_groups<DROPS>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)BYTES));
    LAUNCH((backward_groups<DROPS>), (unsigned)(B * (size_t)f.s.Hkv * (size_t)f.splits),
           GROUP_THREADS, BYTES, f);
}

void backward_by_groups(const backward_args &f, const attention_args *a)
{
    if (a->dropout.p > 0)
        launch<true>(f, a->B);
    else
        launch<false>(f, a->B);
}
