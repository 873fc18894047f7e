/* ref_pool.c - the largest, and the mean, of every window of an image, channel by channel. */
#include <math.h>
#include <string.h>

#include "kernel/pool.h"

static void ref_pool_max_pool(const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x,
                              const qkv_k_conv_args *a)
{
#pragma omp parallel for num_threads(e->threads) if (qkv__pool_threaded(a)) default(none) \
    shared(y, from, x, a)
    for (size_t r = 0; r < a->B * a->OH; r++) {
        const qkv_real *image = x + r / a->OH * a->H * a->W * a->C;
        qkv__range rows = qkv__pool_rows(a, r);
        for (size_t j = 0; j < a->OW; j++) {
            qkv__range columns = qkv__pool_columns(a, j);
            qkv_real *to = y + (r * a->OW + j) * a->C;
            int32_t *place = from + (r * a->OW + j) * a->C;
            for (size_t c = 0; c < a->C; c++) {
                to[c] = -(qkv_real)INFINITY;
                place[c] = -1;
            }
            for (size_t p = rows.first; p < rows.end; p++)
                for (size_t q = columns.first; q < columns.end; q++)
                    for (size_t c = 0; c < a->C; c++) {
                        qkv_real v = image[(p * a->W + q) * a->C + c];
                        if (v > to[c] || v != v || place[c] < 0) { /* the first; NaN stays */
                            to[c] = v;
                            place[c] = (int32_t)(p * a->W + q);
                        }
                    }
        }
    }
}

/* Windows may overlap, so an image's gradients are one thread's. */
static void max_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const int32_t *from,
                         const qkv_k_conv_args *a, bool acc)
{
    size_t in = a->H * a->W * a->C, out = a->OH * a->OW * a->C;
#pragma omp parallel for num_threads(e->threads) if (qkv__pool_threaded(a)) default(none) \
    shared(dx, dy, from, a, acc, in, out)
    for (size_t b = 0; b < a->B; b++) {
        if (!acc)
            memset(dx + b * in, 0, in * sizeof *dx);
        for (size_t i = 0; i < out; i++)
            if (from[b * out + i] >= 0)
                dx[b * in + (size_t)from[b * out + i] * a->C + i % a->C] += dy[b * out + i];
    }
}

/* What a window's sum is divided by: its size, zeros around the image counted. */
static qkv_real ref_pool_share(const qkv_k_conv_args *a) { return 1 / (qkv_real)(a->KH * a->KW); }

static void mean_pool(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_k_conv_args *a)
{
#pragma omp parallel for num_threads(e->threads) if (qkv__pool_threaded(a)) default(none) \
    shared(y, x, a)
    for (size_t r = 0; r < a->B * a->OH; r++) {
        const qkv_real *image = x + r / a->OH * a->H * a->W * a->C;
        qkv__range rows = qkv__pool_rows(a, r);
        for (size_t j = 0; j < a->OW; j++) {
            qkv__range columns = qkv__pool_columns(a, j);
            qkv_real *to = y + (r * a->OW + j) * a->C;
            memset(to, 0, a->C * sizeof *to);
            for (size_t p = rows.first; p < rows.end; p++)
                for (size_t q = columns.first; q < columns.end; q++)
                    for (size_t c = 0; c < a->C; c++)
                        to[c] += image[(p * a->W + q) * a->C + c];
            for (size_t c = 0; c < a->C; c++)
                to[c] *= ref_pool_share(a);
        }
    }
}

static void mean_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                          const qkv_k_conv_args *a, bool acc)
{
    size_t in = a->H * a->W * a->C;
#pragma omp parallel for num_threads(e->threads) if (qkv__pool_threaded(a)) default(none) \
    shared(dx, dy, a, acc, in)
    for (size_t b = 0; b < a->B; b++) {
        qkv_real *image = dx + b * in;
        if (!acc)
            memset(image, 0, in * sizeof *dx);
        for (size_t i = 0; i < a->OH * a->OW; i++) {
            qkv__range rows = qkv__pool_rows(a, i / a->OW);
            qkv__range columns = qkv__pool_columns(a, i % a->OW);
            const qkv_real *g = dy + (b * a->OH * a->OW + i) * a->C;
            for (size_t p = rows.first; p < rows.end; p++)
                for (size_t q = columns.first; q < columns.end; q++)
                    for (size_t c = 0; c < a->C; c++)
                        image[(p * a->W + q) * a->C + c] += g[c] * ref_pool_share(a);
        }
    }
}

void qkv__kernels_ref_pool(qkv_kernels *k)
{
    k->max_pool = ref_pool_max_pool;
    k->max_pool_bwd = max_pool_bwd;
    k->mean_pool = mean_pool;
    k->mean_pool_bwd = mean_pool_bwd;
}
