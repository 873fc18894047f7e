/* simd_small_amx.c - products with weights in fewer bits by AMX, for several rows of x.
 *
 * The first operand of a tile product is x, which is rounded and laid out in tiles of 16 rows once.
 * The second is w: 16 lines of a group (small.h) have the layout of a tile already, 32 numbers
 * along k in bf16, a block of 64 in 8 bits. Tiles are loaded from where the lines lie; 4 bits are
 * unpacked to bytes first, a group at a time.
 *
 * Integers: a tile product is the exact sum over a block. It is scaled and added to y's sums as in
 * simd_small.h, so the bits are the same. bf16: x is rounded to bf16 too. A tile of y is summed
 * over STEP tiles along k at a time: those of two groups stay in the first cache while every row
 * of a block of x is multiplied with them. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include <omp.h>

#include "kernel/simd_small_vnni.h"

#include "kernel/simd_small_round.h"
#include "kernel/simd_tiles.h"

enum {
    STEP = 12, MOST_ROWS = 1024,
    FETCH = 8192,             /* bytes of w that are fetched ahead: it is far away */
    AHEAD = 4                 /* tiles of integers that are multiplied before they are summed */
};
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */
static const size_t x_bytes = 3u << 19; /* of x in a block of rows: most of a second cache */

typedef struct {
    float *y;
    const float *x, *bias;
    const qkv_k_small *w;
    size_t ldy, ldx, m, groups, group_bytes;
    size_t tiles;    /* of 16 rows each, of x: an even number in bf16 */
    size_t depth;    /* tiles along k */
    size_t x_tile;   /* bytes of one of x */
    unsigned char *q;  /* (tiles, depth, x_tile) */
    float *scale;      /* (tiles, depth, 16), of integers */
    int32_t *start;    /* (tiles, depth, 16) */
    unsigned char *aside; /* (threads, aside_bytes) */
    size_t aside_bytes;
} amx_job;

/* Are half of a tile's rows enough for x in 8 bits? */
static bool few_rows(const amx_job *t)
{
    return t->m <= SIDE / 2 && t->w->type != QKV_K_BF16;
}

/* ---- x ------------------------------------------------------------------------------------- */

/* Tile p along k of rows i .. i+15, in bf16; 0 beyond x. */
static void amx_round_bf16(const amx_job *t, size_t tile, size_t p)
{
    unsigned char *to = t->q + (tile * t->depth + p) * TILE_BYTES;
    const size_t k = at_most(t->w->k - p * DEPTH, DEPTH);
    for (size_t r = tile * SIDE; r < (tile + 1) * SIDE; r++, to += ROW_BYTES) {
        __m512i row = _mm512_setzero_si512();
        if (r < t->m)
            row = tile_row(t->x + r * t->ldx + p * DEPTH, k);
        _mm512_storeu_si512(to, row);
    }
}

/* Block b along k of the tile's rows, in 8 bits. */
static void amx_round_bytes(const amx_job *t, size_t tile, size_t b)
{
    const size_t at = tile * t->depth + b, block = t->x_tile / SIDE;
    for (size_t r = 0; r < SIDE; r++) {
        const small_rounded to = {(int8_t *)t->q + at * t->x_tile + r * block,
                                  t->scale + at * SIDE + r, t->start + at * SIDE + r};
        bool there = tile * SIDE + r < t->m;
        size_t n = there ? at_most(t->w->k - b * block, block) : 0;
        const float *from = t->x + (there ? (tile * SIDE + r) * t->ldx + b * block : 0);
        small_round_block(&to, from, n, block, small_offset(t->w->type));
    }
}

static void amx_round(const amx_job *t, size_t team)
{
    size_t count = t->tiles * t->depth;
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, count)
    for (size_t i = 0; i < count; i++) {
        if (t->w->type == QKV_K_BF16)
            amx_round_bf16(t, i / t->depth, i % t->depth);
        else
            amx_round_bytes(t, i / t->depth, i % t->depth);
    }
}

/* ---- integers ------------------------------------------------------------------------------ */

/* to = a group's integers, as signed bytes. */
static void amx_spread(unsigned char *to, const unsigned char *line, size_t bytes,
                       qkv_k_small_type type)
{
    const vi offset = _mm512_set1_epi8((char)qkv__small_kinds[type].offset);
    for (size_t i = 0; i < bytes; i += QKV__SMALL_LINE, to += QKV__SMALL_LINE) {
        __builtin_prefetch(line + FETCH + i);
        vi words = small_line(line + i, type);
        if (type == QKV_K_INT4) {
            _mm512_storeu_si512(to, _mm512_sub_epi8(small_low(words), offset));
            to += QKV__SMALL_LINE;
            words = small_high(words);
        }
        _mm512_storeu_si512(to, _mm512_sub_epi8(words, offset));
    }
}

/* to = the product of the tile at x and the tile of w at `line`, as integers. Reading a tile right
 * after it was stored stalls: callers make several products before they read the first. */
#define AMX_PRODUCT(n, to, x, block, line, SPREAD)                                                 \
    do {                                                                                          \
        _tile_zero(n);                                                                            \
        _tile_loadd(4, x, (int)(block));                                                          \
        _tile_loadd(6, line, 64);                                                                 \
        if (SPREAD)                                                                               \
            _tile_dpbssd(n, 4, 6);                                                                \
        else                                                                                      \
            _tile_dpbsud(n, 4, 6);                                                                \
        _tile_stored(n, to, 64);                                                                  \
    } while (0)

/* The products of `count` <= AHEAD blocks. */
QKV_INLINE void amx_begin(int32_t to[AHEAD][SIDE * SIDE], const unsigned char *x,
                          const unsigned char *line, size_t count, const size_t block,
                          const bool SPREAD)
{
    const size_t step = SIDE * block;
    AMX_PRODUCT(0, to[0], x, block, line, SPREAD);
    if (count > 1)
        AMX_PRODUCT(1, to[1], x + step, block, line + step, SPREAD);
    if (count > 2)
        AMX_PRODUCT(2, to[2], x + 2 * step, block, line + 2 * step, SPREAD);
    if (count > 3)
        AMX_PRODUCT(3, to[3], x + 3 * step, block, line + 3 * step, SPREAD);
}

/* sum (ROWS) += the scaled products of the tile's rows in block b. The same block of what comes
 * later is fetched meanwhile, a few lines a row: all at once would fill the buffers and wait. One
 * tile of rows is through w so soon that this is twice as far ahead. */
QKV_INLINE void amx_join(const amx_job *t, vf sum[SIDE], const int32_t *products, size_t tile,
                         size_t g, size_t b, const unsigned char *line,
                         const qkv_k_small_type TYPE, const bool SPREAD, const size_t ROWS)
{
    const unsigned char *later = line + b * SIDE * QKV__SMALL_LINE + 2 * FETCH;
    const float *scale = t->scale + (tile * t->depth + b) * SIDE;
    const int32_t *start = t->start + (tile * t->depth + b) * SIDE;
    vf of_w = TYPE == QKV_K_INT4
                  ? small_scales((const uint16_t *)t->w->scales + (g * t->depth + b) * SIDE)
                  : vf_zero();
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++) {
        if (!SPREAD) /* else amx_spread did */
            __builtin_prefetch(later + r * QKV__SMALL_LINE);
        if (!SPREAD && ROWS < SIDE)
            __builtin_prefetch(later + (ROWS + r) * QKV__SMALL_LINE);
        vi whole = _mm512_loadu_si512(products + r * SIDE);
        if (!SPREAD)
            whole = _mm512_add_epi32(whole, _mm512_set1_epi32(start[r]));
        vf of_x = vf_set1(scale[r]);
        sum[r] = vf_fma(small_real(whole), TYPE == QKV_K_INT4 ? (vf)(of_x * of_w) : of_x, sum[r]);
    }
}

/* sum (ROWS) += the product of a tile of x and group g, whose bytes lie at `line`: signed if
 * SPREAD, else with their offset, as they are in memory. */
QKV_INLINE void amx_blocks(const amx_job *t, vf sum[SIDE], size_t tile, size_t g,
                           const unsigned char *line, const qkv_k_small_type TYPE,
                           const bool SPREAD, const size_t ROWS)
{
    const size_t block = TYPE == QKV_K_INT8 ? QKV_K_INT8_BLOCK : QKV_K_INT4_BLOCK;
    const unsigned char *x = t->q + tile * t->depth * t->x_tile;
    int32_t products[2][AHEAD][SIDE * SIDE];
    size_t count = at_most(t->depth, AHEAD);
    amx_begin(products[0], x, line, count, block, SPREAD);
    for (size_t b = 0, turn = 0; b < t->depth; turn = !turn) {
        size_t next = b + count, more = at_most(t->depth - next, AHEAD);
        if (more)
            amx_begin(products[!turn], x + next * SIDE * block, line + next * SIDE * block, more,
                      block, SPREAD);
        for (size_t i = 0; i < count; i++)
            amx_join(t, sum, products[turn][i], tile, g, b + i, line, TYPE, SPREAD, ROWS);
        b = next;
        count = more;
    }
}

/* Rows 16 tile .. of y, columns of group g. */
QKV_INLINE void amx_integers(const amx_job *t, size_t tile, size_t g, const unsigned char *line,
                             const qkv_k_small_type TYPE, const bool SPREAD, const size_t ROWS)
{
    vf sum[SIDE];
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++)
        sum[r] = vf_zero();
    size_t rows = at_most(t->m - tile * SIDE, SIDE), at = g * SIDE;
    float *y = t->y + tile * SIDE * t->ldy + at;
    for (size_t r = 0; r < ROWS && r < rows; r++)
        __builtin_prefetch(y + r * t->ldy, 1); /* it is far away */
    amx_blocks(t, sum, tile, g, line, TYPE, SPREAD, ROWS);
    size_t lanes = at_most(t->w->n - at, VF);
    vf bias = t->bias ? vf_get(t->bias + at, lanes) : vf_zero();
    vf of_w = TYPE == QKV_K_INT8 ? vf_load((const float *)t->w->scales + at) : vf_zero();
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++) {
        vf of_row = TYPE == QKV_K_INT8 ? vf_fma(sum[r], of_w, bias) : (vf)(sum[r] + bias);
        if (r < rows)
            _mm512_mask_storeu_ps(y + r * t->ldy, (__mmask16)((1u << lanes) - 1), of_row);
    }
}

/* Groups g0 .. g1-1 for tiles first .. end-1 of x. For one tile of rows, or half of one, int8 is
 * multiplied where it lies: unpacking would not pay. */
static void amx_groups(const amx_job *t, size_t first, size_t end, size_t g0, size_t g1,
                       unsigned char *aside)
{
    const bool whole = t->w->type == QKV_K_INT8, few = few_rows(t);
    for (size_t g = g0; g < g1; g++) {
        const unsigned char *line = (const unsigned char *)t->w->words + g * t->group_bytes;
        if (!whole || end - first > 1)
            amx_spread(aside, line, t->group_bytes, t->w->type);
        tiles_fence();
        for (size_t tile = first; tile < end; tile++)
            if (!whole && few)
                amx_integers(t, tile, g, aside, QKV_K_INT4, true, SIDE / 2);
            else if (!whole)
                amx_integers(t, tile, g, aside, QKV_K_INT4, true, SIDE);
            else if (few)
                amx_integers(t, tile, g, line, QKV_K_INT8, false, SIDE / 2);
            else if (end - first == 1)
                amx_integers(t, tile, g, line, QKV_K_INT8, false, SIDE);
            else
                amx_integers(t, tile, g, aside, QKV_K_INT8, true, SIDE);
    }
}

/* ---- bf16 ---------------------------------------------------------------------------------- */

/* Two groups of w. A last tile along k that is not whole is copied and filled up with zeros. */
typedef struct {
    const unsigned char *words[2];
    unsigned char *last[2];
    size_t whole; /* tiles */
} amx_pair;

static amx_pair amx_take_pair(const amx_job *t, size_t g, size_t g1, unsigned char *aside)
{
    amx_pair p = {.whole = t->group_bytes / TILE_BYTES};
    for (size_t i = 0; i < 2; i++) {
        size_t group = g + i < g1 ? g + i : g;
        p.words[i] = (const unsigned char *)t->w->words + group * t->group_bytes;
        p.last[i] = aside + i * TILE_BYTES;
        memset(p.last[i], 0, TILE_BYTES);
        memcpy(p.last[i], p.words[i] + p.whole * TILE_BYTES, t->group_bytes % TILE_BYTES);
    }
    return p;
}

/* sums, four tiles, [+]= two tiles of x times two groups, tiles p .. end-1 along k. */
static void amx_square(const amx_job *t, const amx_pair *w, size_t tile, const float *y,
                       float *sums, size_t p, size_t end)
{
    const size_t across = t->depth * TILE_BYTES;
    const unsigned char *x = t->q + tile * across, *below = x + across;
    for (size_t r = 0; r < 2 * SIDE && end == t->depth && tile * SIDE + r < t->m; r++)
        __builtin_prefetch(y + r * t->ldy, 1); /* it is far away */
    if (p) {
        _tile_loadd(0, sums, 64);
        _tile_loadd(1, sums + TILE, 64);
        _tile_loadd(2, sums + 2 * TILE, 64);
        _tile_loadd(3, sums + 3 * TILE, 64);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (; p < end; p++) {
        _tile_loadd(4, x + p * TILE_BYTES, 64);
        _tile_loadd(6, p < w->whole ? w->words[0] + p * TILE_BYTES : w->last[0], 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, p < w->whole ? w->words[1] + p * TILE_BYTES : w->last[1], 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, below + p * TILE_BYTES, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + TILE, 64);
    _tile_stored(2, sums + 2 * TILE, 64);
    _tile_stored(3, sums + 3 * TILE, 64);
}

/* y = four tiles of sums + bias. */
static void amx_finish(const amx_job *t, size_t tile, size_t g, size_t g1, const float *sums)
{
    for (size_t i = 0; i < 4; i++, sums += TILE) {
        size_t row = (tile + i / 2) * SIDE, at = (g + i % 2) * SIDE;
        if (row >= t->m || g + i % 2 >= g1)
            continue;
        size_t rows = at_most(t->m - row, SIDE), lanes = at_most(t->w->n - at, VF);
        vf bias = t->bias ? vf_get(t->bias + at, lanes) : vf_zero();
        for (size_t r = 0; r < rows; r++)
            vf_put(t->y + (row + r) * t->ldy + at, vf_load(sums + r * SIDE) + bias, lanes);
    }
}

static void amx_groups_bf16(const amx_job *t, size_t first, size_t end, size_t g0, size_t g1,
                            unsigned char *aside)
{
    const size_t step = even_pieces(t->depth, STEP);
    float *sums = (float *)(void *)(aside + 2 * TILE_BYTES);
    for (size_t g = g0; g < g1; g += 2) {
        const amx_pair w = amx_take_pair(t, g, g1, aside);
        tiles_fence();
        for (size_t p = 0; p < t->depth; p += step)
            for (size_t tile = first; tile < end; tile += 2) {
                float *at = sums + (tile - first) / 2 * 4 * TILE;
                size_t stop = at_most(t->depth, p + step);
                amx_square(t, &w, tile, t->y + tile * SIDE * t->ldy + g * SIDE, at, p, stop);
                if (stop == t->depth)
                    amx_finish(t, tile, g, g1, at);
            }
    }
}

/* ---- the product --------------------------------------------------------------------------- */

static bool amx_take_memory(const qkv_exec *e, amx_job *t, size_t rows, size_t team)
{
    const bool integers = t->w->type != QKV_K_BF16;
    size_t count = integers ? t->tiles * t->depth * SIDE : 1;
    t->aside_bytes =
        integers ? qkv__small_padded(t->w) * SIDE : (2 + 2 * rows / SIDE) * TILE_BYTES;
    t->q = qkv__arena_alloc(e->scratch, t->tiles * t->depth * t->x_tile);
    t->scale = t->q ? qkv__arena_alloc(e->scratch, count * sizeof *t->scale) : NULL;
    t->start = t->scale ? qkv__arena_alloc(e->scratch, count * sizeof *t->start) : NULL;
    t->aside = t->start ? qkv__arena_alloc(e->scratch, team * t->aside_bytes) : NULL;
    return t->aside;
}

/* Rounds x, then multiplies: a block of rows with `run` groups is one thread's at a time. */
static void amx_share(const amx_job *t, size_t team, size_t rows, size_t run)
{
    size_t across = units_of(t->groups, run), tiles = rows / SIDE;
    size_t count = units_of(t->tiles, tiles) * across;
#pragma omp parallel num_threads((int)team) if (team > 1) default(none)                            \
    shared(t, across, tiles, count, run)
    {
        unsigned char *aside = t->aside + (size_t)omp_get_thread_num() * t->aside_bytes;
        configure_tiles(few_rows(t) ? SIDE / 2 : SIDE, t->x_tile / SIDE);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < count; i++) {
            size_t first = i / across * tiles, end = at_most(t->tiles, first + tiles);
            size_t g0 = i % across * run, g1 = at_most(t->groups, g0 + run);
            (t->w->type == QKV_K_BF16 ? amx_groups_bf16 : amx_groups)(t, first, end, g0, g1, aside);
        }
        _tile_release();
    }
}

static void simd_small_amx_many(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                                const qkv_k_small *w, const float *bias, size_t m)
{
    amx_job t = {.y = y, .x = x, .bias = bias, .w = w, .ldy = ldy, .ldx = ldx, .m = m,
                 .groups = qkv__small_groups(w), .group_bytes = qkv__small_group_bytes(w)};
    const bool bf16 = w->type == QKV_K_BF16;
    size_t block = bf16 ? DEPTH : qkv__small_kinds[w->type].block;
    t.tiles = bf16 ? 2 * units_of(m, 2 * SIDE) : units_of(m, SIDE);
    t.depth = units_of(w->k, block);
    t.x_tile = SIDE * block * (bf16 ? 2 : 1);
    size_t fit = x_bytes / (t.depth * t.x_tile) / 2 * 2 * SIDE;
    size_t rows = at_most(fit ? fit : 2 * SIDE, MOST_ROWS);
    size_t team = m * w->n * w->k > worth_threads ? (size_t)e->threads : 1;
    size_t turns = m <= SIDE ? 1 : 8; /* of one tile of rows all groups come as one stream */
    size_t run = 2 * units_of(t.groups, 2 * turns * team);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (amx_take_memory(e, &t, rows, team)) {
        amx_round(&t, team);
        amx_share(&t, team, rows, run);
    }
    qkv__arena_release(e->scratch, mark);
}

void QKV_SIMD(qkv__kernels_small_amx)(qkv_kernels *k)
{
    k->small_many = simd_small_amx_many;
}

#else
void QKV_SIMD(qkv__kernels_small_amx)(qkv_kernels *k) { (void)k; }
#endif
