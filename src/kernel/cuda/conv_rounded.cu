/* conv_rounded.cu - convolutions whose images, results and gradients may hold bf16, over those of
 * conv.cu, which take f32: numbers in bf16 go through scratch memory. Windows of one pixel are
 * products of arguments in bf16 as they lie. */
#include "kernel/cuda/windows.cuh"

/* What takes f32. */
static qkv_k_conv_fn *plain_conv;
static qkv_k_conv_bwd_data_fn *plain_bwd_data;
static qkv_k_conv_bwd_weights_fn *plain_bwd_weights;

/* y = [y +] x. */
template <typename Y, typename X> struct change_body {
    Y *y;
    const X *x;
    bool acc;
    template <int W> __device__ void at(size_t i) const { put<W>(y + i, load<W>(x + i), acc); }
};

static float *conv_scratch(const qkv_exec *e, size_t n)
{
    return (float *)qkv__arena_alloc(e->scratch, (n + 1) * sizeof(float));
}

/* The kernel's parameter i, of n numbers, in f32: x itself or a copy. NULL: no scratch memory. */
static const float *widened(const qkv_exec *e, unsigned i, const qkv_real *x, size_t n)
{
    if (!holds_bf16(e, i))
        return x;
    float *to = conv_scratch(e, n);
    if (to)
        launch_elements(change_body<float, bf16>{to, (const bf16 *)x, false}, n,
                        aligned16(to, x));
    return to;
}

/* Where the kernel's parameter 0 is made in f32; give puts it in its place, which has n numbers. */
static float *place_of(const qkv_exec *e, qkv_real *y, size_t n)
{
    return holds_bf16(e, 0) ? conv_scratch(e, n) : y;
}

static void give(qkv_real *y, const float *made, size_t n, bool acc)
{
    if (made != y)
        launch_elements(change_body<bf16, float>{(bf16 *)y, made, acc}, n, aligned16(y, made));
}

static qkv_exec of_f32(const qkv_exec *e)
{
    qkv_exec f = *e;
    f.bf16 = 0;
    return f;
}

static bool is_plain(const qkv_exec *e, const qkv_k_conv_args *a)
{
    return !e->bf16 || is_product(a);
}

static size_t conv_images(const qkv_k_conv_args *a) { return a->B * a->H * a->W * a->C; }
static size_t conv_results(const qkv_k_conv_args *a) { return a->B * a->OH * a->OW * a->N; }

/* ---- the slots: y, x and their gradients may hold bf16 --------------------------------------- */

static void conv(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                 const qkv_real *bias, const qkv_k_conv_args *a)
{
    const qkv_exec f = of_f32(e);
    if (is_plain(e, a)) {
        plain_conv(e, y, x, w, bias, a);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const float *from = widened(e, 1, x, conv_images(a));
    float *to = place_of(e, y, conv_results(a));
    if (from && to) {
        plain_conv(&f, to, from, w, bias, a);
        give(y, to, conv_results(a), false);
    }
    qkv__arena_release(e->scratch, mark);
}

static void conv_bwd_data(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                          const qkv_k_conv_args *a, bool acc)
{
    const qkv_exec f = of_f32(e);
    if (is_plain(e, a)) {
        plain_bwd_data(e, dx, dy, w, a, acc);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const float *from = widened(e, 1, dy, conv_results(a));
    float *to = place_of(e, dx, conv_images(a));
    if (from && to) {
        plain_bwd_data(&f, to, from, w, a, acc && to == dx);
        give(dx, to, conv_images(a), acc);
    }
    qkv__arena_release(e->scratch, mark);
}

static void conv_bwd_weights(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                             const qkv_real *x, const qkv_k_conv_args *a, bool acc)
{
    const qkv_exec f = of_f32(e);
    if (is_plain(e, a)) {
        plain_bwd_weights(e, dw, dy, x, a, acc);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const float *result = widened(e, 1, dy, conv_results(a));
    const float *images = widened(e, 2, x, conv_images(a));
    if (result && images)
        plain_bwd_weights(&f, dw, result, images, a, acc);
    qkv__arena_release(e->scratch, mark);
}

extern "C" void qkv__cuda_conv_rounded(qkv_kernels *k)
{
    plain_conv = k->conv;
    plain_bwd_data = k->conv_bwd_data;
    plain_bwd_weights = k->conv_bwd_weights;
    k->conv = conv;
    k->conv_bwd_data = conv_bwd_data;
    k->conv_bwd_weights = conv_bwd_weights;
}
