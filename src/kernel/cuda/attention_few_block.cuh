/* attention_few_block.cuh - what a block does of attention of few queries: one part of the keys,
 * and all parts together. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_FEW_BLOCK_CUH
#define QKV_KERNEL_CUDA_ATTENTION_FEW_BLOCK_CUH

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

/* Numbers of shared memory that few_part_of wants. */
static inline size_t few_room(const few_job &w, int rows, int threads)
{
    const size_t warps = (size_t)threads / WARP;
    return ((1 + warps) * (size_t)w.lanes * 8 + 2 * warps) * (size_t)rows;
}

/* A block's part: `place` counts rows, heads of keys and sequences, the rows fastest. All threads
 * of the block have left `room`, which they may use again after a barrier. */
template <int kind, int ROWS, int KEYS>
ATT_DEVICE void few_part_of(const att_problem &p, const few_job &w, int place, int split,
                            float *room)
{
    const int first = place % w.row_blocks * ROWS, width = w.lanes * 8;
    const int group = place / w.row_blocks % p.Hkv, b = place / w.row_blocks / p.Hkv;
    const int heads = p.H / p.Hkv, warps = (int)blockDim.x / WARP;
    const att_sequence s = att_sequence_of(p, b);
    if (s.q_len == 0)
        return;
    float *q = room, *sums = q + ROWS * width;
    float *largest = sums + warps * ROWS * width, *divisors = largest + warps * ROWS;
    const int lo = att_seen(p, s, 0).lo, hi = max(lo, att_seen(p, s, s.q_len - 1).hi);
    const int each = (hi - lo + w.splits - 1) / w.splits, begin = lo + each * split;
    const int end = min(hi, begin + each);
    few_batch<kind, KEYS> keys;
    few_state<ROWS> x;
    few_fetch<kind, KEYS>(keys, p, w, s, group, begin + (int)threadIdx.x / w.lanes, end);
    few_start<ROWS>(x, p, w, s, b, group, first);
    few_load_queries(q, p, w, s, group, first, ROWS);
    __syncthreads();
    few_keys<kind, ROWS, KEYS>(x, keys, p, w, s, group, q, begin, end);
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
#pragma unroll 1
    for (int at = (int)threadIdx.x; at < ROWS * width; at += (int)blockDim.x) {
        const int r = at / width, c = at % width;
        const int h = group * heads + (first + r) / w.queries, i = (first + r) % w.queries;
        if (first + r >= heads * w.queries || i >= s.q_len || c >= p.Dv)
            continue;
        float o = 0, sum = 0, m = largest[r];
#pragma unroll 4
        for (int n = 0; n < warps; n++) {
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

/* All parts of a row together: `place` counts queries, heads and sequences, the queries fastest.
 * share: FEW_SPLITS numbers of shared memory, which the block may use again after a barrier. */
ATT_DEVICE void few_whole(const att_problem &p, const few_job &w, int place, float *share)
{
    const int i = place % w.queries, h = place / w.queries % p.H;
    const int b = place / w.queries / p.H, lane = (int)threadIdx.x % WARP;
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

#endif
