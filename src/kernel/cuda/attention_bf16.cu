/* attention_bf16.cu - attention on tensor cores, forward: operands in bf16, scores, softmax and
 * sums in f32.
 *
 * A block has 64 or 128 queries of a head, of
 * which each of its warps has 16 or 32, and goes over the keys that they see in tiles: while it
 * multiplies one, the next is on its way to shared memory. Scores and weights stay in registers. */
#include <cmath>

#include "kernel/cuda/attention_bf16_forward.cuh"
#include "kernel/cuda/wgmma.cuh"

static qkv_k_attention_fn *attention_f32; /* what serves everything else */

/* ---- a block of queries ---------------------------------------------------------------------- */

template <int D, bool DROPS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2) forward(const forward_args f)
{
    enum {
        M = forward_sizes<D>::M, WARP_ROWS = forward_sizes<D>::WARP_ROWS,
        ROWS = forward_sizes<D>::ROWS, WIDE = forward_sizes<D>::WIDE
    };
    DYNAMIC_SHARED(memory);
    bf16 *queries = (bf16 *)memory, *tiles = queries + ROWS * WIDE;
    const unsigned rest = blockIdx.x / (unsigned)f.tiles;
    const int h = (int)(rest % (unsigned)f.s.H), head = h / (f.s.H / f.s.Hkv);
    /* The last queries, who may see the most keys, come first. */
    const int i0 = (f.tiles - 1 - (int)(blockIdx.x % (unsigned)f.tiles)) * ROWS;
    const sequence q = f.s.sequences[rest / (unsigned)f.s.H];
    if (i0 >= q.queries)
        return;
    const int warp = warp_index(), row = i0 + warp * WARP_ROWS; /* the warp's first */
    const int last = min(i0 + ROWS, q.queries) - 1;
    const span all = keys_seen(f.s, q, i0, last);
    const span mine = keys_seen(f.s, q, row, row + WARP_ROWS - 1);
    const int begin = all.from / KEYS * KEYS;
    begin_copy<D, ROWS>(queries, f.q, query_row(f.q, q, i0), h, q.queries - i0);
    if (begin < all.to)
        begin_keys<D>(tiles, f, q, head, begin, 0);
    running<D, M> run;
    start(run);
    for (int j0 = begin, stage = 0; j0 < all.to; j0 += KEYS, stage ^= 1) {
        copy_async_wait<0>();
        __syncthreads(); /* this tile is here, and no warp still reads the one before */
        if (j0 + KEYS < all.to)
            begin_keys<D>(tiles, f, q, head, j0 + KEYS, stage ^ 1);
        if (j0 >= mine.to || j0 + KEYS <= mine.from)
            continue;
        const bf16 *k = tiles + stage * 2 * KEYS * WIDE;
        float x[M][KEYS / 8][4];
        scores<D>(x, queries + warp * WARP_ROWS * WIDE, k);
        if (j0 + KEYS > q.keys ||
            (f.s.causal && (j0 + KEYS - 1 > row + q.ahead ||
                            j0 <= row + WARP_ROWS - 1 + q.ahead - f.s.window)))
            hide_keys<M>(x, f.s, q, row, j0, -INFINITY);
        weigh(x, run, f.s.scale2);
        if (DROPS)
            drop_weights<M>(x, f.s, q, h, row, j0);
        add_values<D>(run, x, k + KEYS * WIDE);
    }
    if (f.out.pairs && f.s.Dv == D)
        finish<true>(run, f, q, h, row);
    else
        finish<false>(run, f, q, h, row);
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, bool DROPS> static void launch(const forward_args &f, size_t B)
{
    const size_t shared = forward_sizes<D>::SHARED;
    cuda_note(cudaFuncSetAttribute(forward<D, DROPS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared));
    LAUNCH((forward<D, DROPS>), (unsigned)(B * (size_t)f.s.H * (size_t)f.tiles), ATTENTION_THREADS,
           shared, f);
}

template <int D> static void run(forward_args *f, const attention_sizes &n, const attention_args *a)
{
    f->tiles = (int)((n.longest_q + forward_sizes<D>::ROWS - 1) / forward_sizes<D>::ROWS);
    if (D == 64 && HAS_GROUPS)
        forward_by_groups(*f, n, a);
    else if (a->dropout.p > 0)
        launch<D, true>(*f, a->B);
    else
        launch<D, false>(*f, a->B);
}

/* Parameters: out 0, lse 1, q 2, k 3, v 4. */
static void cuda_attention_bf16(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                                const qkv_real *k, const qkv_real *v, const attention_args *a)
{
    forward_args f = {};
    attention_sizes n;
    if (!attention_bf16_shape(&f.s, &n, a)) {
        attention_plain(attention_f32, e, out, lse, q, k, v, a);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const rows_in q_in = rows_of(q, a->q_row, a->q_head, a->D, in_bf16(e, 2));
    const rows_in k_in = rows_of(k, a->k_row, a->k_head, a->D, in_bf16(e, 3));
    const rows_in v_in = rows_of(v, a->v_row, a->v_head, a->Dv, in_bf16(e, 4));
    packing p = {f.s.sequences, attention_channels(a), 0, 0, {}};
    f.out = rows_to(out, a->o_row, a->o_head, in_bf16(e, 0), false);
    f.lse = lse;
    if (attention_operand(&f.q, &p, e, n, q_in, a->H, false) &&
        attention_operand(&f.k, &p, e, n, k_in, a->Hkv, true) &&
        attention_operand(&f.v, &p, e, n, v_in, a->Hkv, true)) {
        attention_pack(&p, n, a->B);
        switch (p.D) {
        case 32: run<32>(&f, n, a); break;
        case 64: run<64>(&f, n, a); break;
        case 96: run<96>(&f, n, a); break;
        case 128: run<128>(&f, n, a); break;
        }
    }
    qkv__arena_release(e->scratch, mark);
}

extern "C" void qkv__cuda_attention_bf16(qkv_kernels *k)
{
    attention_f32 = k->attention;
    k->attention = cuda_attention_bf16;
    cuda_attention_bf16_backward(k);
}
