/* channels.cu - channel by channel over all rows: what batch norm is made of. */
#include "kernel/cuda/columns.cuh"

struct dot_sum {
    enum { SUMS = 1 };
    typedef struct {
        float4 x, a;
    } item;
    const float *a, *x, *m;
    float4 mean;

    template <bool QUADS> __device__ void begin(column_place at, size_t C)
    {
        mean = load_columns<QUADS>(m, at, C);
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        item v;
        v.x = load_columns<QUADS>(x + row * C, at, C);
        v.a = a ? load_columns<QUADS>(a + row * C, at, C) : v.x;
        return v;
    }

    __device__ void add(float4 *sum, item v) const
    {
        const float4 d = minus4(v.x, mean);
        sum[0] = fma4(d, a ? v.a : d, sum[0]);
    }
};

static void cuda_channel_dot(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *x,
                             const qkv_real *m, size_t N, size_t C)
{
    if (C == 0)
        return;
    dot_sum f = {a, x, m, {}};
    columns_out out = {{y, NULL}, {false, false}};
    columns_sums(e, f, out, N, C,
                 C % 4 == 0 && quads_fit(a) && quads_fit(x) && quads_fit(m));
}

struct channel_mapping {
    typedef struct {
        float4 x, u, y;
    } item;
    float *y;
    const float *x;
    qkv_k_channel_map_args g;
    bool acc;
    float4 m, q, p, r;

    template <bool QUADS> __device__ void begin(column_place at, size_t C)
    {
        const float4 none = make_float4(0, 0, 0, 0);
        m = g.m ? load_columns<QUADS>(g.m, at, C) : none;
        q = load_columns<QUADS>(g.q, at, C);
        p = g.u ? load_columns<QUADS>(g.p, at, C) : none;
        r = g.r ? load_columns<QUADS>(g.r, at, C) : none;
    }

    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        item v = {};
        v.x = load_columns<QUADS>(x + row * C, at, C);
        if (g.u)
            v.u = load_columns<QUADS>(g.u + row * C, at, C);
        if (acc)
            v.y = load_columns<QUADS>(y + row * C, at, C);
        return v;
    }

    template <bool QUADS>
    __device__ void store(column_place at, size_t row, size_t C, item v) const
    {
        float4 z = fma4(minus4(v.x, m), q, r);
        z = g.u ? fma4(p, v.u, z) : z;
        store_columns<QUADS>(y + row * C, at, C, acc ? add4(z, v.y) : z);
    }
};

static void cuda_channel_map(const qkv_exec *e, qkv_real *y, bool acc, const qkv_real *x,
                             const qkv_k_channel_map_args *g, size_t N, size_t C)
{
    (void)e;
    if (N == 0 || C == 0)
        return;
    channel_mapping f = {y, x, *g, acc, {}, {}, {}, {}};
    bool quads = C % 4 == 0 && quads_fit(y) && quads_fit(x) && quads_fit(g->m) &&
                 quads_fit(g->q) && quads_fit(g->u) && quads_fit(g->p) && quads_fit(g->r);
    columns_map(f, 1, N, C, quads);
}

extern "C" void qkv__cuda_channels(qkv_kernels *k)
{
    k->channel_dot = cuda_channel_dot;
    k->channel_map = cuda_channel_map;
}
