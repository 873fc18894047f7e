/* attention_backward.cu - attention backward in f32, for every shape. Weights are computed again
 * from lse. One kernel takes 64 keys and goes through the queries that see them, head after head
 * of those that share keys: dk, dv. Another takes 64 queries and goes through their keys: dq. So
 * each sum has one owner and one order. */
#include "kernel/cuda/attention.cuh"
#include "kernel/cuda/attention_backward.cuh"

/* delta[row, h] = <dout, out>: a warp for each. */
static __global__ void deltas(const __grid_constant__ att_problem p, float *delta,
                              const float *dout, size_t do_row, size_t do_head, const float *out)
{
    const size_t n = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const int lane = (int)threadIdx.x % WARP, h = (int)(n % p.H);
    const int i = (int)(n / p.H % p.longest_q), b = (int)(n / p.H / p.longest_q);
    if (b >= p.B || i >= att_sequence_of(p, b).q_len)
        return;
    const size_t row = att_sequence_of(p, b).q_begin + i;
    const float *x = dout + row * do_row + h * do_head, *y = out + row * p.o_row + h * p.o_head;
    float sum = 0;
    for (int c = lane; c < p.Dv; c += WARP)
        sum += x[c] * y[c];
    sum = warp_sum(sum);
    if (lane == 0)
        delta[row * p.H + h] = sum;
}

/* ---- keys and values --------------------------------------------------------------------------- */

struct to_keys {
    float *dk, *dv; /* NULL: not wanted */
    size_t dk_row, dk_head, dv_row, dv_head;
    bool add_k, add_v, wide_dk, wide_dv;
    int k_held, v_held, q_held, do_held; /* chunks in shared memory */
};

/* Rows are keys, columns queries: x (dots of q and k) becomes the weights that met the values, y
 * (dots of dout and v) the gradient of scores. */
ATT_DEVICE void key_gradients(att_numbers &x, att_numbers &y, const att_problem &p,
                              const att_inputs &in, const att_sequence &s, int b, int h, int i0,
                              int j0)
{
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const int i = i0 + att_column() + 16 * c, first = j0 + att_row();
        const att_range seen = att_seen(p, s, i);
        const size_t at = (s.q_begin + min(i, s.q_len - 1)) * p.H + h;
        const float lse = in.lse[at], delta = in.delta[at];
        const bool blind = lse == -INFINITY;
        const float *bias = p.bias ? att_bias(p, b, h, i) : NULL;
        unsigned kept = 0xff;
        if (p.dropout)
            kept = att_kept_four(p, s, h, i, first) | att_kept_four(p, s, h, i, first + 8) << 4;
#pragma unroll
        for (int r = 0; r < 8; r++)
            x[r][c] *= p.scale;
        if (bias)
#pragma unroll
            for (int r = 0; r < 8; r++) {
                const int j = first + att_step(r);
                x[r][c] += j >= seen.lo && j < seen.hi ? bias[j] : 0;
            }
#pragma unroll
        for (int r = 0; r < 8; r++) {
            const int j = first + att_step(r);
            const bool hidden = (j < seen.lo) | (j >= seen.hi) | blind;
            const float w = hidden ? 0 : att_exp(x[r][c] - lse);
            const float keep = kept >> r & 1 ? p.keep : 0;
            y[r][c] = hidden ? 0 : w * (keep * y[r][c] - delta);
            x[r][c] = w * keep;
        }
    }
}

/* The tiles of queries that see one of keys j0 .. j0+63: from .. to-1. */
ATT_DEVICE void queries_of(int *from, int *to, const att_problem &p, const att_sequence &s, int j0)
{
    const int shift = s.k_full - s.q_len; /* query i stands at key i + shift */
    *from = p.causal ? max(0, j0 - shift) / ATT_TILE : 0;
    *to = s.q_len;
    if (p.window)
        *to = min(*to, max(0, j0 + ATT_TILE - 1 + p.window - shift));
    if (j0 >= s.k_len)
        *to = 0;
    *to = (*to + ATT_TILE - 1) / ATT_TILE;
}

/* Block x: tile, head of keys, sequence; y: 64 NC channels of dk and of dv. */
template <int NC>
static __global__ void __launch_bounds__(ATT_THREADS)
    keys_bwd(const __grid_constant__ att_problem p, const att_inputs in, const to_keys to)
{
    DYNAMIC_SHARED(memory);
    const int tiles = (p.longest_full + ATT_TILE - 1) / ATT_TILE, heads = p.H / p.Hkv;
    const int j0 = (int)(blockIdx.x % tiles) * ATT_TILE, chunk = (int)blockIdx.y * NC;
    const int kv = (int)(blockIdx.x / tiles % p.Hkv), b = (int)(blockIdx.x / tiles / p.Hkv);
    const att_sequence s = att_sequence_of(p, b);
    if (j0 >= s.k_full)
        return;
    const size_t key = s.k_begin + j0;
    const int keys = max(0, min((int)ATT_TILE, s.k_len - j0));
    att_side ks = {in.k + key * p.k_row + kv * p.k_head, p.k_row, keys, p.D, in.wide_k, to.k_held,
                   (float *)memory};
    att_side vs = {in.v + key * p.v_row + kv * p.v_head, p.v_row, keys, p.Dv, in.wide_v, to.v_held,
                   ks.shared + to.k_held * ATT_CHUNK};
    att_side qs = {NULL, p.q_row, 0, p.D, in.wide_q, to.q_held, vs.shared + to.v_held * ATT_CHUNK};
    att_side ds = {NULL, in.do_row, 0, p.Dv, in.wide_do, to.do_held,
                   qs.shared + to.q_held * ATT_CHUNK};
    float *weights = ds.shared + to.do_held * ATT_CHUNK, *scores = weights + ATT_CHUNK;
    att_numbers x, y, dk[NC], dv[NC];
#pragma unroll
    for (int n = 0; n < NC; n++) {
        att_clear(dk[n]);
        att_clear(dv[n]);
    }
    int from, last;
    queries_of(&from, &last, p, s, j0);
    if (from < last) {
        att_fill(ks);
        att_fill(vs);
    }
    for (int n = 0; n < heads * (last - from); n++) {
        const int h = kv * heads + n / (last - from), i0 = (from + n % (last - from)) * ATT_TILE;
        __syncthreads();
        qs.data = in.q + (s.q_begin + i0) * p.q_row + h * p.q_head;
        ds.data = in.dout + (s.q_begin + i0) * in.do_row + h * in.do_head;
        qs.rows = ds.rows = min((int)ATT_TILE, s.q_len - i0);
        att_fill(qs);
        att_fill(ds);
        __syncthreads();
        att_all_dots(x, ks, qs);
        att_all_dots(y, vs, ds);
        key_gradients(x, y, p, in, s, b, h, i0, j0);
        att_put(weights, x);
        att_put(scores, y);
        __syncthreads();
#pragma unroll
        for (int m = 0; m < NC; m++) {
            if (to.dv && chunk + m < att_side_chunks(ds))
                att_weigh(dv[m], weights, att_chunk(ds, chunk + m), qs.rows);
            if (to.dk && chunk + m < att_side_chunks(qs))
                att_weigh(dk[m], scores, att_chunk(qs, chunk + m), qs.rows);
        }
    }
    const int rows = min((int)ATT_TILE, s.k_full - j0);
#pragma unroll
    for (int n = 0; n < NC; n++) {
        const int c = (chunk + n) * ATT_TILE;
        if (to.dk)
            att_store({to.dk + key * to.dk_row + kv * to.dk_head + c, to.dk_row, rows, p.D - c,
                       to.wide_dk, to.add_k}, dk[n], p.scale);
        if (to.dv)
            att_store({to.dv + key * to.dv_row + kv * to.dv_head + c, to.dv_row, rows, p.Dv - c,
                       to.wide_dv, to.add_v}, dv[n], 1);
    }
}

template <int NC>
static void launch_keys(const att_problem &p, const att_inputs &in, const to_keys &to)
{
    const int tiles = (p.longest_full + ATT_TILE - 1) / ATT_TILE;
    const int chunks = att_chunks(p.D > p.Dv ? p.D : p.Dv);
    const dim3 grid((unsigned)tiles * p.Hkv * p.B, (chunks + NC - 1) / NC);
    const size_t bytes =
        (size_t)(to.k_held + to.v_held + to.q_held + to.do_held + 2) * ATT_CHUNK_BYTES;
    ATT_ALLOW(keys_bwd<NC>, bytes);
    LAUNCH(keys_bwd<NC>, grid, ATT_THREADS, bytes, p, in, to);
}

/* ---- queries ----------------------------------------------------------------------------------- */

struct to_queries {
    float *dq;
    size_t row, head;
    bool add, wide;
    int q_held, do_held, k_held, v_held;
};

/* Block x: tile, head, sequence; y: 64 NC channels of dq. */
template <int NC>
static __global__ void __launch_bounds__(ATT_THREADS)
    queries_bwd(const __grid_constant__ att_problem p, const att_inputs in, const to_queries to)
{
    DYNAMIC_SHARED(memory);
    const int tiles = (p.longest_q + ATT_TILE - 1) / ATT_TILE;
    const int i0 = (tiles - 1 - (int)(blockIdx.x % tiles)) * ATT_TILE;
    const int h = (int)(blockIdx.x / tiles % p.H), b = (int)(blockIdx.x / tiles / p.H);
    const int group = h / (p.H / p.Hkv), chunk = (int)blockIdx.y * NC;
    const att_sequence s = att_sequence_of(p, b);
    if (i0 >= s.q_len)
        return;
    const int rows = min((int)ATT_TILE, s.q_len - i0);
    att_pair t;
    float *scores = att_pair_of(&t, (float *)memory, p, in, to.q_held, to.do_held, to.k_held,
                                to.v_held);
    att_pair_queries(&t, p, in, s, h, i0);
    att_numbers x, y, dq[NC];
#pragma unroll
    for (int n = 0; n < NC; n++)
        att_clear(dq[n]);
    att_fill(t.q);
    att_fill(t.dout);
    const int begin = att_seen(p, s, i0).lo / ATT_TILE * ATT_TILE;
    const int end = att_seen(p, s, i0 + rows - 1).hi;
    for (int j0 = begin; j0 < end; j0 += ATT_TILE) {
        __syncthreads();
        att_pair_keys(&t, p, in, s, group, j0);
        att_fill(t.k);
        att_fill(t.v);
        __syncthreads();
        att_all_dots(x, t.q, t.k);
        att_all_dots(y, t.dout, t.v);
        att_score_gradients(x, y, p, in, s, b, h, i0, j0);
        att_put(scores, y);
        __syncthreads();
#pragma unroll
        for (int n = 0; n < NC; n++)
            if (chunk + n < att_side_chunks(t.k))
                att_weigh(dq[n], scores, att_chunk(t.k, chunk + n), t.k.rows);
    }
#pragma unroll
    for (int n = 0; n < NC; n++) {
        const int c = (chunk + n) * ATT_TILE;
        att_store({to.dq + (s.q_begin + i0) * to.row + h * to.head + c, to.row, rows, p.D - c,
                   to.wide, to.add}, dq[n], p.scale);
    }
}

template <int NC>
static void launch_queries(const att_problem &p, const att_inputs &in, const to_queries &to)
{
    const int tiles = (p.longest_q + ATT_TILE - 1) / ATT_TILE;
    const dim3 grid((unsigned)tiles * p.H * p.B, (att_chunks(p.D) + NC - 1) / NC);
    const size_t bytes =
        (size_t)(to.q_held + to.do_held + to.k_held + to.v_held + 1) * ATT_CHUNK_BYTES;
    ATT_ALLOW(queries_bwd<NC>, bytes);
    LAUNCH(queries_bwd<NC>, grid, ATT_THREADS, bytes, p, in, to);
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static void keys_and_values(const att_problem &p, const att_inputs &in, qkv_real *dk, qkv_real *dv,
                            const qkv_k_attention_bwd_args *w)
{
    const to_keys to = {dk, dv, w->dk_row, w->dk_head, w->dv_row, w->dv_head, w->acc_k, w->acc_v,
                        att_wide(dk, w->dk_row, w->dk_head, p.D),
                        att_wide(dv, w->dv_row, w->dv_head, p.Dv), att_held(p.D), att_held(p.Dv),
                        att_held(p.D), att_held(p.Dv)};
    if (p.longest_full == 0 || !(dk || dv))
        return;
    if (p.D <= ATT_TILE && p.Dv <= ATT_TILE)
        launch_keys<1>(p, in, to);
    else
        launch_keys<2>(p, in, to);
}

static void queries(const att_problem &p, const att_inputs &in, qkv_real *dq,
                    const qkv_k_attention_bwd_args *w)
{
    const to_queries to = {dq, w->dq_row, w->dq_head, w->acc_q,
                           att_wide(dq, w->dq_row, w->dq_head, p.D), att_held(p.D), att_held(p.Dv),
                           att_held(p.D), att_held(p.Dv)};
    if (p.longest_q == 0 || !dq)
        return;
    if (p.D <= ATT_TILE)
        launch_queries<1>(p, in, to);
    else
        launch_queries<2>(p, in, to);
}

/* Rows of delta: up to the last query. */
static size_t rows_of(const qkv_k_attention_args *a)
{
    size_t rows = 0;
    for (size_t b = 0; b < a->B; b++) {
        const size_t end = a->q_begin[b] + a->q_len[b];
        rows = end > rows ? end : rows;
    }
    return rows;
}

void cuda_attention_bwd(const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv,
                        qkv_real *dbias, const qkv_real *dout, const qkv_real *out,
                        const qkv_real *lse, const qkv_real *q, const qkv_real *k,
                        const qkv_real *v, const qkv_k_attention_args *a,
                        const qkv_k_attention_bwd_args *w)
{
    att_problem p;
    if (!att_problem_of(&p, a))
        return;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *delta = (float *)qkv__arena_alloc(e->scratch, (rows_of(a) * a->H + 1) * sizeof *delta);
    const att_inputs in = {dout, lse, delta, q, k, v, w->do_row, w->do_head,
                           att_wide(dout, w->do_row, w->do_head, p.Dv),
                           att_wide(q, p.q_row, p.q_head, p.D), att_wide(k, p.k_row, p.k_head, p.D),
                           att_wide(v, p.v_row, p.v_head, p.Dv)};
    const size_t warps = (size_t)p.B * p.longest_q * p.H;
    if (delta) {
        if (warps)
            LAUNCH(deltas, (unsigned)((warps * WARP + BLOCK - 1) / BLOCK), BLOCK, 0, p, delta, dout,
                   w->do_row, w->do_head, out);
        keys_and_values(p, in, dk, dv, w);
        queries(p, in, dq, w);
        if (dbias)
            att_bias_bwd(e, dbias, p, in);
    }
    qkv__arena_release(e->scratch, mark);
}
