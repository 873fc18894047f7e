/* ref_channels.c - channel by channel over all rows, in plain C: what batch norm is made of. */
#include "kernel/ref_math.h"

enum { STRIP = 16 }; /* channels at a time */

static void ref_channel_dot(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *x,
                            const qkv_real *m, size_t N, size_t C)
{
    size_t strips = (C + STRIP - 1) / STRIP;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, a, x, m, N, C, strips) if (N * C >= REF_GRAIN)
    for (size_t s = 0; s < strips; s++) {
        size_t first = s * STRIP, width = C - first < STRIP ? C - first : STRIP;
        double sum[STRIP] = {0};
        for (size_t r = 0; r < N; r++)
            for (size_t c = 0; c < width; c++) {
                size_t i = r * C + first + c;
                double d = (double)x[i] - (double)m[first + c];
                sum[c] += d * (a ? (double)a[i] : d);
            }
        for (size_t c = 0; c < width; c++)
            y[first + c] = (qkv_real)sum[c];
    }
}

static void ref_channel_map(const qkv_exec *e, qkv_real *y, bool acc, const qkv_real *x,
                            const qkv_k_channel_map_args *g, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, acc, x, g, N, C) \
    if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++)
        for (size_t c = 0; c < C; c++) {
            size_t i = r * C + c;
            qkv_real v = (g->m ? x[i] - g->m[c] : x[i]) * g->q[c];
            v = g->u ? v + g->p[c] * g->u[i] : v;
            v = g->r ? v + g->r[c] : v;
            y[i] = acc ? y[i] + v : v;
        }
}

void qkv__kernels_ref_channels(qkv_kernels *k)
{
    k->channel_dot = ref_channel_dot;
    k->channel_map = ref_channel_map;
}
