/* norms_bwd.cu - the backward pass of norms. One pass over memory gives dx and, in the registers of
 * the teams, sums over rows for dweight and dbias; the last blocks add those of all blocks. */
#include "kernel/cuda/norms.cuh"
#include "kernel/cuda/operands.cuh"

/* dx may be dsum. partial (blocks, 2, C): sums of dy far and of dy, which become out; NULL: not
 * wanted. copy: dx in bf16, or NULL. T: of dy. */
template <typename T> struct norm_bwd_job {
    float *dx, *partial;
    columns_out out;
    const float *s, *mean, *rstd, *weight;
    const T *dy;
    const float *dsum;
    bf16 *copy;
    size_t N, C;
    bool rms, acc;
};

/* Blocks, which sizes alone decide: as many as an H100 runs at a time. */
static unsigned norm_bwd_blocks(row_teams t, size_t N)
{
    const size_t teams = t.threads / t.team, blocks = (N + teams - 1) / teams;
    const size_t most = t.threads <= 128 ? 528 : t.threads <= 256 ? 264 : 132;
    return (unsigned)(blocks < most ? blocks : most);
}

/* Team by team, so that the order of the sums is theirs. */
template <int QUADS>
static __device__ void norm_bwd_add_teams(float *partial, const float4 *dweight,
                                          const float4 *dbias, size_t C)
{
    DYNAMIC_SHARED(shared);
    float4 *sums = (float4 *)shared;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t quads = C / 4;
    for (unsigned w = 0; w < blockDim.x / WARP; w++) {
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * WARP;
            if (warp == w && j < quads) {
                sums[j] = w ? add4(sums[j], dweight[q]) : dweight[q];
                sums[quads + j] = w ? add4(sums[quads + j], dbias[q]) : dbias[q];
            }
        }
        __syncthreads();
    }
    for (size_t j = threadIdx.x; j < 2 * quads; j += blockDim.x)
        ((float4 *)partial)[j] = sums[j];
}

enum { NORM_GROUPS = 8 }; /* the blocks whose numbers have one remainder are a group */

/* Blocks of each group that have written their sums, and groups whose sums are added. */
static __device__ unsigned norm_arrived[NORM_GROUPS + 1];

/* out = the sum over blocks of partial (blocks, 2, C): the last block of a group adds the group's,
 * in the place of its first, and the last of these adds those. Loops that are not unrolled take no
 * registers from those over rows. */
static __device__ __forceinline__ void norm_bwd_add_blocks(columns_out out, float *partial,
                                                           size_t C)
{
    enum { AT_ONCE = 4 };
    const unsigned blocks = gridDim.x, group = blockIdx.x % NORM_GROUPS;
    const unsigned groups = blocks < NORM_GROUPS ? blocks : (unsigned)NORM_GROUPS;
    const size_t quads = C / 2; /* of a block */
    float4 *sums = (float4 *)partial;
    if (!block_is_last(&norm_arrived[group], (blocks - group + NORM_GROUPS - 1) / NORM_GROUPS))
        return;
#pragma unroll 1
    for (size_t j = threadIdx.x; j < quads; j += blockDim.x) {
        float4 sum = make_float4(0, 0, 0, 0), v[AT_ONCE];
#pragma unroll 1
        for (size_t i = group; i < blocks; i += AT_ONCE * NORM_GROUPS) {
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const size_t block = i + (size_t)k * NORM_GROUPS;
                v[k] = block < blocks ? sums[block * quads + j] : make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                sum = add4(sum, v[k]);
        }
        sums[group * quads + j] = sum;
    }
    if (!block_is_last(&norm_arrived[NORM_GROUPS], groups))
        return;
#pragma unroll 1
    for (size_t j = threadIdx.x; j < quads; j += blockDim.x) {
        float4 sum = sums[j];
#pragma unroll 1
        for (unsigned g = 1; g < groups; g++)
            sum = add4(sum, sums[g * quads + j]);
        const int s = 4 * j >= C;
        const size_t c = 4 * j - (s ? C : 0);
        column_out(out, s, c, sum.x);
        column_out(out, s, c + 1, sum.y);
        column_out(out, s, c + 2, sum.z);
        column_out(out, s, c + 3, sum.w);
    }
}

/* d += a row of x, unless x is NULL; all of it is on its way before the first of it is added. */
template <int QUADS>
static __device__ __forceinline__ void norm_bwd_add(float4 *d, float4 *fetched, const float *x,
                                                    size_t row, unsigned lane, unsigned team,
                                                    size_t C)
{
    if (!x)
        return;
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        size_t j = lane + (size_t)q * team;
        if (j < C / 4)
            fetched[q] = quad_of(x + row * C, j);
    }
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        d[q] = add4(d[q], fetched[q]);
}

template <int QUADS, bool WHOLE, typename T>
static __device__ __forceinline__ void norm_bwd_rows(const norm_bwd_job<T> &a)
{
    __shared__ float partial[2 * WARP];
    const unsigned team = WHOLE ? blockDim.x : (unsigned)WARP, lane = threadIdx.x % team;
    const size_t teams = blockDim.x / team, quads = a.C / 4;
    const float4 none = make_float4(0, 0, 0, 0), one = make_float4(1, 1, 1, 1);
    float4 dweight[QUADS], dbias[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        dweight[q] = dbias[q] = none;
    for (size_t row = blockIdx.x * teams + threadIdx.x / team; row < a.N;
         row += gridDim.x * teams) {
        const float *s = a.s + row * a.C;
        const T *dy = a.dy + row * a.C;
        const float mean = a.rms ? 0 : a.mean[row], rstd = a.rstd[row];
        float4 far[QUADS], d[QUADS]; /* (s - mean) rstd; dy */
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * team;
            far[q] = j < quads ? quad_of(s, j) : make_float4(mean, mean, mean, mean);
            d[q] = j < quads ? load_quad(dy + 4 * j) : none;
        }
        float2 sums = make_float2(0, 0); /* of g = dy weight and of g far */
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * team;
            far[q] = make_float4((far[q].x - mean) * rstd, (far[q].y - mean) * rstd,
                                 (far[q].z - mean) * rstd, (far[q].w - mean) * rstd);
            dweight[q] = fma4(d[q], far[q], dweight[q]);
            dbias[q] = add4(dbias[q], d[q]);
            float4 g = fma4(d[q], a.weight && j < quads ? quad_of(a.weight, j) : one, none);
            sums.x += quad_sum(g);
            sums.y += quad_dot(g, far[q]);
        }
        if (!a.dx)
            continue;
        sums = team_sums<WHOLE>(sums, partial);
        const float of_g = a.rms ? 0 : sums.x / (float)a.C, of_gx = sums.y / (float)a.C;
#pragma unroll
        for (int q = 0; q < QUADS; q++) { /* d becomes dx; then far, what is added to it */
            size_t j = lane + (size_t)q * team;
            float4 g = fma4(d[q], a.weight && j < quads ? quad_of(a.weight, j) : one, none);
            d[q] = make_float4(rstd * (g.x - of_g - far[q].x * of_gx),
                               rstd * (g.y - of_g - far[q].y * of_gx),
                               rstd * (g.z - of_g - far[q].z * of_gx),
                               rstd * (g.w - of_g - far[q].w * of_gx));
        }
        norm_bwd_add<QUADS>(d, far, a.dsum, row, lane, team, a.C);
        norm_bwd_add<QUADS>(d, far, a.acc ? a.dx : NULL, row, lane, team, a.C);
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * team;
            if (j < quads)
                ((float4 *)(a.dx + row * a.C))[j] = d[q];
            if (j < quads && a.copy)
                operand_store(a.copy + row * a.C + 4 * j, d[q].x, d[q].y, d[q].z, d[q].w);
        }
    }
    if (!a.partial)
        return;
    float *mine = a.partial + (size_t)blockIdx.x * 2 * a.C;
    if (!WHOLE) {
        norm_bwd_add_teams<QUADS>(mine, dweight, dbias, a.C);
    } else {
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            size_t j = lane + (size_t)q * team;
            if (j < quads) {
                ((float4 *)mine)[j] = dweight[q];
                ((float4 *)mine)[quads + j] = dbias[q];
            }
        }
    }
    norm_bwd_add_blocks(a.out, a.partial, a.C);
}

template <int QUADS, bool WHOLE>
__global__ void __launch_bounds__(WHOLE ? (int)BLOCK_MOST : (int)BLOCK, WHOLE ? 1 : 2)
norm_bwd_held(norm_bwd_job<float> a)
{
    norm_bwd_rows<QUADS, WHOLE>(a);
}

template <int QUADS, bool WHOLE>
__global__ void __launch_bounds__(WHOLE ? (int)BLOCK_MOST : (int)BLOCK, WHOLE ? 1 : 2)
norm_bwd_held_bf16(norm_bwd_job<bf16> a)
{
    norm_bwd_rows<QUADS, WHOLE>(a);
}

/* ---- rows of any length ---------------------------------------------------------------------- */

template <typename T>
static __global__ void __launch_bounds__(ROW_THREADS_MOST) norm_bwd_plain(norm_bwd_job<T> a)
{
    __shared__ float partial[2 * WARP];
    for (size_t row = blockIdx.x; row < a.N; row += gridDim.x) {
        const float *s = a.s + row * a.C;
        const T *dy = a.dy + row * a.C;
        const float mean = a.rms ? 0 : a.mean[row], rstd = a.rstd[row];
        float2 sums = make_float2(0, 0);
        for (size_t c = threadIdx.x; c < a.C; c += blockDim.x) {
            float g = a.weight ? load_one(dy + c) * a.weight[c] : load_one(dy + c);
            sums.x += g;
            sums.y += g * ((s[c] - mean) * rstd);
        }
        sums = team_sums<true>(sums, partial);
        const float of_g = a.rms ? 0 : sums.x / (float)a.C, of_gx = sums.y / (float)a.C;
        for (size_t c = threadIdx.x; c < a.C; c += blockDim.x) {
            float g = a.weight ? load_one(dy + c) * a.weight[c] : load_one(dy + c);
            size_t i = row * a.C + c;
            float d = rstd * (g - of_g - (s[c] - mean) * rstd * of_gx);
            d = a.dsum ? d + a.dsum[i] : d;
            a.dx[i] = a.acc ? d + a.dx[i] : d;
        }
    }
}

template <typename T> struct norm_parameter_sums {
    enum { SUMS = 2 };
    typedef struct {
        float4 x, d;
        float mean, rstd;
    } item;
    const float *s, *mean, *rstd;
    const T *dy;

    template <bool QUADS> __device__ void begin(column_place, size_t) {}
    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        item v;
        v.x = load_columns<QUADS>(s + row * C, at, C);
        v.d = load_columns<QUADS>(dy + row * C, at, C);
        v.mean = mean ? mean[row] : 0;
        v.rstd = rstd[row];
        return v;
    }

    __device__ void add(float4 *sum, item v) const
    {
        const float m = v.mean, k = v.rstd;
        const float4 far =
            make_float4((v.x.x - m) * k, (v.x.y - m) * k, (v.x.z - m) * k, (v.x.w - m) * k);
        sum[0] = fma4(v.d, far, sum[0]);
        sum[1] = add4(sum[1], v.d);
    }
};

/* ---- the slot -------------------------------------------------------------------------------- */

template <typename T> static bool norm_bwd_fits(row_teams t, const norm_bwd_job<T> *a)
{
    return norm_row_fits(t, a->C) && quads_fit(a->dx) && quads_fit(a->s) && quads_fit(a->weight) &&
           quads_fit(a->dy) && quads_fit(a->dsum);
}

static void norm_bwd_launch(const norm_bwd_job<float> &a, row_teams t, unsigned blocks,
                            size_t shared)
{
    LAUNCH_TEAMS(norm_bwd_held, t, blocks, shared, a);
}

static void norm_bwd_launch(const norm_bwd_job<bf16> &a, row_teams t, unsigned blocks,
                            size_t shared)
{
    LAUNCH_TEAMS(norm_bwd_held_bf16, t, blocks, shared, a);
}

/* copies: a copy of dx is left beside it. */
template <typename T>
static void norm_bwd_by_teams(const qkv_exec *e, norm_bwd_job<T> a, row_teams t, bool copies)
{
    const bool parameters = a.out.y[0] || a.out.y[1];
    const unsigned blocks = norm_bwd_blocks(t, a.N);
    const size_t bytes = 2 * a.C * sizeof(float);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    a.partial = parameters ? (float *)qkv__arena_alloc(e->scratch, blocks * bytes) : NULL;
    if (a.partial || !parameters) {
        a.copy = copies && a.dx && !a.acc ? operand_room(a.dx, a.N * a.C) : NULL;
        norm_bwd_launch(a, t, blocks, t.team > WARP ? 0 : bytes);
        operand_written(a.copy);
    }
    qkv__arena_release(e->scratch, mark);
}

template <typename T>
static void norm_bwd(const qkv_exec *e, const norm_bwd_job<T> &a, bool copies)
{
    const row_teams t = row_teams_of(a.C);
    const bool parameters = a.out.y[0] || a.out.y[1];
    if (a.C == 0)
        return;
    if (a.N > 0 && norm_bwd_fits(t, &a)) {
        if (a.dx || parameters)
            norm_bwd_by_teams(e, a, t, copies);
        return;
    }
    if (parameters) {
        norm_parameter_sums<T> f = {a.s, a.rms ? NULL : a.mean, a.rstd, a.dy};
        columns_sums(e, f, a.out, a.N, a.C, a.C % 4 == 0 && quads_fit(a.s) && quads_fit(a.dy));
    }
    if (a.dx && a.N > 0)
        LAUNCH(norm_bwd_plain<T>, row_blocks(a.N), row_threads(a.C), 0, a);
}

extern "C" void cuda_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                              bool acc_weight, qkv_real *dbias, bool acc_bias, const qkv_real *s,
                              const qkv_real *mean, const qkv_real *rstd, const qkv_real *weight,
                              const qkv_real *dy, const qkv_real *dsum,
                              const qkv_k_norm_args *args)
{
    const columns_out out = {{dweight, dbias}, {acc_weight, acc_bias}};
    const norm_bwd_job<float> a = {dx, NULL, out,  s,       mean,    rstd,      weight,
                                   dy, dsum, NULL, args->N, args->C, args->rms, acc};
    norm_bwd(e, a, false);
}

/* dy may hold bf16. */
extern "C" void cuda_norm_bwd_bf16(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                                   bool acc_weight, qkv_real *dbias, bool acc_bias,
                                   const qkv_real *s, const qkv_real *mean, const qkv_real *rstd,
                                   const qkv_real *weight, const qkv_real *dy,
                                   const qkv_real *dsum, const qkv_k_norm_args *args)
{
    const columns_out out = {{dweight, dbias}, {acc_weight, acc_bias}};
    const norm_bwd_job<float> a = {dx, NULL, out,  s,       mean,    rstd,      weight,
                                   dy, dsum, NULL, args->N, args->C, args->rms, acc};
    const norm_bwd_job<bf16> b = {dx, NULL, out,  s,       mean,    rstd,      weight,
                                  (const bf16 *)dy, dsum, NULL, args->N, args->C, args->rms, acc};
    if (holds_bf16(e, 7))
        norm_bwd(e, b, true);
    else
        norm_bwd(e, a, true);
}
