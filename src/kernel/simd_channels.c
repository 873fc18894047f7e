/* simd_channels.c - channel by channel over all rows, in vector types: what batch norm is made
 * of. */
#include "kernel/simd.h"

enum { GRAIN = 16384, ROWS = 64, BLOCKS = 128, STRIP = 4 * VF };

/* Channels first .. first+w-1, w <= STRIP, of `rows` rows: part (C) gets their sums. */
QKV_INLINE void dot_strip(float *part, const float *a, const float *x, const float *m, size_t rows,
                          size_t C, size_t first, size_t w)
{
    vf sum[4], mean[4];
    for (size_t v = 0; v * VF < w; v++) {
        sum[v] = vf_zero();
        mean[v] = vf_get(m + first + v * VF, w - v * VF < VF ? w - v * VF : VF);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v * VF < w; v++) {
            size_t at = r * C + first + v * VF, n = w - v * VF < VF ? w - v * VF : VF;
            vf d = vf_get(x + at, n) - mean[v];
            sum[v] = vf_fma(d, a ? vf_get(a + at, n) : d, sum[v]);
        }
    for (size_t v = 0; v * VF < w; v++)
        vf_put(part + first + v * VF, sum[v], w - v * VF < VF ? w - v * VF : VF);
}

/* Summed per block of rows, then over the blocks in order: the blocks depend on N alone, so the
 * bits do not depend on the team. */
static void simd_channel_dot(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *x,
                             const qkv_real *m, size_t N, size_t C)
{
    size_t rows = N > ROWS * BLOCKS ? (N + BLOCKS - 1) / BLOCKS : ROWS;
    size_t blocks = N ? (N + rows - 1) / rows : 0;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *parts = qkv__arena_alloc(e->scratch, (blocks * C + 1) * sizeof *parts);
    if (!parts)
        return; /* the arena has recorded it */
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(parts, a, x, m, N, C, rows, blocks) if (N * C >= GRAIN)
    for (size_t b = 0; b < blocks; b++) {
        size_t n = N - b * rows < rows ? N - b * rows : rows, from = b * rows * C, c = 0;
        for (; c + STRIP <= C; c += STRIP)
            dot_strip(parts + b * C, a ? a + from : NULL, x + from, m, n, C, c, STRIP);
        if (c < C)
            dot_strip(parts + b * C, a ? a + from : NULL, x + from, m, n, C, c, C - c);
    }
    for (size_t c = 0; c < C; c += VF) {
        size_t w = C - c < VF ? C - c : VF;
        vf sum = vf_zero();
        for (size_t b = 0; b < blocks; b++)
            sum += vf_get(parts + b * C + c, w);
        vf_put(y + c, sum, w);
    }
    qkv__arena_release(e->scratch, mark);
}

static void simd_channel_map(const qkv_exec *e, qkv_real *y, bool acc, const qkv_real *x,
                             const qkv_k_channel_map_args *g, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, acc, x, g, N, C) \
    if (N * C >= GRAIN)
    for (size_t r = 0; r < N; r++)
        for (size_t c = 0; c < C; c += VF) {
            size_t i = r * C + c, w = C - c < VF ? C - c : VF;
            vf v = vf_get(x + i, w);
            if (g->m)
                v -= vf_get(g->m + c, w);
            v *= vf_get(g->q + c, w);
            if (g->u)
                v = vf_fma(vf_get(g->p + c, w), vf_get(g->u + i, w), v);
            if (g->r)
                v += vf_get(g->r + c, w);
            if (acc)
                v += vf_get(y + i, w);
            vf_put(y + i, v, w);
        }
}

void QKV_SIMD(qkv__kernels_channels)(qkv_kernels *k)
{
    k->channel_dot = simd_channel_dot;
    k->channel_map = simd_channel_map;
}
