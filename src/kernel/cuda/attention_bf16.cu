/* attention_bf16.cu - attention on tensor cores, forward: operands rounded to bf16, scores, softmax
 * and sums in f32.
 *
 * Keys and values are rounded once, to scratch memory. A block has 64 or 128 queries of a head, of
 * which each of its warps has 16 or 32, and goes over the keys that they see in tiles: while it
 * multiplies one, the next is on its way to shared memory. Scores and weights stay in registers. */
#include <climits>
#include <cmath>
#include <cstdlib>

#include "kernel/cuda/attention_bf16.cuh"

static qkv_k_attention_fn *attention_f32; /* what serves everything else */

/* ---- sequences --------------------------------------------------------------------------------- */

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

/* ---- keys and values in bf16 ------------------------------------------------------------------- */

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

/* ---- a block of queries -------------------------------------------------------------------------- */

enum { KEYS = 64 };

typedef struct {
    attention_shape s;
    rows_f32 q;
    const bf16 *k, *v;
    float *out, *lse;
    size_t o_row, o_head;
    bool pairs; /* out by 8 aligned bytes */
    int tiles;
} forward_args;

/* Of D channels: a warp has M tiles of 16 queries. */
template <int D> struct forward_sizes {
    enum {
        M = D <= 64 ? 2 : 1, WARP_ROWS = 16 * M, ROWS = ATTENTION_WARPS * WARP_ROWS,
        WIDE = D + ATTENTION_GAP, SHARED = (ROWS + 4 * KEYS) * WIDE * 2
    };
};

/* What a lane has of its warp's queries: rows g and g + 8 of each of M tiles. */
template <int D> struct running {
    enum { M = forward_sizes<D>::M };
    float out[M][D / 8][4];
    float base[M][2], sum[M][2]; /* sum: of the lane's weights alone */
};

/* x = the warp's queries times keys. */
template <int D>
static __device__ __forceinline__ void scores(float (&x)[forward_sizes<D>::M][KEYS / 8][4],
                                              const bf16 *q, const bf16 *k)
{
#pragma unroll
    for (int m = 0; m < forward_sizes<D>::M; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[m][n][i] = 0;
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        unsigned a[forward_sizes<D>::M][4];
#pragma unroll
        for (int m = 0; m < forward_sizes<D>::M; m++)
            load_matrices(a[m], above_first<D>(q, 16 * m, 16 * c));
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            unsigned b[4];
            load_matrices(b, beside_first<D>(k, 16 * n, 16 * c));
#pragma unroll
            for (int m = 0; m < forward_sizes<D>::M; m++) {
                mma_16x8x16(x[m][2 * n], a[m], b[0], b[1]);
                mma_16x8x16(x[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Scores of keys that the lane's queries do not see become -inf. row: the warp's first query. */
template <int M>
static __device__ __forceinline__ void hide(float (&x)[M][KEYS / 8][4], const attention_shape &s,
                                            const sequence &q, int row, int j0)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = row + 16 * m + 8 * r + lane / 4;
            const span seen = keys_seen(s, q, i, i);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int j = j0 + 8 * n + lane % 4 * 2 + c;
                    if (j < seen.from || j >= seen.to)
                        x[m][n][2 * r + c] = -INFINITY;
                }
        }
}

/* Scores become weights, as powers of two from the base that their query has. It is the largest score
 * so far, or up to ENOUGH below it: what was summed is scaled where that is not so any more. */
enum { ENOUGH = 8 };

template <int D>
static __device__ __forceinline__ void weigh(float (&x)[forward_sizes<D>::M][KEYS / 8][4],
                                             running<D> &run, float scale2)
{
    enum { M = forward_sizes<D>::M };
    float largest[M][2];
    bool grows = false;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float most = x[m][0][2 * r];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                most = fmaxf(most, fmaxf(x[m][n][2 * r], x[m][n][2 * r + 1]));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
            largest[m][r] = most * scale2;
            grows |= largest[m][r] > run.base[m][r] + ENOUGH;
        }
    if (__any_sync(0xffffffffu, grows)) {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float base = fmaxf(run.base[m][r], largest[m][r]);
                const float alpha = exp2_fast(run.base[m][r] - (base == -INFINITY ? 0 : base));
                run.base[m][r] = base;
                run.sum[m][r] *= alpha;
#pragma unroll
                for (int n = 0; n < D / 8; n++)
#pragma unroll
                    for (int c = 2 * r; c < 2 * r + 2; c++)
                        run.out[m][n][c] *= alpha;
            }
    }
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float base = run.base[m][r] == -INFINITY ? 0 : run.base[m][r];
            float sum = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int c = 2 * r; c < 2 * r + 2; c++) {
                    x[m][n][c] = exp2_fast(x[m][n][c] * scale2 - base);
                    sum += x[m][n][c];
                }
            run.sum[m][r] += sum;
        }
}

/* Of two lanes that hold neighbouring pairs of keys, the even one asks for row g, the odd for row
 * g + 8, each for four keys. */
template <int M>
static __device__ __forceinline__ void drop_weights(float (&x)[M][KEYS / 8][4],
                                                    const attention_shape &s, const sequence &q,
                                                    int h, int row, int j0)
{
    const int lane = (int)threadIdx.x % WARP, odd = lane % 2;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            const int i = row + 16 * m + lane / 4 + 8 * odd;
            const unsigned mine =
                weights_kept(s, q.q_begin + (size_t)i, h, j0 + 8 * n + lane % 4 / 2 * 4);
            const unsigned other = __shfl_xor_sync(0xffffffffu, mine, 1);
            const unsigned keep[2] = {(odd ? other : mine) >> 2 * odd,
                                      (odd ? mine : other) >> 2 * odd};
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (!(keep[c / 2] >> c % 2 & 1))
                    x[m][n][c] = 0;
        }
}

template <int D>
static __device__ __forceinline__ void add_values(running<D> &run,
                                                  const float (&x)[forward_sizes<D>::M][KEYS / 8][4],
                                                  const bf16 *v)
{
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        unsigned a[forward_sizes<D>::M][4];
#pragma unroll
        for (int m = 0; m < forward_sizes<D>::M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[m][i] = bf16_pair(x[m][2 * j + i / 2][i % 2 * 2], x[m][2 * j + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            unsigned b[4];
            load_matrices_across(b, above_first<D>(v, 16 * j, 16 * n));
#pragma unroll
            for (int m = 0; m < forward_sizes<D>::M; m++) {
                mma_16x8x16(run.out[m][2 * n], a[m], b[0], b[1]);
                mma_16x8x16(run.out[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

template <int D, bool WHOLE>
static __device__ __forceinline__ void finish(const running<D> &run, const forward_args &f,
                                              const sequence &q, int h, int row)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < forward_sizes<D>::M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = row + 16 * m + 8 * r + lane / 4;
            float sum = run.sum[m][r];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (i >= q.queries)
                continue;
            const size_t at = q.q_begin + (size_t)i;
            const float factor = sum == 0 ? 0 : f.s.kept / sum;
            if (lane % 4 == 0)
                f.lse[at * (size_t)f.s.H + (size_t)h] =
                    sum == 0 ? -INFINITY : run.base[m][r] * 0.69314718f + logf(sum);
            float *y = f.out + at * f.o_row + (size_t)h * f.o_head;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                const int column = 8 * n + lane % 4 * 2;
                store_pair(y, run.out[m][n][2 * r] * factor,
                           run.out[m][n][2 * r + 1] * factor, column, f.s.Dv, WHOLE);
            }
        }
}

template <int D>
static __device__ __forceinline__ void begin_keys(bf16 *memory, const forward_args &f,
                                                  const sequence &q, int head, int j0, int stage)
{
    bf16 *k = memory + stage * 2 * KEYS * forward_sizes<D>::WIDE;
    begin_copy<D, KEYS>(k, f.k, q.k_at + (size_t)j0, head, f.s.Hkv, q.keys - j0);
    begin_copy<D, KEYS>(k + KEYS * forward_sizes<D>::WIDE, f.v, q.k_at + (size_t)j0, head, f.s.Hkv,
                        q.keys - j0);
    copy_async_group();
}

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

/* ---- launches ---------------------------------------------------------------------------------- */

template <int D, bool DROPS> static void launch(const forward_args &f, size_t B)
{
    const size_t shared = forward_sizes<D>::SHARED;
    cuda_note(cudaFuncSetAttribute(forward<D, DROPS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared));
    LAUNCH((forward<D, DROPS>), (unsigned)(B * (size_t)f.s.H * (size_t)f.tiles), ATTENTION_THREADS,
           shared, f);
}

template <int D>
static bool run(const qkv_exec *e, forward_args *f, const attention_sizes *n, const attention_args *a,
                const float *k, const float *v)
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
