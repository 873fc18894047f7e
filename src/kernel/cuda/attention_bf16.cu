/* attention_bf16.cu - attention on tensor cores, forward: operands rounded to bf16, scores, softmax
 * and sums in f32.
 *
 * Keys and values are rounded once, to scratch memory. A block has 64 or 128 queries of a head, of
 * which each of its warps has 16 or 32, and goes over the keys that they see in tiles: while it
 * multiplies one, the next is on its way to shared memory. Scores and weights stay in registers. */
#include <climits>
#include <cmath>
#include <cstdlib>

#include "kernel/cuda/attention_bf16_forward.cuh"

static qkv_k_attention_fn *attention_f32; /* what serves everything else */

/* ---- sequences ------------------------------------------------------------------------------- */

static void dropout_of(attention_shape *s, const qkv_k_dropout_args *d)
{
    s->first = d->first;
    s->key[0] = (uint32_t)d->seed;
    s->key[1] = (uint32_t)(d->seed >> 32);
    s->step = (uint32_t)d->step;
    s->id = d->dropout_id;
    s->threshold = qkv__dropout_threshold(d->p);
    s->kept = d->p > 0 ? (float)(1 / (1 - d->p)) : 1;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* False if there is one that is too long, or none that is long enough. */
static bool sequences_of(sequence *list, attention_sizes *n, const attention_args *a)
{
    const size_t most = 1 << 28;
    *n = {};
    for (size_t b = 0; b < a->B; b++) {
        if (a->q_len[b] > most || a->k_len_full[b] > most)
            return false;
        list[b] = {a->q_begin[b], a->k_begin[b], n->rows_q, n->rows_k, (int)a->q_len[b],
                   (int)a->k_len[b], (int)a->k_len_full[b],
                   (int)a->k_len_full[b] - (int)a->q_len[b]};
        n->longest_q = larger(n->longest_q, a->q_len[b]);
        n->longest_k = larger(n->longest_k, a->k_len[b]);
        n->longest_full = larger(n->longest_full, a->k_len_full[b]);
        n->rows_q += a->q_len[b];
        n->rows_k += a->k_len[b];
    }
    return n->longest_q >= LEAST && n->longest_k >= LEAST;
}

static bool suits(const attention_args *a)
{
    return !a->bias && a->scale > 0 && a->D >= LEAST && a->D <= 128 && a->Dv >= LEAST &&
           a->Dv <= 128 && a->H <= 65536 && a->B > 0 && a->B <= UPLOAD_MOST / sizeof(sequence);
}

bool attention_bf16_shape(attention_shape *s, attention_sizes *n, const attention_args *a)
{
    sequence *list = suits(a) ? (sequence *)malloc(a->B * sizeof *list) : NULL;
    *s = {};
    if (list && sequences_of(list, n, a))
        s->sequences = (const sequence *)cuda_upload(list, a->B * sizeof *list);
    free(list);
    s->H = (int)a->H, s->Hkv = (int)a->Hkv, s->D = (int)a->D, s->Dv = (int)a->Dv;
    s->window = a->causal && a->window && a->window < INT_MAX / 4 ? (int)a->window : INT_MAX / 4;
    s->causal = a->causal;
    s->scale = (float)a->scale;
    s->scale2 = (float)(a->scale * 1.4426950408889634);
    dropout_of(s, &a->dropout);
    return s->sequences != NULL;
}

/* ---- keys and values in bf16 ----------------------------------------------------------------- */

template <int D>
static __global__ void pack_keys(const attention_shape s, const rows_f32 k, const rows_f32 v,
                                 bf16 *k_to, bf16 *v_to, unsigned blocks)
{
    const sequence q = s.sequences[blockIdx.x / blocks];
    const int row0 = (int)(blockIdx.x % blocks) * PACK_ROWS, per_row = s.Hkv * (D / 8);
    const int items = min(q.keys - row0, (int)PACK_ROWS) * per_row;
    for (int item = (int)threadIdx.x; item < items; item += BLOCK) {
        const int row = item / per_row, head = item % per_row / (D / 8);
        const int column = item % (D / 8) * 8;
        const size_t from = q.k_begin + (size_t)(row0 + row);
        const size_t to = (q.k_at + (size_t)row0) * (size_t)per_row + (size_t)item;
        float x[8], y[8];
        load_eight(x, k.x + from * k.row + (size_t)head * k.head, column, k.width, k.quads);
        load_eight(y, v.x + from * v.row + (size_t)head * v.head, column, v.width, v.quads);
        ((uint4 *)k_to)[to] = round_eight(x);
        ((uint4 *)v_to)[to] = round_eight(y);
    }
}

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
    if (begin < all.to)
        begin_keys<D>(tiles, f, q, head, begin, 0);
    load_rounded<D, ROWS>(queries, f.q, q.q_begin + (size_t)i0, h, q.queries - i0);
    running<D> run;
#pragma unroll
    for (int m = 0; m < M; m++) {
        run.base[m][0] = run.base[m][1] = -INFINITY;
        run.sum[m][0] = run.sum[m][1] = 0;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                run.out[m][n][i] = 0;
    }
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
            hide<M>(x, f.s, q, row, j0);
        weigh<D>(x, run, f.s.scale2);
        if (DROPS)
            drop_weights<M>(x, f.s, q, h, row, j0);
        add_values<D>(run, x, k + KEYS * WIDE);
    }
    if (f.pairs && f.s.Dv == D)
        finish<D, true>(run, f, q, h, row);
    else
        finish<D, false>(run, f, q, h, row);
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

template <int D>
static bool run(const qkv_exec *e, forward_args *f, const attention_sizes *n,
                const attention_args *a, const float *k, const float *v)
{
    const size_t numbers = n->rows_k * a->Hkv * D;
    const unsigned blocks = (unsigned)((n->longest_k + PACK_ROWS - 1) / PACK_ROWS);
    bf16 *to = (bf16 *)qkv__arena_alloc(e->scratch, 2 * numbers * sizeof *to);
    if (!to)
        return false;
    LAUNCH((pack_keys<D>), (unsigned)a->B * blocks, BLOCK, 0, f->s,
           rows_of(k, a->k_row, a->k_head, a->D), rows_of(v, a->v_row, a->v_head, a->Dv), to,
           to + numbers, blocks);
    f->k = to;
    f->v = to + numbers;
    f->tiles = (int)((n->longest_q + forward_sizes<D>::ROWS - 1) / forward_sizes<D>::ROWS);
    if (a->dropout.p > 0)
        launch<D, true>(*f, a->B);
    else
        launch<D, false>(*f, a->B);
    return true;
}

static void cuda_attention_bf16(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                                const qkv_real *k, const qkv_real *v, const attention_args *a)
{
    forward_args f = {};
    attention_sizes n;
    if (!attention_bf16_shape(&f.s, &n, a)) {
        attention_f32(e, out, lse, q, k, v, a);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    f.q = rows_of(q, a->q_row, a->q_head, a->D);
    f.out = out, f.lse = lse;
    f.o_row = a->o_row, f.o_head = a->o_head;
    f.pairs = in_pairs(out, a->o_row, a->o_head);
    switch (attention_channels(a)) {
    case 32: run<32>(e, &f, &n, a, k, v); break;
    case 64: run<64>(e, &f, &n, a, k, v); break;
    case 96: run<96>(e, &f, &n, a, k, v); break;
    case 128: run<128>(e, &f, &n, a, k, v); break;
    }
    qkv__arena_release(e->scratch, mark);
}

extern "C" void qkv__cuda_attention_bf16(qkv_kernels *k)
{
    attention_f32 = k->attention;
    k->attention = cuda_attention_bf16;
    cuda_attention_bf16_backward(k);
}
