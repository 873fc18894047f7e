/* ref_pool.c - the largest, and the mean, of every window of a picture, channel by channel. */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"

static const size_t worth_threads = 1u << 16; /* numbers read that pay for waking a team */

static bool threaded(const qkv_k_conv_args *a)
{
    return a->B * a->OH * a->OW * a->C * a->KH * a->KW > worth_threads;
}

/* Rows or columns first .. end-1 of the picture, those that window `at` covers; none when it lies
 * beside it. */
typedef struct {
    size_t first, end;
} range;

static range covered(size_t at, size_t stride, size_t window, size_t before, size_t size)
{
    size_t begin = at * stride, end = begin + window;
    range r = {begin < before ? 0 : begin - before, end < before ? 0 : end - before};
    if (r.end > size)
        r.end = size;
    if (r.first > r.end)
        r.first = r.end;
    return r;
}

/* Of output row r, counted through all pictures, and of output column j. */
#define ROWS_OF(a, r) covered((r) % (a)->OH, (a)->stride, (a)->KH, (a)->top, (a)->H)
#define COLUMNS_OF(a, j) covered(j, (a)->stride, (a)->KW, (a)->left, (a)->W)

static void max_pool(const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x,
                     const qkv_k_conv_args *a)
{
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) \
    shared(y, from, x, a)
    for (size_t r = 0; r < a->B * a->OH; r++) {
        const qkv_real *picture = x + r / a->OH * a->H * a->W * a->C;
        range rows = ROWS_OF(a, r);
        for (size_t j = 0; j < a->OW; j++) {
            range columns = COLUMNS_OF(a, j);
            qkv_real *to = y + (r * a->OW + j) * a->C;
            int32_t *place = from + (r * a->OW + j) * a->C;
            for (size_t c = 0; c < a->C; c++) {
                to[c] = -(qkv_real)INFINITY;
                place[c] = -1;
            }
            for (size_t p = rows.first; p < rows.end; p++)
                for (size_t q = columns.first; q < columns.end; q++)
                    for (size_t c = 0; c < a->C; c++) {
                        qkv_real v = picture[(p * a->W + q) * a->C + c];
                        if (v > to[c] || v != v || place[c] < 0) { /* the first; NaN stays */
                            to[c] = v;
                            place[c] = (int32_t)(p * a->W + q);
                        }
                    }
        }
    }
}

/* Windows may overlap, so a picture's gradients are one thread's. */
static void max_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const int32_t *from,
                         const qkv_k_conv_args *a, bool acc)
{
    size_t in = a->H * a->W * a->C, out = a->OH * a->OW * a->C;
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) \
    shared(dx, dy, from, a, acc, in, out)
    for (size_t b = 0; b < a->B; b++) {
        if (!acc)
            memset(dx + b * in, 0, in * sizeof *dx);
        for (size_t i = 0; i < out; i++)
            if (from[b * out + i] >= 0)
                dx[b * in + (size_t)from[b * out + i] * a->C + i % a->C] += dy[b * out + i];
    }
}

/* What a window's sum is divided by: its size, zeros around the picture counted. */
static qkv_real share(const qkv_k_conv_args *a) { return 1 / (qkv_real)(a->KH * a->KW); }

static void mean_pool(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_k_conv_args *a)
{
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) shared(y, x, a)
    for (size_t r = 0; r < a->B * a->OH; r++) {
        const qkv_real *picture = x + r / a->OH * a->H * a->W * a->C;
        range rows = ROWS_OF(a, r);
        for (size_t j = 0; j < a->OW; j++) {
            range columns = COLUMNS_OF(a, j);
            qkv_real *to = y + (r * a->OW + j) * a->C;
            memset(to, 0, a->C * sizeof *to);
            for (size_t p = rows.first; p < rows.end; p++)
                for (size_t q = columns.first; q < columns.end; q++)
                    for (size_t c = 0; c < a->C; c++)
                        to[c] += picture[(p * a->W + q) * a->C + c];
            for (size_t c = 0; c < a->C; c++)
                to[c] *= share(a);
        }
    }
}

static void mean_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                          const qkv_k_conv_args *a, bool acc)
{
    size_t in = a->H * a->W * a->C;
#pragma omp parallel for num_threads(e->threads) if (threaded(a)) default(none) \
    shared(dx, dy, a, acc, in)
    for (size_t b = 0; b < a->B; b++) {
        qkv_real *picture = dx + b * in;
        if (!acc)
            memset(picture, 0, in * sizeof *dx);
        for (size_t i = 0; i < a->OH * a->OW; i++) {
            range rows = ROWS_OF(a, i / a->OW), columns = COLUMNS_OF(a, i % a->OW);
            const qkv_real *g = dy + (b * a->OH * a->OW + i) * a->C;
            for (size_t p = rows.first; p < rows.end; p++)
                for (size_t q = columns.first; q < columns.end; q++)
                    for (size_t c = 0; c < a->C; c++)
                        picture[(p * a->W + q) * a->C + c] += g[c] * share(a);
        }
    }
}

void qkv__kernels_ref_pool(qkv_kernels *k)
{
    k->max_pool = max_pool;
    k->max_pool_bwd = max_pool_bwd;
    k->mean_pool = mean_pool;
    k->mean_pool_bwd = mean_pool_bwd;
}
