/* attention_few.cuh - a block's part in attention of few queries: keys and values read 8 channels
 * at a time, as reals, bf16 or 8-bit integers; scores, weights and sums of groups of lanes. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_FEW_CUH
#define QKV_KERNEL_CUDA_ATTENTION_FEW_CUH

#include "kernel/cuda/attention.cuh"

enum {
    FEW_THREADS = 128, /* of a launch's block */
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

/* ---- 8 numbers as they are stored ------------------------------------------------------------ */

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

/* ---- a part of the keys ---------------------------------------------------------------------- */

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
#pragma unroll 1
    for (int at = (int)threadIdx.x; at < rows * width; at += (int)blockDim.x) {
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
            s[r][n] = att_weight(s[r][n], now);
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

/* What a group of lanes has of its next keys: j0, j0 + groups, .. below end. */
template <int kind, int KEYS> struct few_batch {
    typename few_raw<kind>::type k[KEYS], v[KEYS];
    float k_scale[KEYS], v_scale[KEYS];
};

template <int kind, int KEYS>
ATT_DEVICE void few_fetch(few_batch<kind, KEYS> &b, const att_problem &p, const few_job &w,
                          const att_sequence &s, int group, int j0, int end)
{
    const int groups = (int)blockDim.x / w.lanes, c = (int)threadIdx.x % w.lanes * 8;
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        const int j = j0 + n * groups;
        const size_t row = s.k_begin + j;
        b.k[n] = b.v[n] = typename few_raw<kind>::type{};
        b.k_scale[n] = b.v_scale[n] = 1;
        if (j < end && c < p.D)
            b.k[n] = few_read<kind>(w.k, row, group, c);
        if (j < end && c < p.Dv)
            b.v[n] = few_read<kind>(w.v, row, group, c);
        if (kind == QKV_K_KV_INT8 && j < end) {
            b.k_scale[n] = w.k.scale[row * p.Hkv + group];
            b.v_scale[n] = w.v.scale[row * p.Hkv + group];
        }
    }
}

/* Keys begin .. end-1 by all groups of the block, of which b has the first. */
template <int kind, int ROWS, int KEYS>
ATT_DEVICE void few_keys(few_state<ROWS> &x, few_batch<kind, KEYS> &b, const att_problem &p,
                         const few_job &w, const att_sequence &s, int group, const float *q,
                         int begin, int end)
{
    const int lane = (int)threadIdx.x % w.lanes, groups = (int)blockDim.x / w.lanes;
    const int own = (int)threadIdx.x / w.lanes;
    for (int j0 = begin + own; j0 - own < end; j0 += groups * KEYS) {
        float dots[ROWS][KEYS];
        if (j0 - own > begin)
            few_fetch<kind, KEYS>(b, p, w, s, group, j0, end);
        few_dots<kind, ROWS, KEYS>(dots, b.k, q, lane, w.lanes);
        few_weights<ROWS, KEYS>(dots, x, b.k_scale, j0, groups, end);
        few_weigh<kind, ROWS, KEYS>(x, dots, b.v, b.v_scale);
    }
}

/* ---- groups, and blocks, together ------------------------------------------------------------ */

/* The same largest score in all groups of the block, and sums of a warp in each of its groups.
 * largest: (warps, ROWS) of shared memory. */
template <int ROWS>
ATT_DEVICE void few_combine_groups(few_state<ROWS> &x, float *largest, int lanes)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int warps = (int)blockDim.x / WARP;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float m = x.largest[r];
        for (int d = lanes; d < WARP; d *= 2)
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
        if (lane == 0)
            largest[warp * ROWS + r] = m;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float m = warp_max(lane < warps ? largest[lane * ROWS + r] : -INFINITY);
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

/* attention_stored of every shape, by way of reals in scratch memory; attention_stored.cu. */
qkv_k_attention_stored_fn att_stored_as_reals;

#endif
