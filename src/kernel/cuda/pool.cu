/* pool.cu - the largest, and the mean, of every window of an image, channel by channel; a thread
 * for each number of the output. Gradients are gathered: a pixel adds up what the windows over it
 * give, in their order. */
#include "kernel/cuda/elements.cuh"

/* Rows or columns first .. end-1 of the image that window `at` covers; none where it lies beside
 * it. */
struct pool_range {
    size_t first, end;
};

static __device__ __forceinline__ pool_range covered(size_t at, size_t stride, size_t window,
                                                     size_t before, size_t size)
{
    const size_t begin = at * stride, end = begin + window;
    pool_range r = {begin < before ? 0 : begin - before, end < before ? 0 : end - before};
    if (r.end > size)
        r.end = size;
    if (r.first > r.end)
        r.first = r.end;
    return r;
}

/* Windows first .. end-1 of `windows` that cover pixel row or column `at`. */
static __device__ __forceinline__ pool_range windows_over(size_t at, size_t stride, size_t window,
                                                          size_t before, size_t windows)
{
    const size_t place = at + before;
    pool_range r = {place < window ? 0 : (place - window) / stride + 1, place / stride + 1};
    if (r.end > windows)
        r.end = windows;
    return r;
}

/* Element i of an array (images, rows, columns, C). */
struct place {
    size_t image, row, column, c;
};

static __device__ __forceinline__ place place_of(size_t i, size_t rows, size_t columns, size_t C)
{
    place p;
    split(i, C, &i, &p.c);
    split(i, columns, &i, &p.column);
    split(i, rows, &p.image, &p.row);
    return p;
}

static __global__ void __launch_bounds__(BLOCK) max_pool_kernel(float *y, int32_t *from,
                                                                const float *x, qkv_k_conv_args a,
                                                                size_t n)
{
    for (FOR_EACH(i, n)) {
        const place at = place_of(i, a.OH, a.OW, a.C);
        const pool_range rows = covered(at.row, a.stride, a.KH, a.top, a.H);
        const pool_range columns = covered(at.column, a.stride, a.KW, a.left, a.W);
        const float *image = x + at.image * a.H * a.W * a.C + at.c;
        float most = -INFINITY;
        int32_t where = -1;
        for (size_t p = rows.first; p < rows.end; p++)
            for (size_t q = columns.first; q < columns.end; q++) {
                const float v = image[(p * a.W + q) * a.C];
                if (v > most || v != v || where < 0) { /* the first; NaN stays */
                    most = v;
                    where = (int32_t)(p * a.W + q);
                }
            }
        y[i] = most;
        from[i] = where;
    }
}

static void cuda_max_pool(const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x,
                          const qkv_k_conv_args *a)
{
    (void)e;
    const size_t n = a->B * a->OH * a->OW * a->C;
    if (n)
        LAUNCH(max_pool_kernel, cuda_blocks(n), BLOCK, 0, y, from, x, *a, n);
}

static __global__ void __launch_bounds__(BLOCK) max_pool_bwd_kernel(float *dx, const float *dy,
                                                                    const int32_t *from,
                                                                    qkv_k_conv_args a, bool acc,
                                                                    size_t n)
{
    for (FOR_EACH(i, n)) {
        const place at = place_of(i, a.H, a.W, a.C);
        const pool_range rows = windows_over(at.row, a.stride, a.KH, a.top, a.OH);
        const pool_range columns = windows_over(at.column, a.stride, a.KW, a.left, a.OW);
        const size_t image = at.image * a.OH * a.OW * a.C + at.c;
        const int32_t pixel = (int32_t)(at.row * a.W + at.column);
        float sum = acc ? dx[i] : 0;
        for (size_t p = rows.first; p < rows.end; p++)
            for (size_t q = columns.first; q < columns.end; q++) {
                const size_t k = image + (p * a.OW + q) * a.C;
                if (from[k] == pixel)
                    sum += dy[k];
            }
        dx[i] = sum;
    }
}

static void cuda_max_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                              const int32_t *from, const qkv_k_conv_args *a, bool acc)
{
    (void)e;
    const size_t n = a->B * a->H * a->W * a->C;
    if (n)
        LAUNCH(max_pool_bwd_kernel, cuda_blocks(n), BLOCK, 0, dx, dy, from, *a, acc, n);
}

/* share: what a window's sum is multiplied with. */
static __global__ void __launch_bounds__(BLOCK) mean_pool_kernel(float *y, const float *x,
                                                                 qkv_k_conv_args a, float share,
                                                                 size_t n)
{
    for (FOR_EACH(i, n)) {
        const place at = place_of(i, a.OH, a.OW, a.C);
        const pool_range rows = covered(at.row, a.stride, a.KH, a.top, a.H);
        const pool_range columns = covered(at.column, a.stride, a.KW, a.left, a.W);
        const float *image = x + at.image * a.H * a.W * a.C + at.c;
        float sum = 0;
        for (size_t p = rows.first; p < rows.end; p++)
            for (size_t q = columns.first; q < columns.end; q++)
                sum += image[(p * a.W + q) * a.C];
        y[i] = sum * share;
    }
}

/* Zeros around the image are counted. */
static float share_of(const qkv_k_conv_args *a) { return 1 / (float)(a->KH * a->KW); }

static void cuda_mean_pool(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                           const qkv_k_conv_args *a)
{
    (void)e;
    const size_t n = a->B * a->OH * a->OW * a->C;
    if (n)
        LAUNCH(mean_pool_kernel, cuda_blocks(n), BLOCK, 0, y, x, *a, share_of(a), n);
}

static __global__ void __launch_bounds__(BLOCK) mean_pool_bwd_kernel(float *dx, const float *dy,
                                                                     qkv_k_conv_args a, float share,
                                                                     bool acc, size_t n)
{
    for (FOR_EACH(i, n)) {
        const place at = place_of(i, a.H, a.W, a.C);
        const pool_range rows = windows_over(at.row, a.stride, a.KH, a.top, a.OH);
        const pool_range columns = windows_over(at.column, a.stride, a.KW, a.left, a.OW);
        const float *image = dy + at.image * a.OH * a.OW * a.C + at.c;
        float sum = acc ? dx[i] : 0;
        for (size_t p = rows.first; p < rows.end; p++)
            for (size_t q = columns.first; q < columns.end; q++)
                sum += image[(p * a.OW + q) * a.C] * share;
        dx[i] = sum;
    }
}

static void cuda_mean_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                               const qkv_k_conv_args *a, bool acc)
{
    (void)e;
    const size_t n = a->B * a->H * a->W * a->C;
    if (n)
        LAUNCH(mean_pool_bwd_kernel, cuda_blocks(n), BLOCK, 0, dx, dy, *a, share_of(a), acc, n);
}

extern "C" void qkv__cuda_pool(qkv_kernels *k)
{
    k->max_pool = cuda_max_pool;
    k->max_pool_bwd = cuda_max_pool_bwd;
    k->mean_pool = cuda_mean_pool;
    k->mean_pool_bwd = cuda_mean_pool_bwd;
}
