/* simd_small.h - y = x w^T + bias with weights in fewer bits, once for all ways to multiply bytes.
 *
 * A tile of y, some rows of x by some groups of rows of w, stays in registers while k runs; the
 * numbers of x are broadcast. The sum over a block of integers is exact, in 32 bits; times the
 * scale of x's block it is added to the tile's sums. The groups of a tile are not neighbours: a
 * thread cuts its part of w into as many runs and goes through them side by side, so that memory is
 * read in a few long streams (simd_gemv.c). As many rows of x as fit the second cache are
 * multiplied with all of w before the next, and each of their tiles fetches its share of the groups
 * that come next: 8 rows of int8 were 1.4 times, 16 rows 1.6 times as fast with that (family 6
 * model 207, one thread).
 *
 * A file that includes this has defined small_line (a vector of a line, ready for small_dot),
 * small_dot8 and small_dot4 (add the products of four bytes in each lane), small_real,
 * small_scales (of 4 bits), small_put (stores VF integers as bytes), SMALL_OFFSET8, the offset that
 * bytes of 8 bits still have after small_line, and SMALL_ROWS, the rows of a tile of integers in
 * AVX2 and NEON. With SMALL_SHORT4, which says that small_dot4 adds in 16 bits, it has defined
 * small_begin and small_end, too: a block's sums before its first product and after its last. */
#ifndef QKV_KERNEL_SIMD_SMALL_H
#define QKV_KERNEL_SIMD_SMALL_H

#include "kernel/simd.h"
#include "kernel/simd_small_round.h"
#include "kernel/small.h"

/* Rows and groups of a tile, of few rows of x and of more, and vectors of a group: both kinds of
 * sums must fit the registers, of which AVX-512 has twice as many. bf16 has one kind. */
enum {
    FEW = VF == 16 ? 2 : 1, FEW_GROUPS = VF == 16 ? 4 : 2,
    MR16 = VF == 16 ? 6 : 4, MR8 = VF == 16 ? 6 : SMALL_ROWS, GROUPS = VF == 16 ? 2 : 1,
    MR = (int)MR16 > (int)MR8 ? (int)MR16 : (int)MR8,
    GROUP_V = QKV_K_PACKED / VF, NV = FEW_GROUPS * GROUP_V
};
/* Bytes of a stream that are fetched before few rows of x meet them: without it bf16 was read at
 * 86 % of what f32 is, int8 at 96 %; now at the same rate (family 6 model 167, one thread). In AVX2
 * int8 and int4 were read 1.1 to 1.2 times as fast with 8192 as with 2048 (AMD EPYC family 25
 * model 1, one thread).
 * __builtin_prefetch's second cache, into which more rows fetch. */
enum { AHEAD = VF == 16 ? 2048 : 8192, L2 = 2 };
/* Lines of a group that tiles count together when they fetch; those of a block, of integers. */
enum { LINES8 = QKV_K_INT8_BLOCK / 4, LINES4 = QKV_K_INT4_BLOCK / 8, LINES16 = 16 };
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */
static const size_t block_bytes = 1u << 19;   /* of x: a part of the second cache */

typedef struct {
    float *y;
    const float *x, *bias;
    const qkv_k_small *w;
    size_t ldy, ldx, m, groups, group_bytes, rows; /* rows: of a tile, at most */
    /* Of integers: x in 8 bits, blocks of it, their scales, and with what their sums begin. */
    size_t padded, block, blocks;
    int8_t *q;         /* (m, padded) */
    float *scale;      /* (m, blocks) */
    int32_t *start;    /* (m, blocks) */
} job;

/* What a tile fetches of the groups that come next: from which byte of them on, and how many of the
 * first lines of a block fetch one. */
typedef struct {
    size_t from, lines;
} small_fetch;

typedef uint32_t small_words __attribute__((vector_size(VF * 4)));

static const unsigned char *small_group(const job *t, size_t g)
{
    return (const unsigned char *)t->w->words + g * t->group_bytes;
}

static size_t small_lines(qkv_k_small_type type)
{
    return type == QKV_K_BF16 ? LINES16 : type == QKV_K_INT8 ? LINES8 : LINES4;
}

/* The share of tile `i` of `tiles`. */
static small_fetch small_share(const job *t, size_t i, size_t tiles)
{
    size_t block = small_lines(t->w->type), lines = (block + tiles - 1) / tiles;
    small_fetch f = {i * lines * (t->group_bytes / block), lines};
    return f.from < t->group_bytes ? f : (small_fetch){0, 0};
}

/* One of the first lines of block b of a group is at `line`; a block has LINES. */
QKV_INLINE void small_ahead(const job *t, const unsigned char *line, const small_fetch *f,
                            size_t b, const size_t LINES)
{
    __builtin_prefetch(line + t->group_bytes + f->from -
                           b * (LINES - f->lines) * QKV__SMALL_LINE, 0, L2);
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

#ifndef SMALL_SHORT4
static inline vi small_begin(int32_t start, const qkv_k_small_type TYPE)
{
    (void)TYPE;
    return vi_set1((uint32_t)start);
}
static inline vi small_end(vi acc, int32_t start, const qkv_k_small_type TYPE)
{
    (void)start;
    (void)TYPE;
    return acc;
}
#endif

/* Rows i .. i+M-1 of x and groups g + r apart, r < R: their block b. M, R and TYPE are constants
 * wherever these are inlined. In a loop that is not unrolled gcc copies every sum twice a line. */
QKV_INLINE void small_block(const job *t, vi acc[MR][NV], const unsigned char *const *line,
                            const small_fetch *f, size_t b, const int8_t *q,
                            const qkv_k_small_type TYPE, const size_t M, const size_t R)
{
    const size_t lines = TYPE == QKV_K_INT8 ? LINES8 : LINES4;
    QKV_UNROLL
    for (size_t l = 0; l < lines; l++) {
        vi w[NV];
        for (size_t v = 0; v < R * GROUP_V; v++)
            w[v] = small_line(line[v / GROUP_V] + l * QKV__SMALL_LINE + v % GROUP_V * VF * 4,
                              TYPE);
        for (size_t r = 0; r < R; r++)
            if (M <= FEW)
                __builtin_prefetch(line[r] + l * QKV__SMALL_LINE + AHEAD);
            else if (l < f->lines)
                small_ahead(t, line[r] + l * QKV__SMALL_LINE, f, b, lines);
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
                               const small_fetch *f, const qkv_k_small_type TYPE, const size_t M,
                               const size_t R)
{
    const size_t bytes = (TYPE == QKV_K_INT8 ? LINES8 : LINES4) * QKV__SMALL_LINE;
    for (size_t b = 0; b < t->blocks; b++) {
        const unsigned char *line[FEW_GROUPS];
        vi acc[MR][NV];
        for (size_t r = 0; r < R; r++)
            line[r] = small_group(t, g + r * apart) + b * bytes;
        for (size_t a = 0; a < M; a++)
            for (size_t v = 0; v < R * GROUP_V; v++)
                acc[a][v] = small_begin(t->start[(i + a) * t->blocks + b], TYPE);
        small_block(t, acc, line, f, b, t->q + i * t->padded + b * t->block, TYPE, M, R);
        vf scale[NV];
        for (size_t v = 0; v < R * GROUP_V && TYPE == QKV_K_INT4; v++)
            scale[v] = small_scales((const uint16_t *)t->w->scales +
                                    ((g + v / GROUP_V * apart) * t->blocks + b) * QKV_K_PACKED +
                                    v % GROUP_V * VF);
        for (size_t a = 0; a < M; a++) {
            size_t at = (i + a) * t->blocks + b;
            vf of_x = vf_set1(t->scale[at]);
            for (size_t v = 0; v < R * GROUP_V; v++)
                sum[a][v] = vf_fma(small_real(small_end(acc[a][v], t->start[at], TYPE)),
                                   TYPE == QKV_K_INT4 ? (vf)(of_x * scale[v]) : of_x, sum[a][v]);
        }
    }
}

/* The same of a line of bf16, numbers p and p + 1: the halves of a word are the upper halves of
 * floats. */
QKV_INLINE void small_pair(const job *t, vf sum[MR][NV], const float *x, size_t p,
                           const unsigned char *const *group, const size_t M, const size_t R)
{
    vf low[NV], high[NV];
    for (size_t v = 0; v < R * GROUP_V; v++) {
        const unsigned char *line = group[v / GROUP_V] + p / 2 * QKV__SMALL_LINE;
        small_words word =
            (small_words)vf_load((const float *)(const void *)(line + v % GROUP_V * VF * 4));
        if (M <= FEW && v % GROUP_V == 0)
            __builtin_prefetch(line + AHEAD);
        low[v] = (vf)(word << 16);
        high[v] = (vf)(word & 0xffff0000u);
    }
    for (size_t a = 0; a < M; a++) {
        vf first = vf_set1(x[a * t->ldx + p]);
        for (size_t v = 0; v < R * GROUP_V; v++)
            sum[a][v] = vf_fma(first, low[v], sum[a][v]);
        if (p + 1 == t->w->k)
            continue;
        vf second = vf_set1(x[a * t->ldx + p + 1]);
        for (size_t v = 0; v < R * GROUP_V; v++)
            sum[a][v] = vf_fma(second, high[v], sum[a][v]);
    }
}

QKV_INLINE void small_halves(const job *t, vf sum[MR][NV], size_t i, size_t g, size_t apart,
                             const small_fetch *f, const size_t M, const size_t R)
{
    const float *x = t->x + i * t->ldx;
    const unsigned char *group[FEW_GROUPS];
    size_t lines = (t->w->k + 1) / 2;
    for (size_t r = 0; r < R; r++)
        group[r] = small_group(t, g + r * apart);
    for (size_t b = 0, l = 0; l < lines; b++) {
        size_t end = at_most(lines, l + LINES16), fetch = M <= FEW ? l : at_most(end, l + f->lines);
        for (; l < fetch; l++) {
            for (size_t r = 0; r < R; r++)
                small_ahead(t, group[r] + l * QKV__SMALL_LINE, f, b, LINES16);
            small_pair(t, sum, x, 2 * l, group, M, R);
        }
        for (; l < end; l++)
            small_pair(t, sum, x, 2 * l, group, M, R);
    }
}

QKV_INLINE void small_tile(const job *t, size_t i, size_t g, size_t apart, const small_fetch *f,
                           const qkv_k_small_type TYPE, const size_t M, const size_t R)
{
    vf sum[MR][NV];
    for (size_t a = 0; a < M; a++)
        for (size_t v = 0; v < R * GROUP_V; v++)
            sum[a][v] = vf_zero();
    if (TYPE == QKV_K_BF16)
        small_halves(t, sum, i, g, apart, f, M, R);
    else
        small_integers(t, sum, i, g, apart, f, TYPE, M, R);
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
QKV_INLINE void small_height(const job *t, size_t i, size_t g, size_t apart, const small_fetch *f,
                             size_t rows, const qkv_k_small_type TYPE, const size_t R)
{
    const size_t most = R > GROUPS ? FEW : TYPE == QKV_K_BF16 ? MR16 : MR8;
    switch (rows) {
    case 1: small_tile(t, i, g, apart, f, TYPE, 1, R); break;
    case 2: small_tile(t, i, g, apart, f, TYPE, at_most(2, most), R); break;
    case 3: small_tile(t, i, g, apart, f, TYPE, at_most(3, most), R); break;
    case 4: small_tile(t, i, g, apart, f, TYPE, at_most(4, most), R); break;
    case 5: small_tile(t, i, g, apart, f, TYPE, at_most(5, most), R); break;
    default: small_tile(t, i, g, apart, f, TYPE, most, R);
    }
}

QKV_INLINE void small_typed(const job *t, size_t i, size_t g, size_t apart, const small_fetch *f,
                            size_t rows, const size_t R)
{
    switch (t->w->type) {
    case QKV_K_BF16: small_height(t, i, g, apart, f, rows, QKV_K_BF16, R); break;
    case QKV_K_INT8: small_height(t, i, g, apart, f, rows, QKV_K_INT8, R); break;
    default: small_height(t, i, g, apart, f, rows, QKV_K_INT4, R);
    }
}

/* Rows i0 .. i1-1 of x, all of which fit the second cache, in tiles of at most M that are as alike
 * as can be, with groups g0 .. g1-1 of w. */
QKV_INLINE void small_runs(const job *t, size_t i0, size_t i1, size_t g0, size_t g1,
                           const size_t M, const size_t R)
{
    size_t run = (g1 - g0) / R, tiles = (i1 - i0 + M - 1) / M;
    size_t rows = tiles ? (i1 - i0 + tiles - 1) / tiles : 0;
    for (size_t g = 0; g < run; g++)
        for (size_t i = i0; i < i1; i += rows) {
            const small_fetch f = small_share(t, (i - i0) / rows, tiles);
            small_typed(t, i, g0 + g, run, &f, at_most(i1 - i, rows), R);
        }
    for (size_t g = g0 + run * R; g < g1; g++)
        for (size_t i = i0; i < i1; i += t->rows)
            small_typed(t, i, g, 0, &(small_fetch){0, 0}, at_most(i1 - i, t->rows), 1);
}

static void small_piece(const job *t, size_t i0, size_t i1, size_t g0, size_t g1)
{
    size_t row = t->w->type == QKV_K_BF16 ? t->w->k * sizeof(float) : t->padded;
    size_t block = block_bytes / (row + 1) / t->rows * t->rows;
    if (i1 - i0 <= FEW) {
        small_runs(t, i0, i1, g0, g1, FEW, FEW_GROUPS);
        return;
    }
    for (block = block ? block : t->rows; i0 < i1; i0 += block)
        small_runs(t, i0, at_most(i1, i0 + block), g0, g1, t->rows, GROUPS);
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
             .groups = qkv__small_groups(w), .group_bytes = qkv__small_group_bytes(w),
             .rows = w->type == QKV_K_BF16 ? MR16 : MR8};
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
    size_t tiles = (m + t.rows - 1) / t.rows;
    bool down = tiles > t.groups / GROUPS || tiles >= 16 * team;
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, team, down, tiles)
    for (size_t p = 0; p < team; p++) {
        if (down)
            small_piece(&t, tiles * p / team * t.rows,
                        at_most(tiles * (p + 1) / team * t.rows, t.m), 0, t.groups);
        else
            small_piece(&t, 0, t.m, t.groups * p / team, t.groups * (p + 1) / team);
    }
    qkv__arena_release(e->scratch, mark);
}

#endif
