/* norms.cu - layer norm and RMS norm. The registers of a team hold a row from one read of memory
 * on; rows that are too long or not aligned are read several times. */
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/norm_row.cuh"

/* ---- forward --------------------------------------------------------------------------------- */

template <int QUADS, bool WHOLE> __global__ void __launch_bounds__(BLOCK_MOST) norm_held(norm_job a)
{
    __shared__ float partial[2 * WARP];
    const unsigned team = WHOLE ? blockDim.x : (unsigned)WARP;
    const size_t teams = blockDim.x / team;
    for (size_t row = blockIdx.x * teams + threadIdx.x / team; row < a.N; row += gridDim.x * teams)
        norm_held_row<QUADS, WHOLE>(a, row, partial);
}

/* A block for a row of any length. s is read again: where x gets a residual it is kept in sum, or
 * else in y, and each thread reads what it has written itself. y in bf16 goes with a sum. */
static __global__ void __launch_bounds__(ROW_THREADS_MOST) norm_plain(norm_job a)
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
        for (size_t c = threadIdx.x; c < a.C; c += blockDim.x) {
            const float v = norm_value(a, (s[c] - mean - shift) * rstd, c);
            if (a.y)
                y[c] = v;
            else
                a.copy[row * a.C + c] = __float2bfloat16_rn(v);
        }
        if (threadIdx.x == 0)
            norm_keep(a, row, mean + shift, rstd);
    }
}

/* copies: the held way leaves a copy of y beside it. */
static void norm_rows(norm_job a, bool copies)
{
    if (a.N == 0)
        return;
    const row_teams t = row_teams_of(a.C);
    const size_t teams = t.threads / t.team;
    if (norm_row_fits(t, a.C) && quads_fit(a.y) && quads_fit(a.sum) && quads_fit(a.x) &&
        quads_fit(a.residual) && quads_fit(a.weight) && quads_fit(a.bias)) {
        bf16 *copy = copies ? operand_room(a.y, a.N * a.C) : NULL;
        a.copy = copies ? copy : a.copy;
        LAUNCH_TEAMS(norm_held, t, row_blocks((a.N + teams - 1) / teams), 0, a);
        operand_written(copy);
    } else {
        LAUNCH(norm_plain, row_blocks(a.N), row_threads(a.C), 0, a);
    }
}

static norm_job job_of(qkv_real *y, qkv_real *sum, qkv_real *mean, qkv_real *rstd,
                       const qkv_real *x, const qkv_real *residual, const qkv_real *weight,
                       const qkv_real *bias, const qkv_k_norm_args *args)
{
    return {y, sum, mean, rstd, x, residual, weight, bias, NULL, args->N, args->C,
            (float)args->eps, args->rms};
}

static void cuda_norm(const qkv_exec *, qkv_real *y, qkv_real *sum, qkv_real *mean,
                      qkv_real *rstd, const qkv_real *x, const qkv_real *residual,
                      const qkv_real *weight, const qkv_real *bias, const qkv_k_norm_args *args)
{
    const norm_job a = job_of(y, sum, mean, rstd, x, residual, weight, bias, args);
    if (!list_norm(a))
        norm_rows(a, false);
}

/* y may hold bf16. */
static void cuda_norm_bf16(const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean,
                           qkv_real *rstd, const qkv_real *x, const qkv_real *residual,
                           const qkv_real *weight, const qkv_real *bias,
                           const qkv_k_norm_args *args)
{
    norm_job a = job_of(y, sum, mean, rstd, x, residual, weight, bias, args);
    if (holds_bf16(e, 0))
        a.y = NULL, a.copy = (bf16 *)y;
    norm_rows(a, a.y != NULL);
}

extern "C" void qkv__cuda_norms(qkv_kernels *k)
{
    k->norm = cuda_norm;
    k->norm_bwd = cuda_norm_bwd;
}

extern "C" void qkv__cuda_norms_bf16(qkv_kernels *k)
{
    k->norm = cuda_norm_bf16;
    k->norm_bwd = cuda_norm_bwd_bf16;
}
