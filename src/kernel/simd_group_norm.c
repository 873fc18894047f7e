/* simd_group_norm.c - group norm with or without the SiLU that follows it, in vector types.
 *
 * The work is cut into blocks of places of an image, whose number depends on the sizes alone, so
 * the bits do not depend on the team. Channels are summed each for itself; groups are made of the
 * sums. */
#include <math.h>

#include "kernel/simd_math.h"

enum { GRAIN = 16384, ROWS = 64, BLOCKS = 64, STRIP = 4 * VF };

typedef struct {
    const qkv_k_group_norm_args *a;
    size_t rows, blocks, items; /* places in a block, blocks of an image, of all */
    float *parts;               /* (items, sums, C) */
    size_t sums;                /* of a channel */
} cut;

static bool make_cut(cut *k, const qkv_exec *e, const qkv_k_group_norm_args *a, size_t sums)
{
    size_t rows = a->N > ROWS * BLOCKS ? (a->N + BLOCKS - 1) / BLOCKS : ROWS;
    size_t blocks = (a->N + rows - 1) / rows;
    *k = (cut){.a = a, .rows = rows, .blocks = blocks, .items = a->B * blocks, .sums = sums};
    k->parts = qkv__arena_alloc(e->scratch, k->items * sums * a->C * sizeof *k->parts);
    return k->parts != NULL;
}

/* Where block i begins, and how many places it has. */
static size_t simd_group_norm_block(const cut *k, size_t i, size_t *rows)
{
    size_t first = i % k->blocks * k->rows, left = k->a->N - first;
    *rows = left < k->rows ? left : k->rows;
    return (i / k->blocks * k->a->N + first) * k->a->C;
}

/* sum `which` of channel c of image b, over its blocks in order. */
static double simd_group_norm_total(const cut *k, size_t b, size_t which, size_t c)
{
    double sum = 0;
    for (size_t i = b * k->blocks; i < (b + 1) * k->blocks; i++)
        sum += (double)k->parts[(i * k->sums + which) * k->a->C + c];
    return sum;
}

/* ---- statistics ---------------------------------------------------------------------------- */

/* lanes of v: how many of w channels, v * VF from their first, one vector holds. */
#define LANES(w, v) ((w) - (v) * VF < VF ? (w) - (v) * VF : VF)

/* part (C): sums over `rows` places of x, or of (x - m)^2. w <= STRIP channels. */
QKV_INLINE void sum_strip(float *part, const float *x, const float *m, size_t rows, size_t C,
                          size_t w)
{
    vf sum[4], mean[4];
    for (size_t v = 0; v * VF < w; v++) {
        sum[v] = vf_zero();
        mean[v] = m ? vf_get(m + v * VF, LANES(w, v)) : vf_zero();
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v * VF < w; v++) {
            vf d = vf_get(x + r * C + v * VF, LANES(w, v));
            if (m) {
                d -= mean[v];
                d *= d;
            }
            sum[v] += d;
        }
    for (size_t v = 0; v * VF < w; v++)
        vf_put(part + v * VF, sum[v], LANES(w, v));
}

/* m (B, C), or NULL. */
static void sum_blocks(const qkv_exec *e, const cut *k, const float *x, const float *m)
{
    const size_t C = k->a->C;
#pragma omp parallel for num_threads(e->threads) default(none) shared(k, x, m, C) \
    if (k->a->B * k->a->N * C >= GRAIN)
    for (size_t i = 0; i < k->items; i++) {
        size_t rows, at = simd_group_norm_block(k, i, &rows), c = 0;
        const float *mean = m ? m + i / k->blocks * C : NULL;
        for (; c + STRIP <= C; c += STRIP)
            sum_strip(k->parts + i * C + c, x + at + c, mean ? mean + c : NULL, rows, C, STRIP);
        if (c < C)
            sum_strip(k->parts + i * C + c, x + at + c, mean ? mean + c : NULL, rows, C, C - c);
    }
}

/* to (B, G): a group's mean of what its channels sum up to; of a variance, 1 / deviation. */
static void group_means(const qkv_exec *e, float *to, const cut *k, bool variance)
{
    const size_t width = k->a->C / k->a->G, groups = k->a->B * k->a->G;
    const double eps = k->a->eps;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(k, to, variance, width, groups, eps) if (k->items * k->a->C >= GRAIN)
    for (size_t i = 0; i < groups; i++) {
        size_t first = i % k->a->G * width;
        double sum = 0;
        for (size_t c = first; c < first + width; c++)
            sum += simd_group_norm_total(k, i / k->a->G, 0, c);
        double mean = sum / (double)(k->a->N * width);
        to[i] = (float)(variance ? 1 / sqrt(mean + eps) : mean);
    }
}

/* spread (B, C): what (B, G) says of a channel's group. */
static void simd_group_norm_spread(float *to, const float *from, const qkv_k_group_norm_args *a)
{
    size_t width = a->C / a->G;
    for (size_t i = 0; i < a->B * a->C; i++)
        to[i] = from[i / width];
}

/* ---- forward ------------------------------------------------------------------------------- */

/* One place: y = act((x - m) q + bias), q = rstd weight. */
QKV_INLINE void apply(float *y, const float *x, const float *m, const float *q, const float *bias,
                      bool silu, size_t w)
{
    vf u = vf_fma(vf_get(x, w) - vf_get(m, w), vf_get(q, w), vf_get(bias, w));
    if (silu)
        u *= vf_sigmoid(u);
    vf_put(y, u, w);
}

static void apply_blocks(const qkv_exec *e, const cut *k, float *y, const float *x, const float *m,
                         const float *q, const float *bias)
{
    const size_t C = k->a->C;
    const bool silu = k->a->silu;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(k, y, x, m, q, bias, C, silu) if (k->a->B * k->a->N * C >= GRAIN)
    for (size_t i = 0; i < k->items; i++) {
        size_t rows, at = simd_group_norm_block(k, i, &rows), b = i / k->blocks * C;
        for (size_t r = 0; r < rows; r++, at += C) {
            size_t c = 0;
            for (; c + VF <= C; c += VF)
                apply(y + at + c, x + at + c, m + b + c, q + b + c, bias + c, silu, VF);
            if (c < C)
                apply(y + at + c, x + at + c, m + b + c, q + b + c, bias + c, silu, C - c);
        }
    }
}

static void simd_group_norm(const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd,
                            const qkv_real *x, const qkv_real *weight, const qkv_real *bias,
                            const qkv_k_group_norm_args *args)
{
    const size_t B = args->B, C = args->C;
    cut k;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *m = qkv__arena_alloc(e->scratch, B * C * sizeof *m);
    float *q = qkv__arena_alloc(e->scratch, B * C * sizeof *q);
    if (m && q && make_cut(&k, e, args, 1)) {
        sum_blocks(e, &k, x, NULL);
        group_means(e, mean, &k, false);
        simd_group_norm_spread(m, mean, args);
        sum_blocks(e, &k, x, m);
        group_means(e, rstd, &k, true);
        simd_group_norm_spread(q, rstd, args);
        for (size_t i = 0; i < B * C; i++)
            q[i] *= weight[i % C];
        apply_blocks(e, &k, y, x, m, q, bias);
    }
    qkv__arena_release(e->scratch, mark);
}

/* ---- backward ------------------------------------------------------------------------------ */

/* Everything that a place's backward pass reads, (B, C) but for bias (C). */
typedef struct {
    const float *dy, *x, *bias;
    float *m, *q;    /* u = (x - m) q + bias */
    float *p, *r, *s; /* dx = p du + r (x - m) + s */
} slopes;

/* d(loss)/du, and d = x - m. */
QKV_INLINE vf slope(vf *d, const slopes *f, size_t at, size_t b, size_t c, bool silu, size_t w)
{
    vf dy = vf_get(f->dy + at, w);
    *d = vf_get(f->x + at, w) - vf_get(f->m + b, w);
    if (!silu)
        return dy;
    vf u = vf_fma(*d, vf_get(f->q + b, w), vf_get(f->bias + c, w)), s = vf_sigmoid(u);
    return dy * s * vf_fma(u, vf_set1(1.0f) - s, vf_set1(1.0f));
}

/* Sums over a block's places of du, then of du (x - m), for w <= VF channels. */
QKV_INLINE void slope_sums(float *part, const slopes *f, size_t at, size_t b, size_t c, size_t rows,
                           size_t C, bool silu, size_t w)
{
    vf sum = vf_zero(), dot = vf_zero(), d;
    for (size_t r = 0; r < rows; r++) {
        vf du = slope(&d, f, at + r * C, b, c, silu, w);
        sum += du;
        dot = vf_fma(du, d, dot);
    }
    vf_put(part, sum, w);
    vf_put(part + C, dot, w);
}

static void sum_slopes(const qkv_exec *e, const cut *k, const slopes *f)
{
    const size_t C = k->a->C;
    const bool silu = k->a->silu;
#pragma omp parallel for num_threads(e->threads) default(none) shared(k, f, C, silu) \
    if (k->a->B * k->a->N * C >= GRAIN)
    for (size_t i = 0; i < k->items; i++) {
        size_t rows, at = simd_group_norm_block(k, i, &rows), b = i / k->blocks * C, c = 0;
        float *part = k->parts + i * 2 * C;
        for (; c + VF <= C; c += VF)
            slope_sums(part + c, f, at + c, b + c, c, rows, C, silu, VF);
        if (c < C)
            slope_sums(part + c, f, at + c, b + c, c, rows, C, silu, C - c);
    }
}

QKV_INLINE void pass(float *dx, bool acc, const slopes *f, size_t at, size_t b, size_t c, bool silu,
                     size_t w)
{
    vf d, du = slope(&d, f, at, b, c, silu, w);
    vf g = vf_fma(vf_get(f->p + b, w), du, vf_fma(vf_get(f->r + b, w), d, vf_get(f->s + b, w)));
    if (acc)
        g += vf_get(dx + at, w);
    vf_put(dx + at, g, w);
}

static void pass_blocks(const qkv_exec *e, const cut *k, float *dx, bool acc, const slopes *f)
{
    const size_t C = k->a->C;
    const bool silu = k->a->silu;
#pragma omp parallel for num_threads(e->threads) default(none) shared(k, dx, acc, f, C, silu) \
    if (k->a->B * k->a->N * C >= GRAIN)
    for (size_t i = 0; i < k->items; i++) {
        size_t rows, at = simd_group_norm_block(k, i, &rows), b = i / k->blocks * C;
        for (size_t r = 0; r < rows; r++, at += C) {
            size_t c = 0;
            for (; c + VF <= C; c += VF)
                pass(dx, acc, f, at + c, b + c, c, silu, VF);
            if (c < C)
                pass(dx, acc, f, at + c, b + c, c, silu, C - c);
        }
    }
}

/* With far = (x - m) rstd and means over the group: dx = rstd (du weight - mean(du weight) -
 * far mean(du weight far)). */
static void find_slopes(const qkv_exec *e, const slopes *f, const cut *k, const float *rstd,
                        const float *weight)
{
    const qkv_k_group_norm_args *a = k->a;
    const size_t width = a->C / a->G;
    const double count = (double)(a->N * width);
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(f, k, rstd, weight, a, width, count) if (k->items * a->C >= GRAIN)
    for (size_t i = 0; i < a->B * a->G; i++) {
        size_t b = i / a->G, first = i % a->G * width;
        double sum = 0, dot = 0, scale = (double)rstd[i];
        for (size_t c = first; c < first + width; c++) {
            sum += (double)weight[c] * simd_group_norm_total(k, b, 0, c);
            dot += (double)weight[c] * simd_group_norm_total(k, b, 1, c);
        }
        for (size_t c = first; c < first + width; c++) {
            f->p[b * a->C + c] = rstd[i] * weight[c];
            f->r[b * a->C + c] = (float)(-scale * scale * scale * dot / count);
            f->s[b * a->C + c] = (float)(-scale * sum / count);
        }
    }
}

/* y (C): `which` of the two sums over all images, the second in standard deviations. */
static void sum_images(const qkv_exec *e, float *y, const cut *k, size_t which, const float *rstd)
{
    const qkv_k_group_norm_args *a = k->a;
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, k, which, rstd, a) \
    if (k->items * a->C >= GRAIN)
    for (size_t c = 0; c < a->C; c++) {
        double sum = 0;
        for (size_t b = 0; b < a->B; b++)
            sum += simd_group_norm_total(k, b, which, c) *
                   (which ? (double)rstd[b * a->G + c / (a->C / a->G)] : 1);
        y[c] = (float)sum;
    }
}

static void simd_group_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                                qkv_real *dbias, const qkv_real *dy, const qkv_real *x,
                                const qkv_real *mean, const qkv_real *rstd, const qkv_real *weight,
                                const qkv_real *bias, const qkv_k_group_norm_args *args)
{
    const size_t each = args->B * args->C;
    cut k;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *space = qkv__arena_alloc(e->scratch, 5 * each * sizeof *space);
    if (space && make_cut(&k, e, args, 2)) {
        const slopes f = {.dy = dy, .x = x, .bias = bias, .m = space, .q = space + each,
                          .p = space + 2 * each, .r = space + 3 * each, .s = space + 4 * each};
        simd_group_norm_spread(f.m, mean, args);
        simd_group_norm_spread(f.q, rstd, args);
        for (size_t i = 0; i < each; i++)
            f.q[i] *= weight[i % args->C];
        sum_slopes(e, &k, &f);
        find_slopes(e, &f, &k, rstd, weight);
        if (dweight)
            sum_images(e, dweight, &k, 1, rstd);
        if (dbias)
            sum_images(e, dbias, &k, 0, rstd);
        if (dx)
            pass_blocks(e, &k, dx, acc, &f);
    }
    qkv__arena_release(e->scratch, mark);
}

void QKV_SIMD(qkv__kernels_group_norm)(qkv_kernels *k)
{
    k->group_norm = simd_group_norm;
    k->group_norm_bwd = simd_group_norm_bwd;
}
