/* simd_rows.c - norms, rows by index and rotary positions in vector types. A row is brought into
 * the first-level cache once and everything is done with it there. Softmax and cross-entropy are
 * in simd_softmax.c. */
#include <math.h>

#include "kernel/simd.h"

enum { GRAIN = 16384 };

/* ---- norms ------------------------------------------------------------------------------- */

static float row_sum(const float *x, size_t n)
{
    vf a = vf_zero(), b = vf_zero();
    size_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        a += vf_load(x + i);
        b += vf_load(x + i + VF);
    }
    for (; i < n; i += VF)
        a += vf_get(x + i, n - i < VF ? n - i : VF);
    return vf_sum(a + b);
}

/* Sum of (x - mean)^2. */
static float row_square_sum(const float *x, float mean, size_t n)
{
    const vf m = vf_set1(mean);
    vf a = vf_zero(), b = vf_zero();
    size_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        vf u = vf_load(x + i) - m, v = vf_load(x + i + VF) - m;
        a = vf_fma(u, u, a);
        b = vf_fma(v, v, b);
    }
    for (; i + VF <= n; i += VF) {
        vf u = vf_load(x + i) - m;
        a = vf_fma(u, u, a);
    }
    if (i < n) {
        vf u = vf_where(vm_first(n - i), vf_load_n(x + i, n - i) - m);
        b = vf_fma(u, u, b);
    }
    return vf_sum(a + b);
}

/* y = (s - mean) rstd weight + bias. */
static void row_apply(float *y, const float *s, float mean, float rstd, const float *weight,
                      const float *bias, size_t n)
{
    const vf m = vf_set1(mean), k = vf_set1(rstd);
    for (size_t i = 0; i < n; i += VF) {
        size_t w = n - i < VF ? n - i : VF;
        vf v = (vf_get(s + i, w) - m) * k;
        if (weight)
            v = v * vf_get(weight + i, w);
        if (bias)
            v = v + vf_get(bias + i, w);
        vf_put(y + i, v, w);
    }
}

static void row_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += VF) {
        size_t w = n - i < VF ? n - i : VF;
        vf_put(y + i, vf_get(a + i, w) + vf_get(b + i, w), w);
    }
}

static void simd_norm(const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean,
                      qkv_real *rstd, const qkv_real *x, const qkv_real *residual,
                      const qkv_real *weight, const qkv_real *bias, const qkv_k_norm_args *args)
{
    const size_t C = args->C;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, sum, mean, rstd, x, residual, weight, bias, args, C) if (args->N * C >= GRAIN)
    for (size_t r = 0; r < args->N; r++) {
        const float *s = x + r * C;
        if (residual) {
            float *kept = (sum ? sum : y) + r * C;
            row_add(kept, s, residual + r * C, C);
            s = kept;
        }
        float m = args->rms ? 0 : row_sum(s, C) / (float)C;
        double variance = (double)row_square_sum(s, m, C) / (double)C;
        float k = (float)(1 / sqrt(variance + args->eps));
        row_apply(y + r * C, s, m, k, weight, bias, C);
        if (mean && !args->rms)
            mean[r] = m;
        if (rstd)
            rstd[r] = k;
    }
}

/* Everything norm_bwd was called with. */
typedef struct {
    float *dx;
    bool acc;
    const float *s, *mean, *rstd, *weight, *dy, *dsum;
    bool rms;
    size_t C;
} norm_bwd;

/* Means over the row of g = dy weight (0 for rms) and of g (s - mean) rstd. */
static void bwd_means(float *mean_g, float *mean_gx, const norm_bwd *b, size_t r)
{
    const float *s = b->s + r * b->C, *dy = b->dy + r * b->C;
    const vf m = vf_set1(b->rms ? 0 : b->mean[r]);
    vf sum_g = vf_zero(), sum_gx = vf_zero();
    for (size_t i = 0; i < b->C; i += VF) {
        size_t w = b->C - i < VF ? b->C - i : VF;
        vf g = vf_get(dy + i, w);
        if (b->weight)
            g = g * vf_get(b->weight + i, w);
        sum_g += g;
        sum_gx = vf_fma(g, vf_get(s + i, w) - m, sum_gx);
    }
    *mean_g = b->rms ? 0 : vf_sum(sum_g) / (float)b->C;
    *mean_gx = vf_sum(sum_gx) * b->rstd[r] / (float)b->C;
}

/* Row r of dx, and its part of dweight and dbias (NULL: not wanted). */
static void bwd_row(float *dweight, float *dbias, const norm_bwd *b, size_t r)
{
    float mean_g = 0, mean_gx = 0;
    if (b->dx)
        bwd_means(&mean_g, &mean_gx, b, r);
    const float *s = b->s + r * b->C, *dy = b->dy + r * b->C;
    const float *dsum = b->dsum ? b->dsum + r * b->C : NULL;
    float *dx = b->dx ? b->dx + r * b->C : NULL;
    const vf m = vf_set1(b->rms ? 0 : b->mean[r]), k = vf_set1(b->rstd[r]);
    const vf c1 = vf_set1(mean_g), c2 = vf_set1(mean_gx);
    for (size_t i = 0; i < b->C; i += VF) {
        size_t w = b->C - i < VF ? b->C - i : VF;
        vf d = vf_get(dy + i, w), x = (vf_get(s + i, w) - m) * k, g = d;
        if (b->weight)
            g = g * vf_get(b->weight + i, w);
        if (dweight)
            vf_put(dweight + i, vf_fma(d, x, vf_get(dweight + i, w)), w);
        if (dbias)
            vf_put(dbias + i, vf_get(dbias + i, w) + d, w);
        if (!dx)
            continue;
        g = k * (g - c1 - x * c2);
        if (dsum)
            g += vf_get(dsum + i, w);
        if (b->acc)
            g += vf_get(dx + i, w);
        vf_put(dx + i, g, w);
    }
}

/* y[c] = [y +] sum over parts (count, stride apart), in order. */
static void add_parts(float *y, bool acc, const float *parts, size_t count, size_t stride,
                      size_t C)
{
    for (size_t c = 0; c < C; c += VF) {
        size_t w = C - c < VF ? C - c : VF;
        vf sum = acc ? vf_get(y + c, w) : vf_zero();
        for (size_t p = 0; p < count; p++)
            sum += vf_get(parts + p * stride + c, w);
        vf_put(y + c, sum, w);
    }
}

/* Parameter gradients are summed per block of rows, then over the blocks in order: the blocks
 * depend on N alone, so the bits do not depend on the team. */
static void simd_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                          bool acc_weight, qkv_real *dbias, bool acc_bias, const qkv_real *s,
                          const qkv_real *mean, const qkv_real *rstd, const qkv_real *weight,
                          const qkv_real *dy, const qkv_real *dsum, const qkv_k_norm_args *args)
{
    enum { ROWS = 32, BLOCKS = 32 };
    const size_t N = args->N, C = args->C;
    const norm_bwd b = {dx, acc, s, mean, rstd, weight, dy, dsum, args->rms, C};
    size_t rows = N > ROWS * BLOCKS ? (N + BLOCKS - 1) / BLOCKS : ROWS;
    size_t blocks = N ? (N + rows - 1) / rows : 1;
    size_t width = qkv__whole_lines(C), stride = (dweight ? width : 0) + (dbias ? width : 0);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *parts = NULL;
    if (stride) {
        parts = qkv__arena_alloc(e->scratch, blocks * stride * sizeof *parts);
        if (!parts)
            return; /* the arena has recorded it */
    }
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(b, parts, stride, width, dweight, dbias, rows, blocks, N, C) if (N * C >= GRAIN)
    for (size_t i = 0; i < blocks; i++) {
        float *part = parts ? parts + i * stride : NULL;
        float *part_bias = dbias ? part + stride - width : NULL;
        for (size_t c = 0; c < stride; c++)
            part[c] = 0;
        for (size_t r = i * rows; r < N && r < (i + 1) * rows; r++)
            bwd_row(dweight ? part : NULL, part_bias, &b, r);
    }
    if (dweight)
        add_parts(dweight, acc_weight, parts, blocks, stride, C);
    if (dbias)
        add_parts(dbias, acc_bias, parts + stride - width, blocks, stride, C);
    qkv__arena_release(e->scratch, mark);
}

/* ---- rows by index ----------------------------------------------------------------------- */

static void simd_embed(const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_real *table,
                       double scale, const int32_t *positions, const qkv_real *ptable, size_t N,
                       size_t C)
{
    const vf k = vf_set1((float)scale);
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, ids, table, k, positions, ptable, N, C) if (N * C >= GRAIN)
    for (size_t r = 0; r < N; r++) {
        const float *row = table + (size_t)ids[r] * C;
        const float *shift = ptable ? ptable + (size_t)positions[r] * C : NULL;
        for (size_t c = 0; c < C; c += VF) {
            size_t w = C - c < VF ? C - c : VF;
            vf v = vf_get(row + c, w) * k;
            if (shift)
                v = v + vf_get(shift + c, w);
            vf_put(y + r * C + c, v, w);
        }
    }
}

/* Threads share the channels, in whole cache lines, so each element of dtable sees its rows in
 * order. */
static void simd_embed_bwd(const qkv_exec *e, qkv_real *dtable, const int32_t *ids,
                           const qkv_real *dy, double scale, size_t N, size_t C)
{
    const vf k = vf_set1((float)scale);
    size_t team = (size_t)e->threads, width = qkv__whole_lines((C + team - 1) / team);
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(dtable, ids, dy, k, N, C, width) if (N * C >= GRAIN)
    for (size_t c0 = 0; c0 < C; c0 += width) {
        size_t end = C - c0 < width ? C : c0 + width;
        for (size_t r = 0; r < N; r++) {
            float *row = dtable + (size_t)ids[r] * C;
            for (size_t c = c0; c < end; c += VF) {
                size_t w = end - c < VF ? end - c : VF;
                vf_put(row + c, vf_fma(k, vf_get(dy + r * C + c, w), vf_get(row + c, w)), w);
            }
        }
    }
}

/* ---- rotary ------------------------------------------------------------------------------ */

enum { PAIRS = 128 }; /* angles at a time */

/* scale * cos and scale * sign * sin of position * frequency, all in double: the angle less a
 * multiple of pi, then Taylor's series on +-pi/2, whose error is 6e-12. A plain loop without
 * integers, which the compiler turns into vectors. */
static void rotary_angles(float *cosine, float *sine, const double *frequency, double position,
                          double scale, double sign, size_t n)
{
    const double round = 6755399441055744.0; /* 1.5 2^52: adding it rounds to an integer */
    for (size_t i = 0; i < n; i++) {
        double angle = position * frequency[i];
        double turns = (angle * 0.31830988618379067154 + round) - round; /* of pi */
        double r = angle - turns * 3.14159265358979311600;
        r -= turns * 1.22464679914735317723e-16;
        double odd = turns - 2 * ((turns * 0.5 + round) - round);
        double flip = scale * (1 - 2 * odd * odd), z = r * r;
        double s = -1.0 / 1307674368000;
        s = s * z + 1.0 / 6227020800;
        s = s * z - 1.0 / 39916800;
        s = s * z + 1.0 / 362880;
        s = s * z - 1.0 / 5040;
        s = s * z + 1.0 / 120;
        s = s * z - 1.0 / 6;
        double c = 1.0 / 20922789888000;
        c = c * z - 1.0 / 87178291200;
        c = c * z + 1.0 / 479001600;
        c = c * z - 1.0 / 3628800;
        c = c * z + 1.0 / 40320;
        c = c * z - 1.0 / 720;
        c = c * z + 1.0 / 24;
        c = c * z - 0.5;
        cosine[i] = (float)(flip * (c * z + 1));
        sine[i] = (float)(flip * sign * (s * z * r + r));
    }
}

/* One head: n pairs, the second of each `half` after the first. */
static void rotate_pairs(float *y, const float *x, const float *cosine, const float *sine,
                         size_t half, bool acc, size_t n)
{
    for (size_t i = 0; i < n; i += VF) {
        size_t w = n - i < VF ? n - i : VF;
        vf a = vf_get(x + i, w), b = vf_get(x + half + i, w);
        vf c = vf_get(cosine + i, w), s = vf_get(sine + i, w);
        vf lo = vf_fnma(b, s, a * c), hi = vf_fma(a, s, b * c);
        if (acc) {
            lo += vf_get(y + i, w);
            hi += vf_get(y + half + i, w);
        }
        vf_put(y + i, lo, w);
        vf_put(y + half + i, hi, w);
    }
}

/* Channels that are not rotated. */
static void pass_channels(float *y, const float *x, bool acc, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = acc ? y[i] + x[i] : x[i];
}

static void simd_rotary(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                        const int32_t *positions, const qkv_k_rotary_args *args)
{
    const size_t half = args->width / 2, rest = args->D - args->width;
    for (size_t first = 0; first < half || first == 0; first += PAIRS) {
        size_t n = half - first < PAIRS ? half - first : PAIRS;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, x, positions, args, half, rest, first, n) \
    if (args->N * args->H * args->D >= GRAIN)
        for (size_t r = 0; r < args->N; r++) {
            float cosine[PAIRS], sine[PAIRS];
            rotary_angles(cosine, sine, args->frequency + first, positions[r], args->scale,
                          args->sign, n);
            for (size_t h = 0; h < args->H; h++) {
                float *out = y + r * args->sy + h * args->hy;
                const float *in = x + r * args->sx + h * args->hx;
                rotate_pairs(out + first, in + first, cosine, sine, half, args->acc, n);
                if (first == 0)
                    pass_channels(out + args->width, in + args->width, args->acc, rest);
            }
        }
    }
}

/* ---- the nearest code ------------------------------------------------------------------- */

/* Every lane keeps its first least; of the lanes the lowest column wins. */
static int32_t nearest_of(const float *products, float x2, const float *code2, size_t K)
{
    const vf here = vf_set1(x2), two = vf_set1(2.0f), far = vf_set1(INFINITY);
    float value[VF];
    uint32_t place[VF], column[VF];
    for (uint32_t i = 0; i < VF; i++)
        column[i] = i;
    vf least = far, at = (vf)vi_set1(0);
    vi now = vi_load(column);
    for (size_t k = 0; k < K; k += VF, now = vi_add(now, vi_set1(VF))) {
        size_t w = K - k < VF ? K - k : VF;
        vf d = vf_fnma(two, vf_get(products + k, w), here + vf_get(code2 + k, w));
        if (w < VF) {
            vf_store(value, far);
            vf_put(value, d, w);
            d = vf_load(value);
        }
        vm nearer = vf_lt(d, least);
        least = vf_select(nearer, d, least);
        at = vf_select(nearer, (vf)now, at);
    }
    vf_store(value, least);
    vi_store(place, (vi)at);
    size_t best = 0;
    for (size_t i = 1; i < VF; i++)
        if (value[i] < value[best] || (value[i] == value[best] && place[i] < place[best]))
            best = i;
    return (int32_t)place[best];
}

static void simd_nearest(const qkv_exec *e, int32_t *id, const qkv_real *products,
                         const qkv_real *x2, const qkv_real *code2, size_t N, size_t K)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(id, products, x2, code2, N, K) if (N * K >= GRAIN)
    for (size_t n = 0; n < N; n++)
        id[n] = nearest_of(products + n * K, x2[n], code2, K);
}

void QKV_SIMD(qkv__kernels_rows)(qkv_kernels *k)
{
    k->norm = simd_norm;
    k->norm_bwd = simd_norm_bwd;
    k->embed = simd_embed;
    k->embed_bwd = simd_embed_bwd;
    k->nearest = simd_nearest;
    k->rotary = simd_rotary;
}
