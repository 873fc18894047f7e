/* attention.cu - attention forward in f32, for every shape: a block takes 64 queries of a head and
 * goes through the keys that they see, 64 at a time; weights stay on the chip, and what is summed
 * is rescaled whenever a larger score appears. Few queries a sequence have a file of their own. */
#include <vector>

#include "kernel/cuda/attention_tiles.cuh"

/* ---- the problem ----------------------------------------------------------------------------- */

static void set_dropout(att_problem *p, const qkv_k_dropout_args *d)
{
    p->dropout = d->p > 0;
    p->keep = 1;
    if (!p->dropout)
        return;
    p->keep = (float)(1 / (1 - d->p));
    p->threshold = qkv__dropout_threshold(d->p);
    p->step = (uint32_t)d->step;
    p->site = d->dropout_id;
    p->seed_low = (uint32_t)d->seed;
    p->seed_high = (uint32_t)(d->seed >> 32);
    p->first_row = d->first;
}

static att_sequence sequence_of(const qkv_k_attention_args *a, size_t b)
{
    return {a->q_begin[b], a->k_begin[b], (int)a->q_len[b], (int)a->k_len[b],
            (int)a->k_len_full[b]};
}

static bool evenly_spaced(const qkv_k_attention_args *a)
{
    bool even = true;
    for (size_t b = 1; b < a->B; b++)
        even = even && a->q_len[b] == a->q_len[0] && a->k_len[b] == a->k_len[0] &&
               a->k_len_full[b] == a->k_len_full[0] &&
               a->q_begin[b] - a->q_begin[b - 1] == a->q_begin[1] - a->q_begin[0] &&
               a->k_begin[b] - a->k_begin[b - 1] == a->k_begin[1] - a->k_begin[0];
    return even;
}

/* False when there are none, or their upload failed. */
static bool set_sequences(att_problem *p, const qkv_k_attention_args *a)
{
    p->even = evenly_spaced(a);
    p->q_step = p->even && a->B > 1 ? a->q_begin[1] - a->q_begin[0] : 0;
    p->k_step = p->even && a->B > 1 ? a->k_begin[1] - a->k_begin[0] : 0;
    p->longest_q = p->longest_k = p->longest_full = 0;
    std::vector<att_sequence> many(!p->even && a->B > ATT_INLINE ? a->B : 0);
    for (size_t b = 0; b < a->B; b++) {
        const att_sequence s = sequence_of(a, b);
        p->longest_q = s.q_len > p->longest_q ? s.q_len : p->longest_q;
        p->longest_k = s.k_len > p->longest_k ? s.k_len : p->longest_k;
        p->longest_full = s.k_full > p->longest_full ? s.k_full : p->longest_full;
        if (!many.empty())
            many[b] = s;
        else if (!p->even || b == 0)
            p->few[b] = s;
    }
    p->many = NULL;
    if (!many.empty())
        p->many = (const att_sequence *)cuda_upload(many.data(), a->B * sizeof many[0]);
    return a->B && (many.empty() || p->many);
}

/* A window that no pair of positions leaves is none. */
static int window_of(const qkv_k_attention_args *a)
{
    const size_t most = 1 << 30;
    return a->causal && a->window < most ? (int)a->window : 0;
}

bool att_problem_of(att_problem *p, const qkv_k_attention_args *a)
{
    p->B = (int)a->B, p->H = (int)a->H, p->Hkv = (int)a->Hkv;
    p->D = (int)a->D, p->Dv = (int)a->Dv;
    p->causal = a->causal, p->window = window_of(a);
    p->q_row = a->q_row, p->q_head = a->q_head, p->k_row = a->k_row, p->k_head = a->k_head;
    p->v_row = a->v_row, p->v_head = a->v_head, p->o_row = a->o_row, p->o_head = a->o_head;
    p->scale = (float)a->scale;
    p->bias = a->bias;
    p->bias_b = (ptrdiff_t)a->bias_b, p->bias_h = (ptrdiff_t)a->bias_h, p->bias_t = a->bias_t;
    set_dropout(p, &a->dropout);
    return set_sequences(p, a) && a->H;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* What a thread keeps of its 8 rows: the largest score so far, its part of the sum of weights. */
struct forward_rows {
    float largest[8], sum[8];
};

/* Dots become scores, -inf where a query does not see a key. */
ATT_DEVICE void forward_scores(att_numbers &s, const att_problem &p, const att_sequence &q, int b,
                               int h, int i0, int j0)
{
    att_scores(s, p, q, b, h, i0, j0);
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const att_range seen = att_seen(p, q, i0 + att_row() + att_step(r));
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const int j = j0 + att_column() + 16 * c;
            if (j < seen.lo || j >= seen.hi)
                s[r][c] = -INFINITY;
        }
    }
}

/* Scores become weights relative to the largest so far; what was summed before is rescaled. */
template <int NC>
ATT_DEVICE void forward_weights(att_numbers &s, forward_rows &x, att_numbers (&o)[NC])
{
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const float here = att_row_max(fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3])));
        const float was = x.largest[r], now = fmaxf(was, here);
        const float by = was == -INFINITY ? 0 : att_exp(was - now);
        x.largest[r] = now;
        x.sum[r] *= by;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            s[r][c] = att_weight(s[r][c], now);
            x.sum[r] += s[r][c];
        }
#pragma unroll
        for (int n = 0; n < NC; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                o[n][r][c] *= by;
    }
}

ATT_DEVICE void forward_dropout(att_numbers &s, const att_problem &p, const att_sequence &q, int h,
                                int i0, int j0)
{
    const unsigned kept = att_kept(p, q, h, i0, j0);
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            s[r][c] *= kept >> (4 * r + c) & 1 ? p.keep : 0;
}

/* Block x: tile, head, sequence; y: 64 NC channels of the output. Long causal tiles come first. */
template <int NC>
static __global__ void __launch_bounds__(ATT_THREADS, NC == 1 ? 3 : 2)
    attend(const __grid_constant__ att_problem p, float *out, float *lse, const float *q,
           const float *k, const float *v, int q_held, bool wide_q, bool wide_k, bool wide_v,
           bool wide_o)
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
    float *room = (float *)memory;
    att_side qs = {q + (s.q_begin + i0) * p.q_row + h * p.q_head, p.q_row, rows, p.D, wide_q,
                   q_held, room};
    att_side ks = {NULL, p.k_row, 0, p.D, wide_k, 1, qs.shared + q_held * ATT_CHUNK};
    att_side vs = {NULL, p.v_row, 0, p.Dv, wide_v, NC, ks.shared + ATT_CHUNK};
    float *weights = vs.shared + NC * ATT_CHUNK;
    att_numbers x, o[NC];
    forward_rows state;
#pragma unroll
    for (int r = 0; r < 8; r++)
        state.largest[r] = -INFINITY, state.sum[r] = 0;
#pragma unroll
    for (int n = 0; n < NC; n++)
        att_clear(o[n]);
    att_fill(qs);
    const int begin = att_seen(p, s, i0).lo / ATT_TILE * ATT_TILE;
    const int end = att_seen(p, s, i0 + rows - 1).hi;
    for (int j0 = begin; j0 < end; j0 += ATT_TILE) {
        __syncthreads();
        ks.data = k + (s.k_begin + j0) * p.k_row + group * p.k_head;
        vs.data = v + (s.k_begin + j0) * p.v_row + group * p.v_head;
        ks.rows = vs.rows = min((int)ATT_TILE, s.k_len - j0);
        att_fill(ks);
#pragma unroll
        for (int n = 0; n < NC; n++)
            att_load(vs.shared + n * ATT_CHUNK, vs, chunk + n);
        __syncthreads();
        att_all_dots(x, qs, ks);
        forward_scores(x, p, s, b, h, i0, j0);
        forward_weights<NC>(x, state, o);
        if (p.dropout)
            forward_dropout(x, p, s, h, i0, j0);
        att_put(weights, x);
        __syncthreads();
#pragma unroll
        for (int n = 0; n < NC; n++)
            att_weigh(o[n], weights, vs.shared + n * ATT_CHUNK, ks.rows);
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const float sum = att_row_sum(state.sum[r]), by = sum == 0 ? 0 : 1 / sum;
        const int row = att_row() + att_step(r);
        const size_t token = s.q_begin + i0 + row;
        if (att_column() == 0 && chunk == 0 && row < rows)
            lse[token * p.H + h] =
                sum == 0 ? -INFINITY : state.largest[r] + logf(sum);
#pragma unroll
        for (int n = 0; n < NC; n++) {
            const int c = (chunk + n) * ATT_TILE;
            const att_target t = {out + (s.q_begin + i0) * p.o_row + h * p.o_head + c, p.o_row,
                                  rows, p.Dv - c, wide_o, false};
            att_store_row(t, row, o[n][r], by);
        }
    }
}

template <int NC>
static void launch_forward(const att_problem &p, float *out, float *lse, const float *q,
                           const float *k, const float *v)
{
    const int tiles = (p.longest_q + ATT_TILE - 1) / ATT_TILE, q_held = att_held(p.D);
    const int chunks = att_chunks(p.Dv);
    const dim3 grid((unsigned)tiles * p.H * p.B, chunks ? (chunks + NC - 1) / NC : 1);
    const size_t bytes = (size_t)(q_held + 1 + NC + 1) * ATT_CHUNK_BYTES;
    ATT_ALLOW(attend<NC>, bytes);
    const bool wq = att_wide(q, p.q_row, p.q_head, p.D), wk = att_wide(k, p.k_row, p.k_head, p.D);
    const bool wv = att_wide(v, p.v_row, p.v_head, p.Dv);
    const bool wo = att_wide(out, p.o_row, p.o_head, p.Dv);
    LAUNCH(attend<NC>, grid, ATT_THREADS, bytes, p, out, lse, q, k, v, q_held, wq, wk, wv, wo);
}

void cuda_attention(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                    const qkv_real *k, const qkv_real *v, const qkv_k_attention_args *a)
{
    att_problem p;
    if (!att_problem_of(&p, a) || p.longest_q == 0 || att_few(e, out, lse, q, k, v, p))
        return;
    if (p.Dv <= ATT_TILE)
        launch_forward<1>(p, out, lse, q, k, v);
    else
        launch_forward<2>(p, out, lse, q, k, v);
}

extern "C" void qkv__cuda_attention(qkv_kernels *k)
{
    k->attention = cuda_attention;
    k->attention_bwd = cuda_attention_bwd;
    k->attention_rows = cuda_attention_rows;
    k->attention_stored = cuda_attention_stored;
}
