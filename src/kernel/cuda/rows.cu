/* rows.cu - softmax of rows, sums over rows and over columns. */
#include "kernel/cuda/columns.cuh"

/* ---- softmax: a block for a row -------------------------------------------------------------- */

/* y may be x: a thread writes what it alone has read. */
static __global__ void __launch_bounds__(ROW_THREADS_MOST)
softmax_rows(float *y, const float *x, size_t N, size_t C)
{
    __shared__ float partial[WARP];
    for (size_t row = blockIdx.x; row < N; row += gridDim.x) {
        const float *in = x + row * C;
        float *out = y + row * C;
        const row_groups g = groups_of(in, C);
        row_reading r = reading_of_none();
        for (unsigned j = threadIdx.x; j < g.count; j += AHEAD * blockDim.x) {
            float4 v[AHEAD];
            load_groups(v, in, g, j, -INFINITY);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                read_group(&r, v[i], 0);
        }
        r = block_reading(r, false, partial);
        const float max = r.max == -INFINITY ? 0 : r.max, scale = r.sum == 0 ? 0 : 1 / r.sum;
        for (unsigned start = threadIdx.x; start < g.count; start += AHEAD * blockDim.x) {
            float4 v[AHEAD];
            load_groups(v, in, g, start, -INFINITY);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const unsigned j = start + (unsigned)i * blockDim.x;
                if (j < g.count)
                    store_group(out, g, j, make_float4(expf(v[i].x - max) * scale,
                                                       expf(v[i].y - max) * scale,
                                                       expf(v[i].z - max) * scale,
                                                       expf(v[i].w - max) * scale));
            }
        }
    }
}

static void cuda_softmax(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C)
{
    (void)e;
    if (N > 0 && C > 0)
        LAUNCH(softmax_rows, row_blocks(N), row_threads(C), 0, y, x, N, C);
}

/* dx may be dy. */
static __global__ void __launch_bounds__(ROW_THREADS_MOST)
softmax_bwd_rows(float *dx, const float *y, const float *dy, bool acc, size_t N, size_t C)
{
    __shared__ float partial[WARP];
    for (size_t row = blockIdx.x; row < N; row += gridDim.x) {
        const float *p = y + row * C, *dp = dy + row * C;
        const row_groups g = groups_of(p, C);
        float dot = 0;
        for (unsigned j = threadIdx.x; j < g.count; j += AHEAD * blockDim.x) {
            float4 a[AHEAD], b[AHEAD];
            load_groups(a, p, g, j, 0);
            load_groups(b, dp, g, j, 0);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                dot += (a[i].x * b[i].x + a[i].y * b[i].y) + (a[i].z * b[i].z + a[i].w * b[i].w);
        }
        dot = block_sum(dot, partial);
        for (unsigned j = threadIdx.x; j < g.count; j += blockDim.x) {
            const float4 a = load_group(p, g, j, 0), b = load_group(dp, g, j, 0);
            float4 d = make_float4(a.x * (b.x - dot), a.y * (b.y - dot), a.z * (b.z - dot),
                                   a.w * (b.w - dot));
            if (acc)
                d = add4(d, load_group(dx + row * C, g, j, 0));
            store_group(dx + row * C, g, j, d);
        }
    }
}

static void cuda_softmax_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *y,
                             const qkv_real *dy, bool acc, size_t N, size_t C)
{
    (void)e;
    if (N > 0 && C > 0)
        LAUNCH(softmax_bwd_rows, row_blocks(N), row_threads(C), 0, dx, y, dy, acc, N, C);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static __global__ void __launch_bounds__(ROW_THREADS_MOST)
squares_of_rows(float *y, const float *x, size_t N, size_t C)
{
    __shared__ double partial[WARP];
    for (size_t row = blockIdx.x; row < N; row += gridDim.x) {
        const row_groups g = groups_of(x + row * C, C);
        double sum = 0;
        for (unsigned j = threadIdx.x; j < g.count; j += AHEAD * blockDim.x) {
            float4 v[AHEAD];
            load_groups(v, x + row * C, g, j, 0);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                sum += (double)v[i].x * (double)v[i].x + (double)v[i].y * (double)v[i].y;
                sum += (double)v[i].z * (double)v[i].z + (double)v[i].w * (double)v[i].w;
            }
        }
        sum = block_sum(sum, partial);
        if (threadIdx.x == 0)
            y[row] = (float)sum;
    }
}

static void cuda_row_squares(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C)
{
    (void)e;
    if (N > 0)
        LAUNCH(squares_of_rows, row_blocks(N), row_threads(C), 0, y, x, N, C);
}

template <typename T> struct row_sum {
    enum { SUMS = 1 };
    const T *x;
    size_t ldx;

    typedef float4 item;

    template <bool QUADS> __device__ void begin(column_place, size_t) {}
    template <bool QUADS> __device__ item fetch(column_place at, size_t row, size_t C) const
    {
        return load_columns<QUADS>(x + row * ldx, at, C);
    }
    __device__ void add(float4 *sum, item v) const { sum[0] = add4(sum[0], v); }
};

/* x may hold bf16. */
static void cuda_sum_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t ldx, bool acc,
                          size_t N, size_t C)
{
    if (C == 0)
        return;
    columns_out out = {{y, NULL}, {acc, false}};
    const cuda_writes before = cuda_writes_now();
    const bool quads = C % 4 == 0 && ldx % 4 == 0 && quads_fit(x);
    if (holds_bf16(e, 1))
        columns_sums(e, row_sum<bf16>{(const bf16 *)x, ldx}, out, N, C, quads);
    else
        columns_sums(e, row_sum<float>{x, ldx}, out, N, C, quads);
    cuda_wrote_alone(before, y, C * sizeof *y); /* and scratch memory */
}

extern "C" void qkv__cuda_rows(qkv_kernels *k)
{
    k->softmax = cuda_softmax;
    k->softmax_bwd = cuda_softmax_bwd;
    k->row_squares = cuda_row_squares;
    k->sum_rows = cuda_sum_rows;
}
