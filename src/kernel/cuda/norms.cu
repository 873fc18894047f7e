/* norms.cu - layer norm and RMS norm. A row is kept in the registers of a team, a warp or a block,
 * from one read of memory on; rows that are too long or not aligned are read again and again. */
#include "kernel/cuda/columns.cuh"

enum { WARP_QUADS = 6, BLOCK_QUADS = 4, BLOCK_MOST = 512 };

/* ---- teams --------------------------------------------------------------------------------------- */

/* How rows of C numbers are shared out: teams of `team` threads in blocks of `threads`. Each thread
 * has quads groups of four numbers of a row; 0: rows of C do not fit. */
typedef struct {
    unsigned team, threads;
    int quads;
} row_teams;

static row_teams row_teams_of(size_t C)
{
    row_teams t = {WARP, BLOCK, 0};
    if (C <= 4 * WARP * WARP_QUADS) {
        t.quads = C <= 4 * WARP ? 1 : C <= 8 * WARP ? 2 : C <= 16 * WARP ? 4 : WARP_QUADS;
        return t;
    }
    for (t.team = 128; t.team < BLOCK_MOST && 4 * t.team * BLOCK_QUADS < C;)
        t.team *= 2;
    t.threads = t.team;
    t.quads = C <= 8 * t.team ? 2 : C <= 4 * t.team * BLOCK_QUADS ? BLOCK_QUADS : 0;
    return t;
}

/* LAUNCH of the instance of kernel<quads, whole block> that serves teams t. */
#define LAUNCH_TEAMS(kernel, t, grid, shared, ...)                                                 \
    do {                                                                                           \
        if ((t).team > WARP && (t).quads == 2)                                                     \
            LAUNCH((kernel<2, true>), grid, (t).threads, shared, __VA_ARGS__);                     \
        else if ((t).team > WARP)                                                                  \
            LAUNCH((kernel<BLOCK_QUADS, true>), grid, (t).threads, shared, __VA_ARGS__);           \
        else if ((t).quads == 1)                                                                   \
            LAUNCH((kernel<1, false>), grid, (t).threads, shared, __VA_ARGS__);                    \
        else if ((t).quads == 2)                                                                   \
            LAUNCH((kernel<2, false>), grid, (t).threads, shared, __VA_ARGS__);                    \
        else if ((t).quads == 4)                                                                   \
            LAUNCH((kernel<4, false>), grid, (t).threads, shared, __VA_ARGS__);                    \
        else                                                                                       \
            LAUNCH((kernel<WARP_QUADS, false>), grid, (t).threads, shared, __VA_ARGS__);           \
    } while (0)

/* Both sums over a team; partial: 2 WARP numbers. */
template <bool WHOLE> static __device__ __forceinline__ float2 team_sums(float2 x, float *partial)
{
    if (!WHOLE)
        return make_float2(warp_sum(x.x), warp_sum(x.y));
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = make_float2(warp_sum(x.x), warp_sum(x.y));
    if (lane == 0) {
        partial[warp] = x.x;
        partial[WARP + warp] = x.y;
    }
    __syncthreads();
    x.x = warp_sum(lane < warps ? partial[lane] : 0.0f);
    x.y = warp_sum(lane < warps ? partial[WARP + lane] : 0.0f);
    __syncthreads();
    return x;
}

/* ---- forward --------------------------------------------------------------------------------------- */

typedef struct {
    float *y, *sum, *mean, *rstd;
    const float *x, *residual, *weight, *bias;
    size_t N, C;
    float eps;
    bool rms;
} norm_job;

static __device__ __forceinline__ float quad_sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }

static __device__ __forceinline__ float quad_dot(float4 a, float4 b)
{
    return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
}

static __device__ __forceinline__ float4 quad_of(const float *row, size_t j)
{
    return ((const float4 *)row)[j];
}

/* The row minus the float next to its mean, and the standard deviation; what is left of the mean
 * (shift) comes from a second sum, which keeps the digits that a large mean would take. */
static __device__ __forceinline__ float norm_rstd(norm_job a, float2 sums, float *shift)
{
    float n = (float)a.C;
    *shift = a.rms ? 0 : sums.x / n;
    return 1 / sqrtf(fmaxf(sums.y / n - *shift * *shift, 0) + a.eps);
}

static __device__ __forceinline__ float norm_value(norm_job a, float v, size_t c)
{
    v = a.weight ? v * a.weight[c] : v;
    return a.bias ? v + a.bias[c] : v;
}

static __device__ __forceinline__ void norm_keep(norm_job a, size_t row, float mean, float rstd)
{
    if (a.mean && !a.rms)
        a.mean[row] = mean;
    if (a.rstd)
        a.rstd[row] = rstd;
}

template <int QUADS, bool WHOLE> __global__ void __launch_bounds__(BLOCK_MOST) norm_held(norm_job a)
{
    __shared__ float partial[2 * WARP];
    const unsigned team = WHOLE ? blockDim.x : WARP, lane = threadIdx.x % team;
    const size_t teams = blockDim.x / team, quads = a.C / 4;
    const float4 none = make_float4(0, 0, 0, 0);
    for (size_t row = blockIdx.x * teams + threadIdx.x / team; row < a.N;
         row += gridDim.x * teams) {
        float4 v[QUADS];
        float2 sums = make_float2(0, 0);
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * team;
            v[q] = j < quads ? quad_of(a.x + row * a.C, j) : none;
            if (a.residual && j < quads) {
                v[q] = add4(v[q], quad_of(a.residual + row * a.C, j));
                if (a.sum)
                    ((float4 *)(a.sum + row * a.C))[j] = v[q];
            }
            sums.x += quad_sum(v[q]);
        }
        const float mean = a.rms ? 0 : team_sums<WHOLE>(sums, partial).x / (float)a.C;
        sums = make_float2(0, 0);
#pragma unroll
        for (int q = 0; q < QUADS; q++)
            if (lane + (size_t)q * team < quads) {
                v[q] = minus4(v[q], make_float4(mean, mean, mean, mean));
                sums.x += quad_sum(v[q]);
                sums.y += quad_dot(v[q], v[q]);
            }
        float shift;
        const float rstd = norm_rstd(a, team_sums<WHOLE>(sums, partial), &shift);
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * team;
            if (j >= quads)
                continue;
            float4 y = make_float4((v[q].x - shift) * rstd, (v[q].y - shift) * rstd,
                                   (v[q].z - shift) * rstd, (v[q].w - shift) * rstd);
            y = a.weight ? fma4(y, quad_of(a.weight, j), none) : y;
            ((float4 *)(a.y + row * a.C))[j] = a.bias ? add4(y, quad_of(a.bias, j)) : y;
        }
        if (lane == 0)
            norm_keep(a, row, mean + shift, rstd);
    }
}

/* A block for a row of any length. s is read again: where x gets a residual it is kept in sum, or
 * else in y, and each thread reads what it has written itself. */
static __global__ void norm_plain(norm_job a)
{
    __shared__ float partial[2 * WARP];
    for (size_t row = blockIdx.x; row < a.N; row += gridDim.x) {
        const float *s = a.x + row * a.C;
        float *y = a.y + row * a.C, *kept = a.sum ? a.sum + row * a.C : y;
        float2 sums = make_float2(0, 0);
        for (size_t c = threadIdx.x; c < a.C; c += blockDim.x) {
            float v = s[c];
            if (a.residual)
                kept[c] = v = v + a.residual[row * a.C + c];
            sums.x += v;
        }
        s = a.residual ? kept : s;
        const float mean = a.rms ? 0 : team_sums<true>(sums, partial).x / (float)a.C;
        sums = make_float2(0, 0);
        for (size_t c = threadIdx.x; c < a.C; c += blockDim.x) {
            float d = s[c] - mean;
            sums.x += d;
            sums.y += d * d;
        }
        float shift;
        const float rstd = norm_rstd(a, team_sums<true>(sums, partial), &shift);
        for (size_t c = threadIdx.x; c < a.C; c += blockDim.x)
            y[c] = norm_value(a, (s[c] - mean - shift) * rstd, c);
        if (threadIdx.x == 0)
            norm_keep(a, row, mean + shift, rstd);
    }
}

static void cuda_norm(const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean,
                      qkv_real *rstd, const qkv_real *x, const qkv_real *residual,
                      const qkv_real *weight, const qkv_real *bias, const qkv_k_norm_args *args)
{
    (void)e;
    const norm_job a = {y, sum, mean, rstd, x, residual, weight, bias,
                        args->N, args->C, (float)args->eps, args->rms};
    if (a.N == 0)
        return;
    const row_teams t = row_teams_of(a.C);
    const size_t teams = t.threads / t.team;
    if (t.quads && a.C % 4 == 0 && quads_fit(y) && quads_fit(sum) && quads_fit(x) &&
        quads_fit(residual) && quads_fit(weight) && quads_fit(bias))
        LAUNCH_TEAMS(norm_held, t, row_blocks((a.N + teams - 1) / teams), 0, a);
    else
        LAUNCH(norm_plain, row_blocks(a.N), row_threads(a.C), 0, a);
}

