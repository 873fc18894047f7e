/* group_norm.cu - group norm with or without the SiLU that follows it: sums over places for every
 * channel of every image, what they say about groups, and a map over all numbers. */
#include "kernel/cuda/columns.cuh"

typedef struct {
    size_t B, N, C, G, width; /* width: channels of a group */
    float eps;
    bool silu;
} group_sizes;

static group_sizes group_sizes_of(const qkv_k_group_norm_args *args)
{
    group_sizes s = {args->B, args->N, args->C, args->G, args->C / args->G, (float)args->eps,
                     args->silu};
    return s;
}

/* v[g], g being the group of each of a thread's columns; v (B, G). */
template <bool QUADS>
static __device__ float4 load_of_groups(const float *v, column_place at, group_sizes s)
{
    const size_t last = s.C - 1, c = at.c, step = at.step;
    v += at.image * s.G;
    return make_float4(v[min(c, last) / s.width], v[min(c + step, last) / s.width],
                       v[min(c + 2 * step, last) / s.width], v[min(c + 3 * step, last) / s.width]);
}

static __device__ __forceinline__ float4 times4(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

static __device__ __forceinline__ float group_sigmoid(float u) { return 1 / (1 + expf(-u)); }

/* ---- forward --------------------------------------------------------------------------------------- */

/* The first number of a group: sums are of distances from it, so that a large mean costs no digits. */
static __device__ __forceinline__ float group_pivot(const float *x, group_sizes s, size_t image,
                                                    size_t c)
{
    return x[image * s.N * s.C + min(c, s.C - 1) / s.width * s.width];
}

struct group_moments {
    enum { SUMS = 2 };
    typedef float4 item;
    const float *x;
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

typedef struct {
    double x, y;
} sum_pair;

/* Both sums of a group, a warp's: over the chunks of its image and its channels. partial
 * (B * chunks, 2, C); times weight where it is not NULL. */
static __device__ sum_pair group_sums(const float *partial, const float *weight, group_sizes s,
                                     size_t chunks, size_t group)
{
    const size_t image = group / s.G, first = group % s.G * s.width;
    sum_pair sum = {0, 0};
    for (size_t i = threadIdx.x % WARP; i < chunks * s.width; i += WARP) {
        size_t c = first + i % s.width;
        const float *p = partial + (image * chunks + i / s.width) * 2 * s.C + c;
        double by = weight ? (double)weight[c] : 1;
        sum.x += (double)p[0] * by;
        sum.y += (double)p[s.C] * by;
    }
    sum.x = warp_sum(sum.x);
    sum.y = warp_sum(sum.y);
    return sum;
}

static __global__ void group_measure(float *mean, float *rstd, const float *x,
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

struct group_map {
    typedef float4 item;
    float *y;
    const float *x, *mean, *rstd, *weight, *bias;
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
            u = make_float4(u.x * group_sigmoid(u.x), u.y * group_sigmoid(u.y),
                            u.z * group_sigmoid(u.z), u.w * group_sigmoid(u.w));
        store_columns<QUADS>(y + (at.image * s.N + row) * C, at, C, u);
    }
};

static unsigned group_blocks(group_sizes s)
{
    return (unsigned)((s.B * s.G + BLOCK / WARP - 1) / (BLOCK / WARP));
}

static void cuda_group_norm(const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd,
                            const qkv_real *x, const qkv_real *weight, const qkv_real *bias,
                            const qkv_k_group_norm_args *args)
{
    if (args->B * args->N * args->C == 0)
        return;
    const group_sizes s = group_sizes_of(args);
    const columns_plan p = columns_plan_of(s.B, s.N, s.C);
    const bool quads = s.C % 4 == 0 && quads_fit(x) && quads_fit(y) && quads_fit(weight) &&
                       quads_fit(bias);
    const columns_out none = {{NULL, NULL}, {false, false}};
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *partial = (float *)qkv__arena_alloc(e->scratch, s.B * p.chunks * 2 * s.C * sizeof(float));
    if (partial) {
        group_moments moments = {x, s, {}};
        group_map map = {y, x, mean, rstd, weight, bias, s, {}, {}, {}};
        columns_launch(moments, none, partial, p, quads);
        LAUNCH(group_measure, group_blocks(s), BLOCK, 0, mean, rstd, x, partial, s, p.chunks);
        columns_map(map, s.B, s.N, s.C, quads);
    }
    qkv__arena_release(e->scratch, mark);
}

/* ---- backward --------------------------------------------------------------------------------------- */

/* d(loss)/du at one number that is far standard deviations from the mean. */
static __device__ __forceinline__ float group_slope(bool silu, float dy, float far, float weight,
                                                    float bias)
{
    if (!silu)
        return dy;
    const float u = far * weight + bias, s = group_sigmoid(u);
    return dy * s * (1 + u * (1 - s));
}

struct group_slopes {
    typedef struct {
        float4 dy, x;
    } item;
    const float *dy, *x, *mean, *rstd, *weight, *bias;
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
        return make_float4(group_slope(s.silu, v.dy.x, f.x, w.x, b.x),
                           group_slope(s.silu, v.dy.y, f.y, w.y, b.y),
                           group_slope(s.silu, v.dy.z, f.z, w.z, b.z),
                           group_slope(s.silu, v.dy.w, f.w, w.w, b.w));
    }
};

/* Sums of du far and of du: dweight and dbias of one chunk. */
struct group_slope_sums {
    enum { SUMS = 2 };
    typedef group_slopes::item item;
    group_slopes slopes;

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
struct group_bwd_map {
    typedef struct {
        group_slopes::item slopes;
        float4 dx;
    } item;
    group_slopes slopes;
    float *dx;
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

static void cuda_group_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                                qkv_real *dbias, const qkv_real *dy, const qkv_real *x,
                                const qkv_real *mean, const qkv_real *rstd, const qkv_real *weight,
                                const qkv_real *bias, const qkv_k_group_norm_args *args)
{
    if (args->C == 0)
        return;
    const group_sizes s = group_sizes_of(args);
    const columns_plan p = columns_plan_of(s.B, s.N, s.C);
    const bool quads = s.C % 4 == 0 && quads_fit(dx) && quads_fit(dy) && quads_fit(x) &&
                       quads_fit(weight) && quads_fit(bias);
    const columns_out none = {{NULL, NULL}, {false, false}};
    const columns_out out = {{dweight, dbias}, {false, false}};
    const size_t parts = s.B * p.chunks, groups = s.B * s.G;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *partial =
        (float *)qkv__arena_alloc(e->scratch, (parts * 2 * s.C + 2 * groups) * sizeof *partial);
    if (partial) {
        float *dot = partial + parts * 2 * s.C, *sum = dot + groups;
        group_slopes slopes = {dy, x, mean, rstd, weight, bias, s, {}, {}, {}, {}};
        group_slope_sums sums = {slopes};
        group_bwd_map map = {slopes, dx, dot, sum, acc, {}, {}};
        if (parts)
            columns_launch(sums, none, partial, p, quads);
        if (dweight || dbias)
            columns_end(out, partial, parts, 2, s.C);
        if (dx && s.B * s.N > 0) {
            LAUNCH(group_slope_means, group_blocks(s), BLOCK, 0, dot, sum, partial, weight, s,
                   p.chunks);
            columns_map(map, s.B, s.N, s.C, quads);
        }
    }
    qkv__arena_release(e->scratch, mark);
}

extern "C" void qkv__cuda_group_norm(qkv_kernels *k)
{
    k->group_norm = cuda_group_norm;
    k->group_norm_bwd = cuda_group_norm_bwd;
}
