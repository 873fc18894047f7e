/* ref_conv.c - convolution in plain C, without unfolding anything: along a row of the window,
 * pixels and weights lie one behind the other in both arrays, so that a window is KH products of
 * KW x C numbers each. */
#include <string.h>

#include "kernel/kernel.h"

static const size_t worth_threads = 1u << 16; /* multiplications that pay for waking a team */

/* The part of a window's row that lies on the image: `n` numbers from `x` (in a row of the
 * image) and `w` (in a row of the window) on. */
typedef struct {
    size_t x, w, n;
} span;

/* Of output column ox. */
static span columns(const qkv_k_conv_args *a, size_t ox)
{
    size_t at = ox * a->stride; /* in the padded image */
    size_t first = at < a->left ? a->left - at : 0;
    size_t end = a->W + a->left - at < a->KW ? a->W + a->left - at : a->KW;
    if (at >= a->W + a->left || end <= first)
        return (span){0, 0, 0};
    return (span){(at + first - a->left) * a->C, first * a->C, (end - first) * a->C};
}

static bool row_of(const qkv_k_conv_args *a, size_t oy, size_t ky, size_t *iy)
{
    size_t at = oy * a->stride + ky;
    *iy = at - a->top;
    return at >= a->top && at - a->top < a->H;
}

static bool threaded(const qkv_k_conv_args *a)
{
    return a->B * a->OH * a->OW * a->N * a->KH * a->KW * a->C > worth_threads;
}

static void output_row(qkv_real *y, const qkv_real *x, const qkv_real *w, const qkv_real *bias,
                       const qkv_k_conv_args *a, size_t oy)
{
    size_t line = a->KW * a->C;
    for (size_t ox = 0; ox < a->OW; ox++) {
        span s = columns(a, ox);
        for (size_t n = 0; n < a->N; n++) {
            qkv_real sum = bias ? bias[n] : 0;
            for (size_t ky = 0, iy; ky < a->KH; ky++) {
                if (!row_of(a, oy, ky, &iy))
                    continue;
                const qkv_real *p = x + iy * a->W * a->C + s.x;
                const qkv_real *q = w + (n * a->KH + ky) * line + s.w;
                for (size_t i = 0; i < s.n; i++)
                    sum += p[i] * q[i];
            }
            y[ox * a->N + n] = sum;
        }
    }
}

static void conv(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                 const qkv_real *bias, const qkv_k_conv_args *a)
{
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) \
    shared(y, x, w, bias, a)
    for (size_t r = 0; r < a->B * a->OH; r++)
        output_row(y + r * a->OW * a->N, x + r / a->OH * a->H * a->W * a->C, w, bias, a,
                   r % a->OH);
}

/* Row iy of one image's gradient. */
static void input_row(qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                      const qkv_k_conv_args *a, size_t iy)
{
    size_t line = a->KW * a->C;
    for (size_t ky = 0; ky < a->KH; ky++) {
        size_t at = iy + a->top - ky;
        if (iy + a->top < ky || at % a->stride || at / a->stride >= a->OH)
            continue;
        const qkv_real *g = dy + at / a->stride * a->OW * a->N;
        for (size_t ox = 0; ox < a->OW; ox++) {
            span s = columns(a, ox);
            for (size_t n = 0; n < a->N; n++) {
                const qkv_real *q = w + (n * a->KH + ky) * line + s.w;
                for (size_t i = 0; i < s.n; i++)
                    dx[s.x + i] += g[ox * a->N + n] * q[i];
            }
        }
    }
}

static void conv_bwd_data(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                          const qkv_k_conv_args *a, bool acc)
{
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) \
    shared(dx, dy, w, a, acc)
    for (size_t r = 0; r < a->B * a->H; r++) {
        qkv_real *row = dx + r * a->W * a->C;
        if (!acc)
            memset(row, 0, a->W * a->C * sizeof *row);
        input_row(row, dy + r / a->H * a->OH * a->OW * a->N, w, a, r % a->H);
    }
}

/* Row ky of channel n's window, over all images. */
static void window_row(qkv_real *dw, const qkv_real *dy, const qkv_real *x,
                       const qkv_k_conv_args *a, size_t n, size_t ky)
{
    for (size_t r = 0, iy; r < a->B * a->OH; r++) {
        if (!row_of(a, r % a->OH, ky, &iy))
            continue;
        const qkv_real *p = x + (r / a->OH * a->H + iy) * a->W * a->C;
        for (size_t ox = 0; ox < a->OW; ox++) {
            span s = columns(a, ox);
            qkv_real g = dy[(r * a->OW + ox) * a->N + n];
            for (size_t i = 0; i < s.n; i++)
                dw[s.w + i] += g * p[s.x + i];
        }
    }
}

static void conv_bwd_weights(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                             const qkv_real *x, const qkv_k_conv_args *a, bool acc)
{
    size_t line = a->KW * a->C;
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) \
    shared(dw, dy, x, a, acc, line)
    for (size_t r = 0; r < a->N * a->KH; r++) {
        if (!acc)
            memset(dw + r * line, 0, line * sizeof *dw);
        window_row(dw + r * line, dy, x, a, r / a->KH, r % a->KH);
    }
}

void qkv__kernels_ref_conv(qkv_kernels *k)
{
    k->conv = conv;
    k->conv_bwd_data = conv_bwd_data;
    k->conv_bwd_weights = conv_bwd_weights;
}
