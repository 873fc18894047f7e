/* attention_bf16_backward.cu - gradients of attention on tensor cores: operands in bf16, weights
 * and sums in f32.
 *
 * A block has one head of keys and values of a sequence: tile by tile of its keys it goes over the
 * queries that see them, adds to the sums of dk and dv in registers, and to dq in memory, which no
 * other block touches. Where there are too few heads to fill the card, blocks share the tiles of a
 * head, each with a dq of its own in scratch memory, and these are added in order. The one dq of a
 * block lies there too where the gradient that is wanted is bf16, or has no pairs to add to. */
#include <cmath>

#include "kernel/cuda/attention_bf16_gradients.cuh"
#include "kernel/cuda/wgmma.cuh"

static qkv_k_attention_bwd_fn *backward_f32; /* what serves everything else */

/* ---- what a query is asked for again and again ----------------------------------------------- */

typedef struct {
    rows_in out;
    const float *lse;
    float2 *stats;
    bool clear; /* dq of queries that no tile of keys meets */
} prepare_args;

/* delta is of dout in bf16: it meets the same numbers in the products. */
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
        const size_t from = q.q_begin + (size_t)i;
        float sum = 0;
        if (item < items && column < f.dout.width) {
            float y[8], z[8];
            widen_eight(y, *(const uint4 *)(f.dout.x + query_row(f.dout, q, i) * f.dout.row +
                                            (size_t)h * f.dout.head + (size_t)column));
            load_eight(z, p.out, from, h, column);
#pragma unroll
            for (int c = 0; c < 8; c++)
                sum += y[c] * z[c];
        }
#pragma unroll
        for (int d = LANES / 2; d > 0; d /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (item >= items)
            continue;
        if (column == 0) {
            const float lse = p.lse[from * (size_t)f.s.H + (size_t)h];
            p.stats[(size_t)h * f.rows_q + q.q_at + (size_t)i] =
                make_float2(lse == -INFINITY ? INFINITY : lse * 1.44269504f, sum * f.s.scale);
        }
        const span seen = keys_of_tile(f.s, q, i / QUERIES * QUERIES);
        if (p.clear && seen.from >= seen.to)
            for (int c = column; c < min(column + 8, f.s.D); c += 2)
                store_pair_of(f.dq, from * f.dq.row + (size_t)h * f.dq.head, 0, 0, c, f.s.D, false);
    }
}
/* ---- the block ------------------------------------------------------------------------------- */

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
        const span tiles = query_tiles<QUERIES>(f.s, q, j0, KEYS);
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
            begin_copy<D, KEYS>(in.k, f.k, key_row(f.k, q, j0), head, q.keys - j0);
            begin_copy<D, KEYS>(in.v, f.v, key_row(f.v, q, j0), head, q.keys - j0);
            begin_queries<D>(in, f, q, head * group, tiles.from * QUERIES, 0);
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
                const dq_rows g = dq_of(f, q, split, now_h);
                float *x = g.x + (size_t)now * g.row;
                const span seen = keys_of_tile(f.s, q, now);
                const bool adds = g.acc || tile != first_tile(seen.from, KEYS, split, f.splits);
                const int from = max(0, seen.from - j0) / 16 * 16;
                const int to = min((int)KEYS, seen.to - j0);
                if (g.pairs && g.width == D)
                    add_dq<D, true>(x, g.row, adds, in, warp, q.queries - now, from, to, D);
                else
                    add_dq<D, false>(x, g.row, adds, in, warp, q.queries - now, from, to, g.width);
            }
        }
        store_sums<D, M>(f.dk, sum.dk, 1, q.k_begin, q.keys_full, head, j0 + key, f.s.D);
        store_sums<D, M>(f.dv, sum.dv, f.s.kept, q.k_begin, q.keys_full, head, j0 + key,
                         f.s.Dv);
    }
}

/* dq = [dq +] what the blocks of a head have, in order. An item is four channels. */
static __global__ void add_partials(const backward_args f, int keys_of_one, unsigned blocks)
{
    const sequence q = f.s.sequences[blockIdx.x / blocks];
    const int D = f.s.D, fours = (D + 3) / 4, per_row = f.s.H * fours;
    const int row0 = (int)(blockIdx.x % blocks) * PACK_ROWS;
    const int items = min(q.queries - row0, (int)PACK_ROWS) * per_row;
    const size_t wide = (size_t)(f.s.H * f.channels);
    for (int item = (int)threadIdx.x; item < items; item += BLOCK) {
        const int i = row0 + item / per_row, h = item % per_row / fours, c = item % fours * 4;
        const span seen = keys_of_tile(f.s, q, i / QUERIES * QUERIES);
        const size_t to = (q.q_begin + (size_t)i) * f.dq.row + (size_t)h * f.dq.head;
        const bool whole = f.dq.pairs && c + 4 <= D;
        float2 a = make_float2(0, 0), b = a;
        if (f.dq.acc) {
            a = load_pair_of(f.dq, to, c, D, whole);
            b = load_pair_of(f.dq, to, c + 2, D, whole);
        }
        for (int split = 0; seen.from < seen.to && split < f.splits; split++) {
            const float *x = f.partial + (size_t)(h * f.channels) +
                             ((size_t)split * f.rows_q + q.q_at + (size_t)i) * wide;
            if (first_tile(seen.from, keys_of_one, split, f.splits) > (seen.to - 1) / keys_of_one)
                continue;
            const float4 more = *(const float4 *)(x + c);
            a.x += more.x, a.y += more.y, b.x += more.z, b.y += more.w;
        }
        store_pair_of(f.dq, to, a.x, a.y, c, D, whole);
        store_pair_of(f.dq, to, b.x, b.y, c + 2, D, whole);
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
    const size_t most =
        ((size_t)512 << 20) / (n.rows_q * a->H * (size_t)attention_channels(a) * sizeof(float) + 1);
    size_t splits = (BLOCKS_WANTED + heads - 1) / heads;
    splits = splits < tiles ? splits : tiles;
    splits = splits < most ? splits : most;
    return splits > 1 ? (int)splits : 1;
}

template <int D>
static void run(const qkv_exec *e, backward_args *f, prepare_args *p, const attention_sizes &n,
                const attention_args *a)
{
    const unsigned blocks = (unsigned)((n.longest_q + PACK_ROWS - 1) / PACK_ROWS);
    const bool groups = D == 64 && HAS_GROUPS;
    f->splits = f->dq.x && !groups ? splits_of(n, a, backward_sizes<D>::KEYS) : 1;
    const bool parts = f->dq.x && !groups && (f->splits > 1 || f->dq.bf16);
    float2 *stats = (float2 *)qkv__arena_alloc(e->scratch, n.rows_q * a->H * sizeof *stats);
    if (parts)
        f->partial = (float *)qkv__arena_alloc(
            e->scratch, (size_t)f->splits * n.rows_q * a->H * D * sizeof(float));
    if (!stats || (parts && !f->partial))
        return;
    f->rows_q = n.rows_q;
    f->channels = D;
    f->stats = p->stats = stats;
    p->clear = f->dq.x && !f->dq.acc && !parts && !groups;
    LAUNCH((prepare<D>), (unsigned)a->B * blocks, BLOCK, 0, *f, *p, blocks);
    if (groups)
        backward_by_groups(*f, n, a);
    else if (a->dropout.p > 0)
        launch<D, true>(*f, a->B);
    else
        launch<D, false>(*f, a->B);
    if (parts)
        LAUNCH(add_partials, (unsigned)a->B * blocks, BLOCK, 0, *f, (int)backward_sizes<D>::KEYS,
               blocks);
}

/* Parameters: dq 0, dk 1, dv 2, dbias 3, dout 4, out 5, lse 6, q 7, k 8, v 9. */
static void cuda_attention_bf16_bwd(const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv,
                                    qkv_real *dbias, const qkv_real *dout, const qkv_real *out,
                                    const qkv_real *lse, const qkv_real *q, const qkv_real *k,
                                    const qkv_real *v, const attention_args *a,
                                    const qkv_k_attention_bwd_args *w)
{
    backward_args f = {};
    attention_sizes n;
    if (!attention_bf16_shape(&f.s, &n, a)) {
        attention_plain_bwd(backward_f32, e, dq, dk, dv, dbias, dout, out, lse, q, k, v, a, w);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const rows_in dout_in = rows_of(dout, w->do_row, w->do_head, a->Dv, in_bf16(e, 4));
    const rows_in q_in = rows_of(q, a->q_row, a->q_head, a->D, in_bf16(e, 7));
    const rows_in k_in = rows_of(k, a->k_row, a->k_head, a->D, in_bf16(e, 8));
    const rows_in v_in = rows_of(v, a->v_row, a->v_head, a->Dv, in_bf16(e, 9));
    packing packs = {f.s.sequences, attention_channels(a), 0, 0, {}};
    f.dq = rows_to(dq, w->dq_row, w->dq_head, in_bf16(e, 0), w->acc_q);
    f.dk = rows_to(dk, w->dk_row, w->dk_head, in_bf16(e, 1), w->acc_k);
    f.dv = rows_to(dv, w->dv_row, w->dv_head, in_bf16(e, 2), w->acc_v);
    prepare_args p = {rows_of(out, a->o_row, a->o_head, a->Dv, in_bf16(e, 5)), lse, NULL, false};
    if (attention_operand(&f.q, &packs, e, n, q_in, a->H, false) &&
        attention_operand(&f.dout, &packs, e, n, dout_in, a->H, false) &&
        attention_operand(&f.k, &packs, e, n, k_in, a->Hkv, true) &&
        attention_operand(&f.v, &packs, e, n, v_in, a->Hkv, true)) {
        attention_pack(&packs, n, a->B);
        switch (packs.D) {
        case 32: run<32>(e, &f, &p, n, a); break;
        case 64: run<64>(e, &f, &p, n, a); break;
        case 96: run<96>(e, &f, &p, n, a); break;
        case 128: run<128>(e, &f, &p, n, a); break;
        }
    }
    qkv__arena_release(e->scratch, mark);
}

void cuda_attention_bf16_backward(qkv_kernels *k)
{
    backward_f32 = k->attention_bwd;
    k->attention_bwd = cuda_attention_bf16_bwd;
}
