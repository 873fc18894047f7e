/* simd_small.h - y = x w^T + bias with weights in fewer bits, once for all ways to multiply bytes.
 *
 * A tile of y, some rows of x by some groups of rows of w, stays in registers while k runs; the
 * numbers of x are broadcast. The sum over a block of integers is exact, in 32 bits; times the
 * scale of x's block it is added to the tile's sums. The groups of a tile are not neighbours: a
 * thread cuts its part of w into as many runs and goes through them side by side, so that memory is
 * read in a few long streams (simd_gemv.c). As many rows of x as fit the second cache are
 * multiplied with all of w before the next.
 *
 * A file that includes this has defined small_line (a vector of a line, ready for small_dot),
 * small_dot8 and small_dot4 (add the products of four bytes in each lane), small_real,
 * small_scales (of 4 bits), small_put (stores VF integers as bytes), and SMALL_OFFSET8, the offset
 * that bytes of 8 bits still have after small_line. */
#ifndef QKV_KERNEL_SIMD_SMALL_H
#define QKV_KERNEL_SIMD_SMALL_H

#include "kernel/simd.h"
#include "kernel/simd_small_round.h"
#include "kernel/small.h"

/* Rows and groups of a tile, of few rows of x and of more, and vectors of a group: both kinds of
 * sums must fit the registers, of which AVX-512 has twice as many. */
enum {
    FEW = VF == 16 ? 2 : 1, FEW_GROUPS = VF == 16 ? 4 : 2,
    MR = VF == 16 ? 6 : 2, GROUPS = VF == 16 ? 2 : 1,
    GROUP_V = QKV_K_PACKED / VF, NV = FEW_GROUPS * GROUP_V
};
/* Bytes of a stream that are fetched before few rows of x meet them: without it bf16 was read at
 * 86 % of what f32 is, int8 at 96 %; now at the same rate (family 6 model 167, one thread). */
enum { AHEAD = 2048 };
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */
static const size_t block_bytes = 1u << 19;   /* of x: a part of the second cache */

typedef struct {
    float *y;
    const float *x, *bias;
    const qkv_k_small *w;
    size_t ldy, ldx, m, groups, group_bytes;
    /* Of integers: x in 8 bits, blocks of it, their scales, and with what their sums begin. */
    size_t padded, block, blocks;
    int8_t *q;         /* (m, padded) */
    float *scale;      /* (m, blocks) */
    int32_t *start;    /* (m, blocks) */
} job;

typedef uint32_t small_words __attribute__((vector_size(VF * 4)));

static const unsigned char *small_group(const job *t, size_t g)
{
    return (const unsigned char *)t->w->words + g * t->group_bytes;
}

/* ---- x in 8 bits --------------------------------------------------------------------------- */

/* Block b of row i. */
static void round_one(const job *t, size_t i, size_t b)
{
    size_t at = b * t->block, left = t->w->k - at;
    const small_rounded to = {t->q + i * t->padded + at, t->scale + i * t->blocks + b,
                              t->start + i * t->blocks + b};
    small_round_block(&to, t->x + i * t->ldx + at, at_most(left, t->block), t->block,
                      small_offset(t->w->type));
}

static void small_round_rows(const qkv_exec *e, const job *t)
{
    size_t count = t->m * t->blocks, team = t->m * t->padded > worth_threads ?
        (size_t)e->threads : 1;
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, count)
    for (size_t i = 0; i < count; i++)
        round_one(t, i / t->blocks, i % t->blocks);
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* Rows i .. i+M-1 of x and groups g + r apart, r < R: their block b. M, R and TYPE are constants
 * wherever these are inlined. */
QKV_INLINE void small_block(const job *t, vi acc[MR][NV], const unsigned char *const *line,
                            const int8_t *q, const qkv_k_small_type TYPE, const size_t M,
                            const size_t R)
{
    const size_t lines = TYPE == QKV_K_INT8 ? QKV_K_INT8_BLOCK / 4 : QKV_K_INT4_BLOCK / 8;
    for (size_t l = 0; l < lines; l++) {
        vi w[NV];
        for (size_t v = 0; v < R * GROUP_V; v++)
            w[v] = small_line(line[v / GROUP_V] + l * QKV__SMALL_LINE + v % GROUP_V * VF * 4,
                              TYPE);
        for (size_t r = 0; r < R && M <= FEW; r++)
            __builtin_prefetch(line[r] + l * QKV__SMALL_LINE + AHEAD);
        for (size_t a = 0; a < M; a++) {
            const int8_t *x = q + a * t->padded + l * (TYPE == QKV_K_INT8 ? 4 : 8);
            vi first = small_four(x), second = TYPE == QKV_K_INT4 ? small_four(x + 4) : first;
            for (size_t v = 0; v < R * GROUP_V; v++)
                if (TYPE == QKV_K_INT8) {
                    acc[a][v] = small_dot8(acc[a][v], w[v], first);
                } else {
                    acc[a][v] = small_dot4(acc[a][v], small_low(w[v]), first);
                    acc[a][v] = small_dot4(acc[a][v], small_high(w[v]), second);
                }
        }
    }
}

/* sum += the products of integers. */
QKV_INLINE void small_integers(const job *t, vf sum[MR][NV], size_t i, size_t g, size_t apart,
                               const qkv_k_small_type TYPE, const size_t M, const size_t R)
{
    const size_t bytes = TYPE == QKV_K_INT8 ? QKV_K_INT8_BLOCK * QKV_K_PACKED
                                            : QKV_K_INT4_BLOCK * QKV_K_PACKED / 2;
    for (size_t b = 0; b < t->blocks; b++) {
        const unsigned char *line[FEW_GROUPS];
        vi acc[MR][NV];
        for (size_t r = 0; r < R; r++)
            line[r] = small_group(t, g + r * apart) + b * bytes;
        for (size_t a = 0; a < M; a++)
            for (size_t v = 0; v < R * GROUP_V; v++)
                acc[a][v] = vi_set1((uint32_t)t->start[(i + a) * t->blocks + b]);
        small_block(t, acc, line, t->q + i * t->padded + b * t->block, TYPE, M, R);
        vf scale[NV];
        for (size_t v = 0; v < R * GROUP_V && TYPE == QKV_K_INT4; v++)
            scale[v] = small_scales((const uint16_t *)t->w->scales +
                                    ((g + v / GROUP_V * apart) * t->blocks + b) * QKV_K_PACKED +
                                    v % GROUP_V * VF);
        for (size_t a = 0; a < M; a++) {
            vf of_x = vf_set1(t->scale[(i + a) * t->blocks + b]);
            for (size_t v = 0; v < R * GROUP_V; v++)
                sum[a][v] = vf_fma(small_real(acc[a][v]), TYPE == QKV_K_INT4 ? (vf)(of_x * scale[v])
                                                                            : of_x, sum[a][v]);
        }
    }
}

/* The same of bf16: the halves of a word are the upper halves of floats. */
QKV_INLINE void small_halves(const job *t, vf sum[MR][NV], size_t i, size_t g, size_t apart,
                             const size_t M, const size_t R)
{
    const float *x = t->x + i * t->ldx;
    size_t k = t->w->k;
    for (size_t p = 0; p < k; p += 2) {
        vf low[NV], high[NV];
        for (size_t v = 0; v < R * GROUP_V; v++) {
            const unsigned char *line = small_group(t, g + v / GROUP_V * apart) +
                                        p / 2 * QKV__SMALL_LINE + v % GROUP_V * VF * 4;
            small_words word = (small_words)vf_load((const float *)(const void *)line);
            if (M <= FEW && v % GROUP_V == 0)
                __builtin_prefetch(line + AHEAD);
            low[v] = (vf)(word << 16);
            high[v] = (vf)(word & 0xffff0000u);
        }
        for (size_t a = 0; a < M; a++) {
            vf first = vf_set1(x[a * t->ldx + p]);
            for (size_t v = 0; v < R * GROUP_V; v++)
                sum[a][v] = vf_fma(first, low[v], sum[a][v]);
            if (p + 1 == k)
                continue;
            vf second = vf_set1(x[a * t->ldx + p + 1]);
            for (size_t v = 0; v < R * GROUP_V; v++)
                sum[a][v] = vf_fma(second, high[v], sum[a][v]);
        }
    }
}

QKV_INLINE void small_tile(const job *t, size_t i, size_t g, size_t apart,
                           const qkv_k_small_type TYPE, const size_t M, const size_t R)
{
    vf sum[MR][NV];
    for (size_t a = 0; a < M; a++)
        for (size_t v = 0; v < R * GROUP_V; v++)
            sum[a][v] = vf_zero();
    if (TYPE == QKV_K_BF16)
        small_halves(t, sum, i, g, apart, M, R);
    else
        small_integers(t, sum, i, g, apart, TYPE, M, R);
    for (size_t v = 0; v < R * GROUP_V; v++) {
        size_t at = (g + v / GROUP_V * apart) * QKV_K_PACKED + v % GROUP_V * VF;
        size_t lanes = at < t->w->n ? at_most(t->w->n - at, VF) : 0;
        if (!lanes)
            continue;
        vf bias = t->bias ? vf_get(t->bias + at, lanes) : vf_zero();
        vf scale = TYPE == QKV_K_INT8 ? vf_load((const float *)t->w->scales + at) : vf_zero();
        for (size_t a = 0; a < M; a++)
            vf_put(t->y + (i + a) * t->ldy + at,
                   TYPE == QKV_K_INT8 ? vf_fma(sum[a][v], scale, bias) : (vf)(sum[a][v] + bias),
                   lanes);
    }
}

/* The rows of a tile; R as above. */
QKV_INLINE void small_height(const job *t, size_t i, size_t g, size_t apart, size_t rows,
                             const qkv_k_small_type TYPE, const size_t R)
{
    enum { MOST = MR };
    const size_t most = R > GROUPS ? FEW : MOST;
    switch (rows) {
    case 1: small_tile(t, i, g, apart, TYPE, 1, R); break;
    case 2: small_tile(t, i, g, apart, TYPE, at_most(2, most), R); break;
    case 3: small_tile(t, i, g, apart, TYPE, at_most(3, most), R); break;
    case 4: small_tile(t, i, g, apart, TYPE, at_most(4, most), R); break;
    case 5: small_tile(t, i, g, apart, TYPE, at_most(5, most), R); break;
    default: small_tile(t, i, g, apart, TYPE, most, R);
    }
}

QKV_INLINE void small_typed(const job *t, size_t i, size_t g, size_t apart, size_t rows,
                            const size_t R)
{
    switch (t->w->type) {
    case QKV_K_BF16: small_height(t, i, g, apart, rows, QKV_K_BF16, R); break;
    case QKV_K_INT8: small_height(t, i, g, apart, rows, QKV_K_INT8, R); break;
    default: small_height(t, i, g, apart, rows, QKV_K_INT4, R);
    }
}

/* Rows i0 .. i1-1 of x, all of which fit the second cache, with groups g0 .. g1-1 of w. */
QKV_INLINE void small_runs(const job *t, size_t i0, size_t i1, size_t g0, size_t g1,
                           const size_t M, const size_t R)
{
    size_t run = (g1 - g0) / R;
    for (size_t g = 0; g < run; g++)
        for (size_t i = i0; i < i1; i += M)
            small_typed(t, i, g0 + g, run, at_most(i1 - i, M), R);
    for (size_t g = g0 + run * R; g < g1; g++)
        for (size_t i = i0; i < i1; i += MR)
            small_typed(t, i, g, 0, at_most(i1 - i, MR), 1);
}

static void small_piece(const job *t, size_t i0, size_t i1, size_t g0, size_t g1)
{
    size_t row = t->w->type == QKV_K_BF16 ? t->w->k * sizeof(float) : t->padded;
    size_t block = block_bytes / (row + 1) / MR * MR;
    if (i1 - i0 <= FEW) {
        small_runs(t, i0, i1, g0, g1, FEW, FEW_GROUPS);
        return;
    }
    for (block = block ? block : MR; i0 < i1; i0 += block)
        small_runs(t, i0, at_most(i1, i0 + block), g0, g1, MR, GROUPS);
}

/* ---- the product --------------------------------------------------------------------------- */

static bool small_take_memory(const qkv_exec *e, job *t)
{
    size_t count = t->m * t->blocks;
    t->q = qkv__arena_alloc(e->scratch, t->m * t->padded);
    t->scale = t->q ? qkv__arena_alloc(e->scratch, count * sizeof *t->scale) : NULL;
    t->start = t->scale ? qkv__arena_alloc(e->scratch, count * sizeof *t->start) : NULL;
    return t->start;
}

/* Threads share the groups, or the rows of x where there are many more of them. */
static void simd_small_small(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                             const qkv_k_small *w, const float *bias, size_t m)
{
    job t = {.y = y, .x = x, .bias = bias, .w = w, .ldy = ldy, .ldx = ldx, .m = m,
             .groups = qkv__small_groups(w), .group_bytes = qkv__small_group_bytes(w)};
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (w->type != QKV_K_BF16) {
        t.padded = qkv__small_padded(w);
        t.block = qkv__small_kinds[w->type].block;
        t.blocks = t.padded / t.block;
        if (!small_take_memory(e, &t)) {
            qkv__arena_release(e->scratch, mark);
            return;
        }
        small_round_rows(e, &t);
    }
    size_t team = m * w->n * w->k > worth_threads ? (size_t)e->threads : 1;
    bool down = m / MR / team > t.groups / GROUPS / team || m >= 16 * MR * team;
    size_t tiles = (m + MR - 1) / MR;
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, team, down, tiles)
    for (size_t p = 0; p < team; p++) {
        if (down)
            small_piece(&t, tiles * p / team * MR,
                        at_most(tiles * (p + 1) / team * MR, t.m), 0, t.groups);
        else
            small_piece(&t, 0, t.m, t.groups * p / team, t.groups * (p + 1) / team);
    }
    qkv__arena_release(e->scratch, mark);
}

#endif
