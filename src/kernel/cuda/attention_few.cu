/* attention_few.cu - attention of 1 to 4 queries a sequence, for generation: what takes time is
 * reading keys and values, as reals, bf16 or 8-bit integers, so they are read once for all queries
 * and heads that share them, by as many blocks as fill the card. Each block takes a part of a
 * sequence's keys; each group of lanes takes keys of its own, 8 channels a lane, with a largest
 * score and sums of its own. Groups are combined at the end, then blocks, in the order of their
 * numbers. */
#include "kernel/cuda/attention_few.cuh"

/* A finished row: the output and lse. */
ATT_DEVICE void few_finish(const att_problem &p, const few_job &w, size_t token, int h, int c,
                           float o, float largest, float sum)
{
    w.out[token * p.o_row + h * p.o_head + c] = sum == 0 ? 0 : o / sum;
    if (c == 0)
        w.lse[token * p.H + h] = sum == 0 ? -INFINITY : largest + logf(sum);
}

/* Numbers of a (query, split), and where they begin. */
ATT_DEVICE float *few_part(const att_problem &p, const few_job &w, int b, int h, int i, int split)
{
    const size_t query = ((size_t)b * p.H + h) * w.queries + i;
    return w.part + (query * w.splits + split) * ((size_t)p.Dv + 2);
}

/* Block x: rows, head of keys, sequence; y: split. */
template <int kind, int ROWS, int KEYS>
static __global__ void __launch_bounds__(FEW_THREADS, ROWS == 1 ? 5 : ROWS == 2 ? 4 : 3)
    few(const __grid_constant__ att_problem p, const few_job w)
{
    DYNAMIC_SHARED(memory);
    const int first = (int)(blockIdx.x % w.row_blocks) * ROWS, width = w.lanes * 8;
    const int group = (int)(blockIdx.x / w.row_blocks % p.Hkv), split = (int)blockIdx.y;
    const int b = (int)(blockIdx.x / w.row_blocks / p.Hkv), heads = p.H / p.Hkv;
    const att_sequence s = att_sequence_of(p, b);
    if (s.q_len == 0)
        return;
    float *q = (float *)memory, *sums = q + ROWS * width;
    float *largest = sums + FEW_WARPS * ROWS * width, *divisors = largest + FEW_WARPS * ROWS;
    few_state<ROWS> x;
    few_start<ROWS>(x, p, w, s, b, group, first);
    few_load_queries(q, p, w, s, group, first, ROWS);
    __syncthreads();
    const int lo = att_seen(p, s, 0).lo, hi = max(lo, att_seen(p, s, s.q_len - 1).hi);
    const int each = (hi - lo + w.splits - 1) / w.splits, begin = lo + each * split;
    few_keys<kind, ROWS, KEYS>(x, p, w, s, group, q, begin, min(hi, begin + each));
    few_combine_groups<ROWS>(x, largest, w.lanes);
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float *y = sums + (warp * ROWS + r) * width + lane * 8;
        if (lane < w.lanes) {
            *(float4 *)y = make_float4(x.o[r][0], x.o[r][1], x.o[r][2], x.o[r][3]);
            *(float4 *)(y + 4) = make_float4(x.o[r][4], x.o[r][5], x.o[r][6], x.o[r][7]);
        }
        if (lane == 0)
            divisors[warp * ROWS + r] = x.sum[r];
    }
    __syncthreads();
    for (int at = (int)threadIdx.x; at < ROWS * width; at += FEW_THREADS) {
        const int r = at / width, c = at % width;
        const int h = group * heads + (first + r) / w.queries, i = (first + r) % w.queries;
        if (first + r >= heads * w.queries || i >= s.q_len || c >= p.Dv)
            continue;
        float o = 0, sum = 0, m = largest[r];
        for (int n = 0; n < FEW_WARPS; n++) {
            o += sums[n * ROWS * width + at];
            sum += divisors[n * ROWS + r];
            m = fmaxf(m, largest[n * ROWS + r]);
        }
        if (w.splits == 1) {
            few_finish(p, w, s.q_begin + i, h, c, o, m, sum);
            continue;
        }
        float *part = few_part(p, w, b, h, i, split);
        part[c] = o;
        if (c == 0)
            part[p.Dv] = m, part[p.Dv + 1] = sum;
    }
}

/* Block x: query, head, sequence. */
static __global__ void few_combine(const __grid_constant__ att_problem p, const few_job w)
{
    __shared__ float share[FEW_SPLITS];
    const int i = (int)(blockIdx.x % w.queries), h = (int)(blockIdx.x / w.queries % p.H);
    const int b = (int)(blockIdx.x / w.queries / p.H), lane = (int)threadIdx.x % WARP;
    const att_sequence s = att_sequence_of(p, b);
    if (i >= s.q_len)
        return;
    const float *part = few_part(p, w, b, h, i, 0);
    const size_t next = (size_t)p.Dv + 2;
    float m = -INFINITY, sum = 0;
    for (int n = lane; n < w.splits; n += WARP)
        m = fmaxf(m, part[n * next + p.Dv]);
    m = warp_max(m);
    for (int n = lane; n < w.splits; n += WARP) {
        const float largest = part[n * next + p.Dv];
        const float by = largest == -INFINITY ? 0 : att_exp(largest - m);
        share[n] = by; /* the same from each warp */
        sum += by * part[n * next + p.Dv + 1];
    }
    sum = warp_sum(sum);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < p.Dv; c += (int)blockDim.x) {
        float o = 0;
        for (int n = 0; n < w.splits; n++)
            if (share[n] != 0)
                o += share[n] * part[n * next + c];
        few_finish(p, w, s.q_begin + i, h, c, o, m, sum);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int kind, int ROWS, int KEYS>
static void few_launch_rows(const qkv_exec *e, const att_problem &p, few_job w)
{
    const int rows = p.H / p.Hkv * w.queries, step = FEW_THREADS / w.lanes * KEYS;
    w.row_blocks = (rows + ROWS - 1) / ROWS;
    const size_t blocks = (size_t)p.B * p.Hkv * w.row_blocks;
    int span = p.longest_k;
    if (p.window && p.window + w.queries < span)
        span = p.window + w.queries;
    size_t splits = (FEW_BLOCKS + blocks - 1) / blocks, most = (span + step - 1) / step;
    most = most > FEW_SPLITS ? (size_t)FEW_SPLITS : most < 1 ? 1 : most;
    w.splits = (int)(splits > most ? most : splits);
    const size_t queries = (size_t)p.B * p.H * w.queries;
    const size_t floats = queries * w.splits * ((size_t)p.Dv + 2);
    const size_t bytes = ((1 + FEW_WARPS) * (size_t)w.lanes * 8 + 2 * FEW_WARPS) * ROWS * 4;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    w.part = NULL;
    if (w.splits > 1)
        w.part = (float *)qkv__arena_alloc(e->scratch, floats * sizeof *w.part);
    if (w.splits == 1 || w.part) {
        LAUNCH((few<kind, ROWS, KEYS>), dim3((unsigned)blocks, w.splits), FEW_THREADS, bytes, p, w);
        if (w.splits > 1)
            LAUNCH(few_combine, (unsigned)queries, FEW_THREADS, 0, p, w);
    }
    qkv__arena_release(e->scratch, mark);
}

template <int kind>
static void few_launch(const qkv_exec *e, const att_problem &p, const few_job &w)
{
    const int rows = p.H / p.Hkv * w.queries;
    if (rows == 1)
        few_launch_rows<kind, 1, 4>(e, p, w);
    else if (rows == 2)
        few_launch_rows<kind, 2, 4>(e, p, w);
    else if (rows <= 4)
        few_launch_rows<kind, 4, 4>(e, p, w);
    else
        few_launch_rows<kind, 8, 2>(e, p, w);
}

/* Whether few kernels serve a problem, whose rows can be read 8 channels at a time. */
static bool few_fits(const att_problem &p)
{
    return p.longest_q <= QKV_K_FEW && !p.dropout && p.D % 8 == 0 && p.Dv % 8 == 0 &&
           p.D <= FEW_WIDTH && p.Dv <= FEW_WIDTH && p.D > 0 && p.Dv > 0;
}

static few_job few_job_of(const att_problem &p, float *out, float *lse, const float *q)
{
    few_job w = {};
    w.q = q, w.out = out, w.lse = lse;
    w.queries = p.longest_q;
    w.lanes = 2;
    while (w.lanes * 8 < p.D || w.lanes * 8 < p.Dv)
        w.lanes *= 2;
    return w;
}

bool att_few(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
             const float *v, const att_problem &p)
{
    if (!few_fits(p) || !att_wide(k, p.k_row, p.k_head, p.D) ||
        !att_wide(v, p.v_row, p.v_head, p.Dv))
        return false;
    few_job w = few_job_of(p, out, lse, q);
    w.k = {k, NULL, p.k_row, p.k_head};
    w.v = {v, NULL, p.v_row, p.v_head};
    few_launch<QKV_K_KV_REAL>(e, p, w);
    return true;
}

void cuda_attention_stored(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                           const qkv_k_stored *k, const qkv_k_stored *v,
                           const qkv_k_attention_args *a)
{
    att_problem p;
    if (!att_problem_of(&p, a) || p.longest_q == 0)
        return;
    if (!few_fits(p) || k->kind != v->kind || (uintptr_t)k->data % 16 || (uintptr_t)v->data % 16) {
        att_stored_as_reals(e, out, lse, q, k, v, a);
        return;
    }
    few_job w = few_job_of(p, out, lse, q);
    w.k = {k->data, k->scale, a->Hkv * a->D, a->D};
    w.v = {v->data, v->scale, a->Hkv * a->Dv, a->Dv};
    if (k->kind == QKV_K_KV_BF16)
        few_launch<QKV_K_KV_BF16>(e, p, w);
    else
        few_launch<QKV_K_KV_INT8>(e, p, w);
}
