/* attention_bf16_forward.cuh - the forward pass of attention on tensor cores, as a warp takes it:
 * its queries against a tile of keys. A lane has rows g and g + 8 of each of M tiles of 16. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_BF16_FORWARD_CUH
#define QKV_KERNEL_CUDA_ATTENTION_BF16_FORWARD_CUH

#include "kernel/cuda/attention_bf16.cuh"

enum { KEYS = 64 };

typedef struct {
    attention_shape s;
    operand q, k, v;
    rows_out out;
    float *lse;
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
template <int D, int M> struct running {
    float out[M][D / 8][4];
    float base[M][2], sum[M][2]; /* sum: of the lane's weights alone */
};

template <int D, int M> static __device__ __forceinline__ void start(running<D, M> &run)
{
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
}

/* The products by groups of warps (wgmma.cuh), of 64 channels. */
void forward_by_groups(forward_args f, const attention_sizes &n, const attention_args *a);

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

/* Those of keys that the lane's queries do not see become `hidden`. row: the warp's first query. */
template <int M>
static __device__ __forceinline__ void hide_keys(float (&x)[M][KEYS / 8][4],
                                                 const attention_shape &s, const sequence &q,
                                                 int row, int j0, float hidden)
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
                        x[m][n][2 * r + c] = hidden;
                }
        }
}

/* Scores become weights, as powers of two from the base that their query has. It is the largest
 * score so far, or at most ENOUGH below it: where it no longer is, what was summed is scaled. */
enum { ENOUGH = 8 };

template <int D, int M>
static __device__ __forceinline__ void weigh(float (&x)[M][KEYS / 8][4], running<D, M> &run,
                                             float scale2)
{
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

/* Bit c: whether weight c of the lane's stays, of 16 queries from row on and 8 keys from j on. Of
 * two lanes that hold neighbouring pairs of keys, the even one asks for row g, the odd for row
 * g + 8, each for four keys. */
static __device__ __forceinline__ unsigned kept_of_rows(const attention_shape &s, const sequence &q,
                                                        int h, int row, int j)
{
    const int lane = (int)threadIdx.x % WARP, odd = lane % 2, i = row + lane / 4 + 8 * odd;
    const unsigned mine = weights_kept(s, q.q_begin + (size_t)i, h, j + lane % 4 / 2 * 4);
    const unsigned other = __shfl_xor_sync(0xffffffffu, mine, 1);
    return ((odd ? other : mine) >> 2 * odd & 3) | ((odd ? mine : other) >> 2 * odd & 3) << 2;
}

template <int M>
static __device__ __forceinline__ void drop_weights(float (&x)[M][KEYS / 8][4],
                                                    const attention_shape &s, const sequence &q,
                                                    int h, int row, int j0)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            const unsigned keep = kept_of_rows(s, q, h, row + 16 * m, j0 + 8 * n);
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (!(keep >> c & 1))
                    x[m][n][c] = 0;
        }
}

template <int D>
static __device__ __forceinline__ void
add_values(running<D, forward_sizes<D>::M> &run, const float (&x)[forward_sizes<D>::M][KEYS / 8][4],
           const bf16 *v)
{
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        unsigned a[forward_sizes<D>::M][4];
#pragma unroll
        for (int m = 0; m < forward_sizes<D>::M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[m][i] = bf16_pair(x[m][2 * j + i / 2][i % 2 * 2],
                                    x[m][2 * j + i / 2][i % 2 * 2 + 1]);
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

template <bool WHOLE, int D, int M>
static __device__ __forceinline__ void finish(const running<D, M> &run, const forward_args &f,
                                              const sequence &q, int h, int row)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
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
            const size_t to = at * f.out.row + (size_t)h * f.out.head;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                const int column = 8 * n + lane % 4 * 2;
                store_pair_of(f.out, to, run.out[m][n][2 * r] * factor,
                              run.out[m][n][2 * r + 1] * factor, column, f.s.Dv, WHOLE);
            }
        }
}

template <int D>
static __device__ __forceinline__ void begin_keys(bf16 *memory, const forward_args &f,
                                                  const sequence &q, int head, int j0, int stage)
{
    bf16 *k = memory + stage * 2 * KEYS * forward_sizes<D>::WIDE;
    begin_copy<D, KEYS>(k, f.k, key_row(f.k, q, j0), head, q.keys - j0);
    begin_copy<D, KEYS>(k + KEYS * forward_sizes<D>::WIDE, f.v, key_row(f.v, q, j0), head,
                        q.keys - j0);
    copy_async_group();
}

#endif
