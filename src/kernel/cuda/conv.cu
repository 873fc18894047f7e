/* conv.cu - convolutions as products: images are unfolded into rows of windows (windows.cuh), as
 * many at a time as fit into chunk_bytes of scratch memory. Windows of one pixel, one pixel apart,
 * are products as they lie. The gradient of the images is gathered: a pixel adds up what the
 * windows over it give, in the order of their places. */
#include "kernel/cuda/blas.cuh"
#include "kernel/cuda/windows.cuh"

/* ---- the three products ---------------------------------------------------------------------- */

/* w with rows filled up: itself where they are full. NULL: no scratch memory. */
static const float *filled_up(const qkv_exec *e, const float *w, size_t n, const conv_sizes *s)
{
    if (s->row == s->window)
        return w;
    float *to = (float *)qkv__arena_alloc(e->scratch, n * s->row * sizeof *to);
    if (to)
        launch_elements(fill_up_body<float>{to, w, s->window, s->row}, n * s->row, false);
    return to;
}

static void convolve(qkv_k_gemm_fn *gemm, const qkv_exec *e, qkv_real *y, const qkv_real *x,
                     const qkv_real *w, const qkv_real *bias, const qkv_k_conv_args *a)
{
    const conv_sizes s = sizes_of(a);
    if (s.windows == 0 || a->N == 0)
        return;
    if (is_product(a)) {
        const qkv_k_gemm_args g = {false, true, false, s.windows, a->N, a->C,
                                   a->C,  a->C, a->N,  bias, 0};
        gemm(e, y, x, w, &g);
        return;
    }
    const size_t chunk = chunk_of(&s, 1);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const float *full = filled_up(e, w, a->N, &s);
    float *rows = (float *)qkv__arena_alloc(e->scratch, chunk * s.row * sizeof *rows);
    for (size_t i = 0; i < s.windows && full && rows; i += chunk) {
        const size_t count = smaller(chunk, s.windows - i);
        const qkv_k_gemm_args g = {false, true, false, count, a->N, s.row,
                                   s.row, s.row, a->N, bias, 0};
        unfold(rows, x, a, &s, i, count);
        gemm(e, y + i * a->N, rows, full, &g);
    }
    qkv__arena_release(e->scratch, mark);
}

static void convolve_bwd_weights(qkv_k_gemm_fn *gemm, const qkv_exec *e, qkv_real *dw,
                                 const qkv_real *dy, const qkv_real *x, const qkv_k_conv_args *a,
                                 bool acc)
{
    const conv_sizes s = sizes_of(a);
    qkv_k_gemm_args g = {true, false, acc,      a->N, s.window, s.windows,
                         a->N, s.row, s.window, NULL, 0};
    if (is_product(a) || s.windows == 0) {
        g.ldb = a->C;
        gemm(e, dw, dy, x, &g);
        return;
    }
    const size_t chunk = chunk_of(&s, 1);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *rows = (float *)qkv__arena_alloc(e->scratch, chunk * s.row * sizeof *rows);
    for (size_t i = 0; i < s.windows && rows; i += chunk) {
        g.k = smaller(chunk, s.windows - i);
        unfold(rows, x, a, &s, i, g.k);
        gemm(e, dw, dy + i * a->N, rows, &g);
        g.acc = true;
    }
    qkv__arena_release(e->scratch, mark);
}

/* W neighbouring channels of a pixel of dx, from rows (windows of these images, row). */
struct fold_body {
    float *dx;
    const float *rows;
    qkv_k_conv_args a;
    size_t row;
    bool acc;
    template <int W> __device__ void at(size_t i) const
    {
        size_t pixel, c, image, y, z;
        split(i, a.C, &pixel, &c);
        split(pixel, a.W, &image, &z);
        split(image, a.H, &image, &y);
        pack<W> sum = {};
        for (size_t ky = 0; ky < a.KH && ky <= y + a.top; ky++) {
            size_t oy, rest;
            split(y + a.top - ky, a.stride, &oy, &rest);
            if (rest || oy >= a.OH)
                continue;
            for (size_t kx = 0; kx < a.KW && kx <= z + a.left; kx++) {
                size_t ox;
                split(z + a.left - kx, a.stride, &ox, &rest);
                if (rest || ox >= a.OW)
                    continue;
                const pack<W> v = load<W>(rows + ((image * a.OH + oy) * a.OW + ox) * row +
                                          (ky * a.KW + kx) * a.C + c);
                for (int k = 0; k < W; k++)
                    sum.v[k] += v.v[k];
            }
        }
        put<W>(dx + i, sum, acc);
    }
};

static void convolve_bwd_data(qkv_k_gemm_fn *gemm, const qkv_exec *e, qkv_real *dx,
                              const qkv_real *dy, const qkv_real *w, const qkv_k_conv_args *a,
                              bool acc)
{
    const conv_sizes s = sizes_of(a);
    const size_t image = a->OH * a->OW, pixels = a->H * a->W * a->C;
    if (is_product(a)) {
        const qkv_k_gemm_args g = {false, false, acc, s.windows, a->C, a->N,
                                   a->N,  a->C,  a->C, NULL, 0};
        gemm(e, dx, dy, w, &g);
        return;
    }
    const size_t images = s.windows ? chunk_of(&s, image) / image : a->B;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *rows = (float *)qkv__arena_alloc(e->scratch,
                                            (images * image * s.row + 1) * sizeof *rows);
    for (size_t b = 0; b < a->B && rows; b += images) {
        const size_t count = smaller(images, a->B - b);
        const qkv_k_gemm_args g = {false, false, false, count * image, s.window, a->N,
                                   a->N,  s.window, s.row, NULL, 0};
        gemm(e, rows, dy + b * image * a->N, w, &g);
        launch_elements(fold_body{dx + b * pixels, rows, *a, s.row, acc}, count * pixels,
                        a->C % 4 == 0 && aligned16(dx, rows));
    }
    qkv__arena_release(e->scratch, mark);
}

/* ---- in f32, and of operands rounded to bf16 ------------------------------------------------- */

static void conv(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                 const qkv_real *bias, const qkv_k_conv_args *a)
{
    convolve(cuda_gemm, e, y, x, w, bias, a);
}

static void conv_bwd_data(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                          const qkv_k_conv_args *a, bool acc)
{
    convolve_bwd_data(cuda_gemm, e, dx, dy, w, a, acc);
}

static void conv_bwd_weights(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                             const qkv_real *x, const qkv_k_conv_args *a, bool acc)
{
    convolve_bwd_weights(cuda_gemm, e, dw, dy, x, a, acc);
}

/* False: products of this size are of f32, or need no windows. */
static bool rounds_windows(const qkv_k_conv_args *a, const conv_sizes *s)
{
    return !is_product(a) && a->N * s->windows * s->row >= QKV__BF16_LEAST;
}

static void conv_bf16(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                      const qkv_real *bias, const qkv_k_conv_args *a)
{
    const conv_sizes s = sizes_of(a);
    if (!rounds_windows(a, &s)) {
        convolve(cuda_gemm_bf16, e, y, x, w, bias, a);
        return;
    }
    const size_t chunk = chunk_of(&s, 1);
    operands_lock();
    qkv__mark mark = qkv__arena_mark(e->scratch);
    bf16 *full = (bf16 *)qkv__arena_alloc(e->scratch, a->N * s.row * sizeof *full);
    bf16 *rows = (bf16 *)qkv__arena_alloc(e->scratch, chunk * s.row * sizeof *rows);
    if (full && rows)
        launch_elements(fill_up_body<bf16>{full, w, s.window, s.row}, a->N * s.row, false);
    for (size_t i = 0; i < s.windows && full && rows; i += chunk) {
        const size_t count = smaller(chunk, s.windows - i);
        unfold(rows, x, a, &s, i, count);
        multiply_rounded(y + i * a->N, rows, full,
                         {false, true, false, count, a->N, s.row, s.row, s.row, a->N, bias});
    }
    qkv__arena_release(e->scratch, mark);
    operands_unlock(y, s.windows, a->N);
}

static void conv_bwd_data_bf16(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                               const qkv_real *w, const qkv_k_conv_args *a, bool acc)
{
    convolve_bwd_data(cuda_gemm_bf16, e, dx, dy, w, a, acc);
}

static void conv_bwd_weights_bf16(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                                  const qkv_real *x, const qkv_k_conv_args *a, bool acc)
{
    const conv_sizes s = sizes_of(a);
    if (!rounds_windows(a, &s)) {
        convolve_bwd_weights(cuda_gemm_bf16, e, dw, dy, x, a, acc);
        return;
    }
    const size_t chunk = chunk_of(&s, 1);
    size_t ld;
    operands_lock();
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const bf16 *rounded = operand_rounded(dy, s.windows, a->N, a->N, &ld);
    bf16 *rows = (bf16 *)qkv__arena_alloc(e->scratch, chunk * s.row * sizeof *rows);
    if (!rounded)
        cuda_note(cudaErrorMemoryAllocation);
    for (size_t i = 0; i < s.windows && rounded && rows; i += chunk) {
        const size_t count = smaller(chunk, s.windows - i);
        unfold(rows, x, a, &s, i, count);
        multiply_rounded(dw, rounded + i * ld, rows,
                         {true, false, acc || i > 0, a->N, s.window, count, ld, s.row, s.window,
                          NULL});
    }
    qkv__arena_release(e->scratch, mark);
    operands_unlock(dw, a->N, s.window);
}

extern "C" void qkv__cuda_conv(qkv_kernels *k)
{
    k->conv = conv;
    k->conv_bwd_data = conv_bwd_data;
    k->conv_bwd_weights = conv_bwd_weights;
}

extern "C" void qkv__cuda_conv_bf16(qkv_kernels *k)
{
    k->conv = conv_bf16;
    k->conv_bwd_data = conv_bwd_data_bf16;
    k->conv_bwd_weights = conv_bwd_weights_bf16;
}
