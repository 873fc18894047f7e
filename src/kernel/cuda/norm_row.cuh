/* norm_row.cuh - the norm of a row that a team of threads, a warp or a block, has in registers. */
#ifndef QKV_KERNEL_CUDA_NORM_ROW_CUH
#define QKV_KERNEL_CUDA_NORM_ROW_CUH

#include "kernel/cuda/norms.cuh"
#include "kernel/cuda/operands.cuh"

struct norm_job {
    float *y, *sum, *mean, *rstd;
    const float *x, *residual, *weight, *bias;
    bf16 *copy; /* y in bf16, beside y or, where that is NULL, in its place; or NULL */
    size_t N, C;
    float eps;
    bool rms;
};

/* 1 / the standard deviation, from the sums of d and d^2, d being the distance from a mean that is
 * rounded. shift is what that rounding lost: the mean of d. */
static __device__ __forceinline__ float norm_rstd(norm_job a, float2 sums, float *shift)
{
    const float n = (float)a.C;
    *shift = a.rms ? 0 : sums.x / n;
    const float variance = sums.y / n - *shift * *shift;
    return 1 / sqrtf((variance < 0 ? 0 : variance) + a.eps);
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

/* v += the residual, and is kept in sum. */
template <int QUADS>
static __device__ __forceinline__ void norm_add_residual(float4 *v, norm_job a, size_t row,
                                                         unsigned lane, unsigned team)
{
    float4 r[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        size_t j = lane + (size_t)q * team;
        r[q] = j < a.C / 4 ? quad_of(a.residual + row * a.C, j) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        size_t j = lane + (size_t)q * team;
        v[q] = add4(v[q], r[q]);
        if (a.sum && j < a.C / 4)
            ((float4 *)(a.sum + row * a.C))[j] = v[q];
    }
}

/* partial: 2 WARP numbers of shared memory, of a team that is a block. */
template <int QUADS, bool WHOLE>
static __device__ __forceinline__ void norm_held_row(const norm_job &a, size_t row, float *partial)
{
    const unsigned team = WHOLE ? blockDim.x : (unsigned)WARP, lane = threadIdx.x % team;
    const size_t quads = a.C / 4;
    const float4 none = make_float4(0, 0, 0, 0);
    float4 v[QUADS];
    float2 sums = make_float2(0, 0);
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        size_t j = lane + (size_t)q * team;
        v[q] = j < quads ? quad_of(a.x + row * a.C, j) : none;
    }
    if (a.residual)
        norm_add_residual<QUADS>(v, a, row, lane, team);
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        sums.x += quad_sum(v[q]);
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
        y = a.bias ? add4(y, quad_of(a.bias, j)) : y;
        if (a.y)
            ((float4 *)(a.y + row * a.C))[j] = y;
        if (a.copy)
            operand_store(a.copy + row * a.C + 4 * j, y.x, y.y, y.z, y.w);
    }
    if (lane == 0)
        norm_keep(a, row, mean + shift, rstd);
}

#endif
