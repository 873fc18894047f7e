/* attention_bf16_group_forward.cu - attention of 64 channels by groups of warps.
 *
 * As attention_bf16.cu, of which it is the inner kernel for cards that have products of groups: a
 * block has two groups of 64 queries, which stay in registers, and goes over the keys that they see
 * in tiles. Scores of the next tile are computed with the sums of this one; two tiles more are on
 * their way. */
#include <cmath>

#include "kernel/cuda/attention_bf16_forward.cuh"
#include "kernel/cuda/attention_bf16_groups.cuh"

enum {
    GROUP_QUERIES = 64, BLOCK_QUERIES = GROUPS * GROUP_QUERIES, STAGES = 4,
    BYTES = (2 + 2 * STAGES) * TILE * 2 + TILE_ALIGNED
};

typedef struct {
    bf16 *q, *k, *v; /* (128, 64), (STAGES, 64, 64) */
} group_memory;

static __device__ __forceinline__ group_memory memory_at(char *p)
{
    group_memory in;
    in.q = (bf16 *)tile_aligned(p);
    in.k = in.q + 2 * TILE;
    in.v = in.k + STAGES * TILE;
    return in;
}

/* Tile `tile` of keys, if the block sees it: begun. */
static __device__ __forceinline__ void begin_keys(const group_memory &to, const forward_args &f,
                                                  const sequence &q, int head, int tile, int tiles)
{
    const int at = tile % STAGES * TILE, j0 = tile * KEYS;
    if (tile < tiles) {
        begin_tile<64, GROUPS>(to.k + at, f.k, key_row(f.k, q, j0), head, q.keys - j0);
        begin_tile<64, GROUPS>(to.v + at, f.v, key_row(f.v, q, j0), head, q.keys - j0);
    }
    copy_async_group();
}

/* The warp's 16 queries as operands: a[k] has channels 16 k .. of them. */
static __device__ __forceinline__ void load_queries(unsigned (&a)[4][4], const bf16 *q)
{
    const int lane = (int)threadIdx.x % WARP, row = warp_index() * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < 4; k++)
        load_matrices(a[k], q + tile_place(row, 16 * k + lane / 16 * 8));
}

/* x = the warp's queries times a tile of keys, begun. */
static __device__ __forceinline__ void begin_scores(float (&x)[1][KEYS / 8][4],
                                                    const unsigned (&a)[4][4], const bf16 *k)
{
#pragma unroll
    for (int c = 0; c < 4; c++)
        wgmma_rows<0>(x[0], a[c], tile_of(k) + c * ALONG, c > 0);
}

static __device__ __forceinline__ void begin_values(running<64, 1> &run,
                                                    const unsigned (&p)[KEYS / 16][4],
                                                    const bf16 *v)
{
    add_product(run.out[0], p, v);
}

static __device__ __forceinline__ void wait_for_sums(float (&x)[1][KEYS / 8][4],
                                                     running<64, 1> &run)
{
    wgmma_set();
    wgmma_wait<0>();
    wgmma_done(x[0]);
    wgmma_done(run.out[0]);
}

/* Scores x of keys from j0 on become weights p. first: the group's first query, row the warp's. */
template <bool DROPS>
static __device__ __forceinline__ void weights(unsigned (&p)[KEYS / 16][4],
                                               float (&x)[1][KEYS / 8][4], running<64, 1> &run,
                                               const forward_args &f, const sequence &q, int h,
                                               int first, int row, int j0)
{
    if (j0 + KEYS > q.keys ||
        (f.s.causal && (j0 + KEYS - 1 > first + q.ahead ||
                        j0 <= first + GROUP_QUERIES - 1 + q.ahead - f.s.window)))
        hide_keys(x, f.s, q, row, j0, -INFINITY);
    weigh(x, run, f.s.scale2);
    if (DROPS)
        drop_weights(x, f.s, q, h, row, j0);
    round_to(p, x[0]);
}

template <bool DROPS>
static __global__ void __launch_bounds__(GROUP_THREADS, DROPS ? 1 : 2)
    forward_groups(const forward_args f)
{
    DYNAMIC_SHARED(memory);
    const group_memory in = memory_at(memory);
    const unsigned rest = blockIdx.x / (unsigned)f.tiles;
    const int h = (int)(rest % (unsigned)f.s.H), head = h / (f.s.H / f.s.Hkv);
    /* The last queries, who may see the most keys, come first. */
    const int i0 = (f.tiles - 1 - (int)(blockIdx.x % (unsigned)f.tiles)) * BLOCK_QUERIES;
    const sequence q = f.s.sequences[rest / (unsigned)f.s.H];
    if (i0 >= q.queries)
        return;
    const int warp = warp_index(), first = i0 + warp / 4 * GROUP_QUERIES, row = i0 + warp * 16;
    const span all = keys_seen(f.s, q, i0, min(i0 + BLOCK_QUERIES, q.queries) - 1);
    const span mine = keys_seen(f.s, q, first, first + GROUP_QUERIES - 1);
    const int begin = all.from / KEYS, end = (all.to + KEYS - 1) / KEYS;
    unsigned a[4][4], p[KEYS / 16][4];
    float x[1][KEYS / 8][4];
    running<64, 1> run;
    start(run);
    begin_tile<128, GROUPS>(in.q, f.q, query_row(f.q, q, i0), h, q.queries - i0);
    begin_keys(in, f, q, head, begin, end); /* with the queries */
    begin_keys(in, f, q, head, begin + 1, end);
    begin_keys(in, f, q, head, begin + 2, end);
    copy_async_wait<2>();
    wgmma_wrote();
    __syncthreads();
    load_queries(a, in.q);
    bool now = false; /* whether the group sees the tile: its scores are in x */
#pragma unroll 1
    for (int tile = begin - 1; tile < end; tile++) {
        const int next = tile + 1;
        const bool then = next < end && next * KEYS < mine.to && next * KEYS + KEYS > mine.from;
        if (now)
            weights<DROPS>(p, x, run, f, q, h, first, row, tile * KEYS);
        if (tile >= begin) {
            copy_async_wait<1>();
            wgmma_wrote();
            __syncthreads(); /* the next tile is here, and no group still reads the one before */
            begin_keys(in, f, q, head, tile + 3, end);
        }
        const bf16 *k = in.k + next % STAGES * TILE;
        const bf16 *v = in.v + (tile + STAGES) % STAGES * TILE;
        wgmma_fence();
        if (now && then) {
            begin_values(run, p, v);
            begin_scores(x, a, k);
            wait_for_sums(x, run);
        } else if (now) {
            begin_values(run, p, v);
            wait_for_sums(x, run);
        } else if (then) {
            begin_scores(x, a, k);
            wait_for_sums(x, run);
        }
        now = then;
    }
    copy_async_wait<0>();
    if (f.out.pairs && f.s.Dv == 64)
        finish<true>(run, f, q, h, row);
    else
        finish<false>(run, f, q, h, row);
}

template <bool DROPS> static void launch(const forward_args &f, size_t B)
{
    cuda_note(cudaFuncSetAttribute(forward_groups<DROPS>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)BYTES));
    LAUNCH((forward_groups<DROPS>), (unsigned)(B * (size_t)f.s.H * (size_t)f.tiles), GROUP_THREADS,
           BYTES, f);
}

void forward_by_groups(forward_args f, const attention_sizes &n, const attention_args *a)
{
    f.tiles = (int)((n.longest_q + BLOCK_QUERIES - 1) / BLOCK_QUERIES);
    if (a->dropout.p > 0)
        launch<true>(f, a->B);
    else
        launch<false>(f, a->B);
}
