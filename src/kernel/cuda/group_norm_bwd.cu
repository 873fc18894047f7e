/* group_norm_bwd.cu - the backward pass of group norm, in the steps of the forward pass. What went
 * in and its gradient are of type X, the gradient of what came out is of type Y. */
#include "kernel/cuda/group_norm.cuh"

/* d(loss)/du at one number that is far standard deviations from the mean. */
template <typename Y>
static __device__ __forceinline__ float group_slope(bool silu, float dy, float far, float weight,
                                                    float bias)
{
    if (!silu)
        return dy;
    const float u = far * weight + bias, s = group_sigmoid<Y>(u);
    return dy * s * (1 + u * (1 - s));
}

/* Of a row: dy and x. */
struct group_pair {
    float4 dy, x;
};

template <typename X, typename Y> struct group_slopes {
    typedef group_pair item;
    const Y *dy;
    const X *x;
    const float *mean, *rstd, *weight, *bias;
    group_sizes s;
    float4 m, k, w, b;

    template <bool QUADS> __device__ void begin(column_place at, size_t C)
    {
        m = load_of_groups<QUADS>(mean, at, s);
        k = load_of_groups<QUADS>(rstd, at, s);
        w = load_columns<QUADS>(weight, at, C);
        b = load_columns<QUADS>(bias, at, C);
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        const size_t i = (at.image * s.N + row) * C;
        item v;
        v.dy = load_columns<QUADS>(dy + i, at, C);
        v.x = load_columns<QUADS>(x + i, at, C);
        return v;
    }

    __device__ float4 of(float4 *far, item v) const
    {
        const float4 f = times4(minus4(v.x, m), k);
        *far = f;
        return make_float4(group_slope<Y>(s.silu, v.dy.x, f.x, w.x, b.x),
                           group_slope<Y>(s.silu, v.dy.y, f.y, w.y, b.y),
                           group_slope<Y>(s.silu, v.dy.z, f.z, w.z, b.z),
                           group_slope<Y>(s.silu, v.dy.w, f.w, w.w, b.w));
    }
};

/* Sums of du far and of du: dweight and dbias of one chunk. */
template <typename X, typename Y> struct group_slope_sums {
    enum { SUMS = 2 };
    typedef group_pair item;
    group_slopes<X, Y> slopes;

    template <bool QUADS> __device__ void begin(column_place at, size_t C)
    {
        slopes.template begin<QUADS>(at, C);
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        return slopes.template fetch<QUADS>(at, row, C);
    }

    __device__ void add(float4 *sum, item v) const
    {
        float4 far, du = slopes.of(&far, v);
        sum[0] = fma4(du, far, sum[0]);
        sum[1] = add4(sum[1], du);
    }
};

/* dot, sum (B, G): the means of du weight far and of du weight. */
static __global__ void group_slope_means(float *dot, float *sum, const float *partial,
                                         const float *weight, group_sizes s, size_t chunks)
{
    const size_t group = (size_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (group >= s.B * s.G)
        return;
    const sum_pair sums = group_sums(partial, weight, s, chunks, group);
    const double n = (double)(s.N * s.width);
    if (threadIdx.x % WARP == 0) {
        dot[group] = (float)(sums.x / n);
        sum[group] = (float)(sums.y / n);
    }
}

/* dx = [dx +] rstd (du weight - sum - far dot). */
template <typename X, typename Y> struct group_bwd_map {
    typedef struct {
        group_pair slopes;
        float4 dx;
    } item;
    group_slopes<X, Y> slopes;
    X *dx;
    const float *dot, *sum;
    bool acc;
    float4 of_far, of_du;

    template <bool QUADS> __device__ void begin(column_place at, size_t C)
    {
        slopes.template begin<QUADS>(at, C);
        of_far = load_of_groups<QUADS>(dot, at, slopes.s);
        of_du = load_of_groups<QUADS>(sum, at, slopes.s);
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        item v = {};
        v.slopes = slopes.template fetch<QUADS>(at, row, C);
        if (acc)
            v.dx = load_columns<QUADS>(dx + (at.image * slopes.s.N + row) * C, at, C);
        return v;
    }

    template <bool QUADS>
    __device__ void store(column_place at, size_t row, size_t C, item v) const
    {
        float4 far, du = slopes.of(&far, v.slopes);
        float4 d = minus4(minus4(times4(du, slopes.w), of_du), times4(far, of_far));
        d = times4(d, slopes.k);
        store_columns<QUADS>(dx + (at.image * slopes.s.N + row) * C, at, C,
                             acc ? add4(d, v.dx) : d);
    }
};

/* Of more tiles than columns_launch ends, or of no parts. */
static __global__ void __launch_bounds__(BLOCK) add_parts(columns_out out, const float *partial,
                                                          size_t parts, size_t C)
{
    __shared__ float shared[4 * BLOCK];
    columns_add_parts<2>(out, partial, parts, C, (size_t)blockIdx.x * COLUMNS_TILE, COLUMNS_TILE,
                         shared);
}

template <typename X, typename Y>
static void normalize_bwd(const qkv_exec *e, X *dx, bool acc, columns_out out,
                          group_slopes<X, Y> slopes)
{
    const group_sizes s = slopes.s;
    const columns_plan p = columns_plan_of(s.B, s.N, s.C);
    const bool quads = s.C % 4 == 0 && quads_fit(dx) && quads_fit(slopes.dy) &&
                       quads_fit(slopes.x) && quads_fit(slopes.weight) && quads_fit(slopes.bias);
    const columns_out none = {{NULL, NULL}, {false, false}};
    const size_t parts = s.B * p.chunks, groups = s.B * s.G;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *partial =
        (float *)qkv__arena_alloc(e->scratch, (parts * 2 * s.C + 2 * groups) * sizeof *partial);
    if (partial) {
        float *dot = partial + parts * 2 * s.C, *sum = dot + groups;
        group_slope_sums<X, Y> sums = {slopes};
        group_bwd_map<X, Y> map = {slopes, dx, dot, sum, acc, {}, {}};
        const bool ends = parts && p.tiles <= COLUMNS_BLOCKS; /* the launch makes out, too */
        if (parts)
            columns_launch(sums, ends ? out : none, partial, p, quads);
        if (!ends && (out.y[0] || out.y[1]))
            LAUNCH(add_parts, (unsigned)((s.C + COLUMNS_TILE - 1) / COLUMNS_TILE), BLOCK, 0,
                   out, partial, parts, s.C);
        if (dx && s.B * s.N > 0) {
            LAUNCH(group_slope_means, group_blocks(s), BLOCK, 0, dot, sum, partial, slopes.weight,
                   s, p.chunks);
            columns_map(map, s.B, s.N, s.C, quads);
        }
    }
    qkv__arena_release(e->scratch, mark);
}

/* dy may hold bf16; x and dx, both or neither. */
extern "C" void cuda_group_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                                    qkv_real *dbias, const qkv_real *dy, const qkv_real *x,
                                    const qkv_real *mean, const qkv_real *rstd,
                                    const qkv_real *weight, const qkv_real *bias,
                                    const qkv_k_group_norm_args *args)
{
    const group_sizes s = group_sizes_of(args);
    const columns_out out = {{dweight, dbias}, {false, false}};
    const bool x_bf16 = holds_bf16(e, 4), dy_bf16 = holds_bf16(e, 3);
    const bf16 *bx = (const bf16 *)x, *bdy = (const bf16 *)dy;
#define BWD(X, Y, dx, dy, x)                                                                       \
    normalize_bwd<X, Y>(e, dx, acc, out, {dy, x, mean, rstd, weight, bias, s, {}, {}, {}, {}})
    if (args->C == 0)
        return;
    if (x_bf16 && dy_bf16)
        BWD(bf16, bf16, (bf16 *)dx, bdy, bx);
    else if (x_bf16)
        BWD(bf16, float, (bf16 *)dx, dy, bx);
    else if (dy_bf16)
        BWD(float, bf16, dx, bdy, x);
    else
        BWD(float, float, dx, dy, x);
#undef BWD
}
