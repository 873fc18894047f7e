/* attention_bf16_backward.cu - gradients of attention on tensor cores: operands rounded to bf16,
 * weights and sums in f32.
 *
 * Queries and gradients of the output are rounded once, to scratch memory. A block has one head of
 * keys and values of a sequence: tile by tile of its keys it goes over the queries that see them,
 * adds to the sums of dk and dv in registers, and to dq in memory, which no other block touches.
 * Where there are too few heads to fill the card, blocks share the tiles of a head, each with a dq
 * of its own in scratch memory, and these are added in order. */
#include <cmath>

#include "kernel/cuda/attention_bf16_gradients.cuh"

static qkv_k_attention_bwd_fn *backward_f32; /* what serves everything else */

/* ---- queries and gradients of the output in bf16 --------------------------------------------- */

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
/* ---- the block ------------------------------------------------------------------------------- */

/* Of the tiles that a block has, the first that meets queries which see keys from `from` on. */
static __device__ __forceinline__ int first_tile(int from, int keys_of_one, int split, int splits)
{
    const int first = from / keys_of_one;
    return first + (split - first % splits + splits) % splits;
}
/* Queries, in tiles, that see a key of j0 .. j0 + keys - 1. */
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
                const int from = max(0, seen.from - j0) / 16 * 16;
                const int to = min((int)KEYS, seen.to - j0);
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

/* ---- launches -------------------------------------------------------------------------------- */

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
