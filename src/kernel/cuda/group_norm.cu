/* group_norm.cu - group norm with or without the SiLU that follows it: sums over places for every
 * channel of every image, what they say about groups, and a map over all numbers. What goes in is
 * of type X and what comes out of type Y, each f32 or bf16. */
#include "kernel/cuda/group_norm.cuh"

/* The first number of a group. Sums are of distances from it, so that a large mean costs no
 * digits. */
template <typename X>
static __device__ __forceinline__ float group_pivot(const X *x, group_sizes s, size_t image,
                                                    size_t c)
{
    return load_one(x + image * s.N * s.C + min(c, s.C - 1) / s.width * s.width);
}

template <typename X> struct group_moments {
    enum { SUMS = 2 };
    typedef float4 item;
    const X *x;
    group_sizes s;
    float4 pivot;

    template <bool QUADS> __device__ void begin(column_place at, size_t)
    {
        pivot = make_float4(group_pivot(x, s, at.image, at.c),
                            group_pivot(x, s, at.image, at.c + at.step),
                            group_pivot(x, s, at.image, at.c + 2 * at.step),
                            group_pivot(x, s, at.image, at.c + 3 * at.step));
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        return load_columns<QUADS>(x + (at.image * s.N + row) * C, at, C);
    }

    __device__ void add(float4 *sum, item v) const
    {
        const float4 d = minus4(v, pivot);
        sum[0] = add4(sum[0], d);
        sum[1] = fma4(d, d, sum[1]);
    }
};

template <typename X>
static __global__ void group_measure(float *mean, float *rstd, const X *x,
                                     const float *partial, group_sizes s, size_t chunks)
{
    const size_t group = (size_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (group >= s.B * s.G)
        return;
    const sum_pair sum = group_sums(partial, NULL, s, chunks, group);
    const double n = (double)(s.N * s.width), d = sum.x / n, v = sum.y / n - d * d;
    if (threadIdx.x % WARP)
        return;
    mean[group] = (float)((double)group_pivot(x, s, group / s.G, group % s.G * s.width) + d);
    rstd[group] = (float)(1 / sqrt((v < 0 ? 0 : v) + (double)s.eps));
}

template <typename X, typename Y> struct group_map {
    typedef float4 item;
    Y *y;
    const X *x;
    const float *mean, *rstd, *weight, *bias;
    group_sizes s;
    float4 m, q, r;

    template <bool QUADS> __device__ void begin(column_place at, size_t C)
    {
        m = load_of_groups<QUADS>(mean, at, s);
        q = times4(load_of_groups<QUADS>(rstd, at, s), load_columns<QUADS>(weight, at, C));
        r = load_columns<QUADS>(bias, at, C);
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        return load_columns<QUADS>(x + (at.image * s.N + row) * C, at, C);
    }

    template <bool QUADS>
    __device__ void store(column_place at, size_t row, size_t C, item v) const
    {
        float4 u = fma4(minus4(v, m), q, r);
        if (s.silu)
            u = make_float4(u.x * group_sigmoid<Y>(u.x), u.y * group_sigmoid<Y>(u.y),
                            u.z * group_sigmoid<Y>(u.z), u.w * group_sigmoid<Y>(u.w));
        store_columns<QUADS>(y + (at.image * s.N + row) * C, at, C, u);
    }
};

template <typename X, typename Y>
static void normalize(const qkv_exec *e, Y *y, qkv_real *mean, qkv_real *rstd, const X *x,
                      const qkv_real *weight, const qkv_real *bias,
                      const qkv_k_group_norm_args *args)
{
    const group_sizes s = group_sizes_of(args);
    const columns_plan p = columns_plan_of(s.B, s.N, s.C);
    const bool quads = s.C % 4 == 0 && quads_fit(x) && quads_fit(y) && quads_fit(weight) &&
                       quads_fit(bias);
    const columns_out none = {{NULL, NULL}, {false, false}};
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const size_t sums = s.B * p.chunks * 2 * s.C;
    float *partial = (float *)qkv__arena_alloc(e->scratch, sums * sizeof *partial);
    if (partial) {
        group_moments<X> moments = {x, s, {}};
        group_map<X, Y> map = {y, x, mean, rstd, weight, bias, s, {}, {}, {}};
        columns_launch(moments, none, partial, p, quads);
        LAUNCH(group_measure<X>, group_blocks(s), BLOCK, 0, mean, rstd, x, partial, s, p.chunks);
        columns_map(map, s.B, s.N, s.C, quads);
    }
    qkv__arena_release(e->scratch, mark);
}

/* y and x may hold bf16. */
static void cuda_group_norm(const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd,
                            const qkv_real *x, const qkv_real *weight, const qkv_real *bias,
                            const qkv_k_group_norm_args *args)
{
    const bool to_bf16 = holds_bf16(e, 0), of_bf16 = holds_bf16(e, 3);
    if (args->B * args->N * args->C == 0)
        return;
    if (to_bf16 && of_bf16)
        normalize(e, (bf16 *)y, mean, rstd, (const bf16 *)x, weight, bias, args);
    else if (to_bf16)
        normalize(e, (bf16 *)y, mean, rstd, x, weight, bias, args);
    else if (of_bf16)
        normalize(e, y, mean, rstd, (const bf16 *)x, weight, bias, args);
    else
        normalize(e, y, mean, rstd, x, weight, bias, args);
}

extern "C" void qkv__cuda_group_norm(qkv_kernels *k)
{
    k->group_norm = cuda_group_norm;
    k->group_norm_bwd = cuda_group_norm_bwd;
}
