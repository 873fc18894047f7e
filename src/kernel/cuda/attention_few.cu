/* attention_few.cu - attention of 1 to 4 queries a sequence, for generation: what takes time is
 * reading keys and values, as reals, bf16 or 8-bit integers, so they are read once for all queries
 * and heads that share them, by as many blocks as fill the card. Each block takes a part of a
 * sequence's keys; each group of lanes takes keys of its own, 8 channels a lane, with a largest score
 * and sums of its own. Groups are combined at the end, then blocks, in an order of their numbers. */
#include <vector>

#include "kernel/cuda/attention.cuh"

enum {
    FEW_THREADS = 128,
    FEW_WARPS = FEW_THREADS / WARP,
    FEW_WIDTH = 256,   /* channels at most */
    FEW_BLOCKS = 528,  /* enough to fill a card; fixed, as it decides the order of sums */
    FEW_SPLITS = 256
};

/* Keys or values: head g of row r is at data + r row + g head, in elements. */
struct few_side {
    const void *data;
    const float *scale; /* (rows, Hkv) of integers */
    size_t row, head;
};

struct few_job {
    few_side k, v;
    const float *q;
    float *out, *lse;
    float *part; /* splits > 1: of each (query, split) the sums (Dv), the largest, the divisor */
    int lanes, splits, queries, row_blocks;
};

/* ---- 8 numbers as they are stored -------------------------------------------------------------- */

struct few_reals {
    float4 a, b;
};
template <int kind> struct few_raw;
template <> struct few_raw<QKV_K_KV_REAL> {
    typedef few_reals type;
    enum { BYTES = 4 };
};
template <> struct few_raw<QKV_K_KV_BF16> {
    typedef uint4 type;
    enum { BYTES = 2 };
};
template <> struct few_raw<QKV_K_KV_INT8> {
    typedef uint2 type;
    enum { BYTES = 1 };
};

ATT_DEVICE void few_widen(float (&y)[8], const few_reals &x)
{
    y[0] = x.a.x, y[1] = x.a.y, y[2] = x.a.z, y[3] = x.a.w;
    y[4] = x.b.x, y[5] = x.b.y, y[6] = x.b.z, y[7] = x.b.w;
}
ATT_DEVICE void few_widen(float (&y)[8], const uint4 &x)
{
    const unsigned w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        y[2 * i] = __uint_as_float(w[i] << 16);
        y[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}
ATT_DEVICE void few_widen(float (&y)[8], const uint2 &x)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        y[i] = (float)(int8_t)(x.x >> 8 * i);
        y[i + 4] = (float)(int8_t)(x.y >> 8 * i);
    }
}

template <int kind>
ATT_DEVICE typename few_raw<kind>::type few_read(const few_side &x, size_t row, int group, int c)
{
    const size_t at = row * x.row + group * x.head + c;
    return *(const typename few_raw<kind>::type *)((const char *)x.data +
                                                   at * few_raw<kind>::BYTES);
}

/* ---- a part of the keys ------------------------------------------------------------------------ */

/* Rows of a block: pairs of head and query, the query fastest. */
template <int ROWS> struct few_state {
    float largest[ROWS], sum[ROWS], o[ROWS][8];
    att_range seen[ROWS];
    const float *bias[ROWS];
};

template <int ROWS>
ATT_DEVICE void few_start(few_state<ROWS> &x, const att_problem &p, const few_job &w,
                          const att_sequence &s, int b, int group, int first)
{
    const int heads = p.H / p.Hkv;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int h = group * heads + (first + r) / w.queries, i = (first + r) % w.queries;
        x.largest[r] = -INFINITY, x.sum[r] = 0;
        x.seen[r] = att_seen(p, s, i);
        if (first + r >= heads * w.queries)
            x.seen[r].hi = 0;
        x.bias[r] = p.bias ? att_bias(p, b, h, i) : NULL;
#pragma unroll
        for (int c = 0; c < 8; c++)
            x.o[r][c] = 0;
    }
}

/* scale q of the block's rows to shared memory: halves of a lane's 8 channels apart, so that lanes
 * read neighbouring banks. 0 beyond D. */
ATT_DEVICE void few_load_queries(float *to, const att_problem &p, const few_job &w,
                                 const att_sequence &s, int group, int first, int rows)
{
    const int width = w.lanes * 8, heads = p.H / p.Hkv;
    for (int at = (int)threadIdx.x; at < rows * width; at += FEW_THREADS) {
        const int r = first + at / width, c = at % width, i = r % w.queries;
        const int h = group * heads + r / w.queries;
        const bool there = r < heads * w.queries && i < s.q_len && c < p.D;
        to[at / width * width + c / 4 % 2 * (width / 2) + c / 8 * 4 + c % 4] =
            there ? p.scale * w.q[(s.q_begin + i) * p.q_row + h * p.q_head + c] : 0;
    }
}

/* s[r][n] = <q of row r, key n> of a lane's channels. */
template <int kind, int ROWS, int KEYS>
ATT_DEVICE void few_dots(float (&s)[ROWS][KEYS], const typename few_raw<kind>::type (&k)[KEYS],
                         const float *q, int lane, int lanes)
{
    float x[KEYS][8];
#pragma unroll
    for (int n = 0; n < KEYS; n++)
        few_widen(x[n], k[n]);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float4 a = *(const float4 *)(q + r * lanes * 8 + lane * 4);
        const float4 b = *(const float4 *)(q + r * lanes * 8 + lanes * 4 + lane * 4);
#pragma unroll
        for (int n = 0; n < KEYS; n++)
            s[r][n] = a.x * x[n][0] + a.y * x[n][1] + a.z * x[n][2] + a.w * x[n][3] +
                      b.x * x[n][4] + b.y * x[n][5] + b.z * x[n][6] + b.w * x[n][7];
    }
    for (int d = lanes / 2; d > 0; d /= 2)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < KEYS; n++)
                s[r][n] += __shfl_xor_sync(0xffffffffu, s[r][n], d);
}

/* Scores of keys j0 + n step become weights relative to the row's largest so far. */
template <int ROWS, int KEYS>
ATT_DEVICE void few_weights(float (&s)[ROWS][KEYS], few_state<ROWS> &x, const float (&scale)[KEYS],
                            int j0, int step, int end)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float now = x.largest[r];
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            const int j = j0 + n * step;
            const bool sees = j >= x.seen[r].lo && j < x.seen[r].hi && j < end;
            const float bias = x.bias[r] && sees ? x.bias[r][j] : 0;
            s[r][n] = sees ? scale[n] * s[r][n] + bias : -INFINITY;
            now = fmaxf(now, s[r][n]);
        }
        const float by = x.largest[r] == -INFINITY ? 0 : att_exp(x.largest[r] - now);
        x.largest[r] = now;
        x.sum[r] *= by;
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            s[r][n] = now == -INFINITY ? 0 : att_exp(s[r][n] - now);
            x.sum[r] += s[r][n];
        }
#pragma unroll
        for (int c = 0; c < 8; c++)
            x.o[r][c] *= by;
    }
}

template <int kind, int ROWS, int KEYS>
ATT_DEVICE void few_weigh(few_state<ROWS> &x, const float (&s)[ROWS][KEYS],
                          const typename few_raw<kind>::type (&v)[KEYS], const float (&scale)[KEYS])
{
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        float y[8];
        few_widen(y, v[n]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float weight = kind == QKV_K_KV_INT8 ? scale[n] * s[r][n] : s[r][n];
#pragma unroll
            for (int c = 0; c < 8; c++)
                x.o[r][c] += weight * y[c];
        }
    }
}

/* Keys begin .. end-1 by all groups of the block. */
template <int kind, int ROWS, int KEYS>
ATT_DEVICE void few_keys(few_state<ROWS> &x, const att_problem &p, const few_job &w,
                         const att_sequence &s, int group, const float *q, int begin, int end)
{
    typedef typename few_raw<kind>::type raw;
    const int lane = (int)threadIdx.x % w.lanes, groups = FEW_THREADS / w.lanes;
    const int c = lane * 8;
    for (int j0 = begin + (int)threadIdx.x / w.lanes; j0 - (int)threadIdx.x / w.lanes < end;
         j0 += groups * KEYS) {
        raw k[KEYS], v[KEYS];
        float k_scale[KEYS], v_scale[KEYS], dots[ROWS][KEYS];
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            const int j = j0 + n * groups;
            const size_t row = s.k_begin + j;
            k[n] = v[n] = raw{};
            k_scale[n] = v_scale[n] = 1;
            if (j < end && c < p.D)
                k[n] = few_read<kind>(w.k, row, group, c);
            if (j < end && c < p.Dv)
                v[n] = few_read<kind>(w.v, row, group, c);
            if (kind == QKV_K_KV_INT8 && j < end) {
                k_scale[n] = w.k.scale[row * p.Hkv + group];
                v_scale[n] = w.v.scale[row * p.Hkv + group];
            }
        }
        few_dots<kind, ROWS, KEYS>(dots, k, q, lane, w.lanes);
        few_weights<ROWS, KEYS>(dots, x, k_scale, j0, groups, end);
        few_weigh<kind, ROWS, KEYS>(x, dots, v, v_scale);
    }
}

/* ---- groups, and blocks, together --------------------------------------------------------------- */

/* The same largest score in all groups of the block, and sums of a warp in each of its groups.
 * largest: (FEW_WARPS, ROWS) of shared memory. */
template <int ROWS>
ATT_DEVICE void few_combine_groups(few_state<ROWS> &x, float *largest, int lanes)
{
    const int warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float m = x.largest[r];
        for (int d = lanes; d < WARP; d *= 2)
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
        if (threadIdx.x % WARP == 0)
            largest[warp * ROWS + r] = m;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float m = largest[r];
        for (int n = 1; n < FEW_WARPS; n++)
            m = fmaxf(m, largest[n * ROWS + r]);
        const float by = x.largest[r] == -INFINITY ? 0 : att_exp(x.largest[r] - m);
        x.largest[r] = m;
        x.sum[r] *= by;
#pragma unroll
        for (int c = 0; c < 8; c++)
            x.o[r][c] *= by;
        for (int d = lanes; d < WARP; d *= 2) {
            x.sum[r] += __shfl_xor_sync(0xffffffffu, x.sum[r], d);
#pragma unroll
            for (int c = 0; c < 8; c++)
                x.o[r][c] += __shfl_xor_sync(0xffffffffu, x.o[r][c], d);
        }
    }
}

/* A finished row: the output and lse. */
ATT_DEVICE void few_finish(const att_problem &p, const few_job &w, size_t token, int h, int c,
                           float o, float largest, float sum)
{
    w.out[token * p.o_row + h * p.o_head + c] = sum == 0 ? 0 : o / sum;
    if (c == 0)
        w.lse[token * p.H + h] = largest == -INFINITY ? -INFINITY : largest + logf(sum);
}

/* Numbers of a (query, split), and where they begin. */
ATT_DEVICE float *few_part(const att_problem &p, const few_job &w, int b, int h, int i, int split)
{
    const size_t query = ((size_t)b * p.H + h) * w.queries + i;
    return w.part + (query * w.splits + split) * ((size_t)p.Dv + 2);
}

/* Block x: rows, head of keys, sequence; y: split. */
template <int kind, int ROWS, int KEYS>
static __global__ void __launch_bounds__(FEW_THREADS)
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

/* ---- launches ---------------------------------------------------------------------------------- */

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

template <int kind> static void few_launch(const qkv_exec *e, const att_problem &p, const few_job &w)
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

/* ---- caches of other shapes: as reals ------------------------------------------------------------ */

static __global__ void few_reals_of(float *y, const void *x, const float *scale, size_t first,
                                    size_t n, int width)
{
    for (FOR_EACH(i, n)) {
        const size_t at = first * width + i;
        y[i] = scale ? (float)((const int8_t *)x)[at] * scale[at / width]
                     : __uint_as_float((unsigned)((const uint16_t *)x)[at] << 16);
    }
}

static void stored_as_reals(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                            const qkv_k_stored *k, const qkv_k_stored *v,
                            const qkv_k_attention_args *a)
{
    qkv_k_attention_args reals = *a;
    std::vector<size_t> begin(a->B);
    size_t rows = 0;
    for (size_t b = 0; b < a->B; b++)
        begin[b] = rows, rows += a->k_len_full[b];
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *x = (float *)qkv__arena_alloc(e->scratch, (rows * a->Hkv * a->D + 1) * sizeof *x);
    float *y = (float *)qkv__arena_alloc(e->scratch, (rows * a->Hkv * a->Dv + 1) * sizeof *y);
    for (size_t b = 0; x && y && b < a->B; b++) {
        const size_t from = a->k_begin[b] * a->Hkv, to = begin[b] * a->Hkv;
        const size_t n = a->k_len_full[b] * a->Hkv;
        if (n == 0)
            continue;
        LAUNCH(few_reals_of, cuda_blocks(n * a->D), BLOCK, 0, x + to * a->D, k->data,
               k->kind == QKV_K_KV_INT8 ? k->scale : NULL, from, n * a->D, (int)a->D);
        LAUNCH(few_reals_of, cuda_blocks(n * a->Dv), BLOCK, 0, y + to * a->Dv, v->data,
               v->kind == QKV_K_KV_INT8 ? v->scale : NULL, from, n * a->Dv, (int)a->Dv);
    }
    reals.k_begin = begin.data();
    reals.k_row = a->Hkv * a->D, reals.k_head = a->D;
    reals.v_row = a->Hkv * a->Dv, reals.v_head = a->Dv;
    if (x && y)
        cuda_attention(e, out, lse, q, x, y, &reals);
    qkv__arena_release(e->scratch, mark);
}

void cuda_attention_stored(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                           const qkv_k_stored *k, const qkv_k_stored *v,
                           const qkv_k_attention_args *a)
{
    att_problem p;
    if (!att_problem_of(&p, a) || p.longest_q == 0)
        return;
    if (!few_fits(p) || k->kind != v->kind || (uintptr_t)k->data % 16 || (uintptr_t)v->data % 16) {
        stored_as_reals(e, out, lse, q, k, v, a);
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
