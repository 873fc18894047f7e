/* simd_amx.c - products of operands rounded to bf16, with sums in f32, by AMX: a tile of 16 x 16
 * sums takes 32 numbers along k at a time, sixteen times as many products as a vector instruction.
 *
 * Both operands are rounded and laid out in tiles of 1 KB first, by all threads: of op(a) 16 rows
 * of 32 numbers along k; of op(b) 16 pairs of numbers along k, of 16 columns each.
 * What costs is what passes between the second cache and the rest. So op(b) is cut into blocks of
 * columns that stay in the second cache of a thread, while strips of 32 rows of op(a) pass, and
 * with them rows of c. Operands are laid out a span of 16 MB at a time, k in parts: each number
 * once, but op(b) again for each span of op(a). */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include <omp.h>

#include "kernel/simd_tiles.h"

enum {
    PAIR = 2 * SIDE,         /* lanes of two panels: rows of a strip, sides of a square */
    MOST_DEPTH = 32,         /* tiles along k of a part */
    STEP = 8,                /* of them, at most, between visits to sums: 16 KB of a strip */
    BLOCK_TILES = 1024,      /* of a block: half of a second cache of 2 MB */
    MOST_SQUARES = 64,       /* across a block: the sums of a strip are 256 KB */
    SPAN_TILES = 1 << 14,    /* of an operand that are laid out at a time */
    RUN = 64                 /* tiles that a thread packs at a time */
};

static qkv_k_gemm_fn *simd_amx_f32; /* what served before; the same in every table */

static size_t pairs_of(size_t lanes) { return units_of(lanes, PAIR); }

/* ---- tiles of c --------------------------------------------------------------------------- */

/* The product as all threads see it. */
typedef struct {
    float *c;
    const qkv_k_gemm_args *g;
    operand a, b;
    size_t depth, parts;            /* tiles along k of a part */
    size_t squares, blocks, strips; /* squares across a block */
    size_t span_strips, span_blocks;
    uint32_t *of_a, *of_b; /* tiles of the part at hand: those of a panel follow each other */
    float *sums;           /* (threads, squares, PAIR, PAIR) */
} amx_work;

/* Tiles from `from` to `end` - 1 along k of `count` that a part has, the `part`-th. */
typedef struct {
    size_t part, from, end, count;
} amx_steps;

/* Two tiles by two of sums: 32 x 32 numbers, in rows `ld` apart. */
typedef struct {
    const float *from; /* NULL: zeros */
    size_t from_ld;    /* 0: the same row, a bias, for all */
    float *to;
    size_t to_ld;
    const float *fetch; /* NULL, or where they will be written: it is far away */
} amx_square;

#define LOAD_SUMS(n, x, ld) _tile_loadd(n, x, (ld) * sizeof(float))
#define STORE_SUMS(n, x, ld) _tile_stored(n, x, (ld) * sizeof(float))

/* Of two panels of rows at `a` and two of columns at `b`, `panel` words apart: tiles p .. end-1
 * along k. A row of the result may touch three lines. */
QKV_INLINE void square_of_tiles(const amx_square *s, const uint32_t *a, const uint32_t *b,
                                size_t panel, size_t p, size_t end)
{
    const float *from = s->from, *line = s->fetch;
    const size_t rows = line ? units_of(PAIR, end - p) : 0; /* a step */
    if (from) {
        const float *below = from + SIDE * s->from_ld;
        LOAD_SUMS(0, from, s->from_ld);
        LOAD_SUMS(1, from + SIDE, s->from_ld);
        LOAD_SUMS(2, below, s->from_ld);
        LOAD_SUMS(3, below + SIDE, s->from_ld);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (; p < end; p++) {
        for (size_t r = 0; r < rows; r++, line += s->to_ld) {
            __builtin_prefetch(line, 0, 2);
            __builtin_prefetch(line + SIDE, 0, 2);
            __builtin_prefetch(line + PAIR - 1, 0, 2);
        }
        _tile_loadd(4, a + p * TILE, 64);
        _tile_loadd(6, b + p * TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + panel + p * TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + panel + p * TILE, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    float *to = s->to, *below = to + SIDE * s->to_ld;
    STORE_SUMS(0, to, s->to_ld);
    STORE_SUMS(1, to + SIDE, s->to_ld);
    STORE_SUMS(2, below, s->to_ld);
    STORE_SUMS(3, below + SIDE, s->to_ld);
}

/* A square that is not whole in c, or to which a bias is added, begins and ends aside. */
static void begin_aside(float *aside, const amx_work *w, size_t row, size_t column, bool add,
                        bool bias)
{
    const qkv_k_gemm_args *g = w->g;
    for (size_t r = 0; r < PAIR; r++, aside += PAIR)
        for (size_t i = 0; i < PAIR; i += SIDE) {
            const size_t at = column + i, n = at < g->n ? at_most(g->n - at, SIDE) : 0;
            vf sum = vf_zero();
            if (n && row + r < g->m && add)
                sum = vf_get(w->c + (row + r) * g->ldc + at, n);
            if (n && bias)
                sum = sum + vf_get(g->bias + at, n);
            vf_put(aside + i, sum, VF);
        }
}

static void end_aside(const float *aside, const amx_work *w, size_t row, size_t column)
{
    const qkv_k_gemm_args *g = w->g;
    const size_t rows = at_most(g->m - row, PAIR), columns = at_most(g->n - column, PAIR);
    for (size_t r = 0; r < rows; r++, aside += PAIR)
        for (size_t i = 0; i < columns; i += SIDE)
            vf_put(w->c + (row + r) * g->ldc + column + i, vf_get(aside + i, VF),
                   at_most(columns - i, SIDE));
}

/* The square of c from row and column on, some steps along k of it. aside: its sums between. */
static void step_square(const amx_work *w, const uint32_t *a, const uint32_t *b, float *aside,
                        size_t row, size_t column, const amx_steps *s)
{
    const qkv_k_gemm_args *g = w->g;
    const bool whole = row + PAIR <= g->m && column + PAIR <= g->n;
    const bool bias = g->bias && !s->part, add = g->acc || s->part;
    const bool first = !s->from, last = s->end == s->count;
    float *c = w->c + row * g->ldc + column;
    amx_square q = {aside, PAIR, aside, PAIR, NULL};
    if (first && whole && !(bias && add)) {
        q.from = add ? c : bias ? g->bias + column : NULL;
        q.from_ld = add ? g->ldc : 0;
    } else if (first) {
        begin_aside(aside, w, row, column, add, bias);
    }
    if (last && whole) {
        q.to = c;
        q.to_ld = g->ldc;
        q.fetch = q.from == c ? NULL : c;
    }
    tiles_fence();
    square_of_tiles(&q, a, b, w->depth * TILE, s->from, s->end);
    if (last && !whole)
        end_aside(aside, w, row, column);
}

/* ---- the kernel --------------------------------------------------------------------------- */

/* Tiles along k that a part has: the last one may have fewer. */
static size_t part_tiles(const amx_work *w, size_t part)
{
    return at_most(units_of(w->g->k, DEPTH) - part * w->depth, w->depth);
}

/* Lays out `pairs` pairs of panels of an operand, or as many as it has, from `pair` on, of a part;
 * by the team, which does not wait; in the order in which memory has their numbers. */
static void amx_pack(const operand *o, uint32_t *to, const amx_work *w, size_t part, size_t pair,
                     size_t pairs)
{
    const size_t panels = 2 * at_most(pairs_of(o->lanes) - pair, pairs);
    const size_t depth = part_tiles(w, part), count = panels * depth;
    const size_t length = o->along ? depth : panels;
#pragma omp for schedule(dynamic) nowait
    for (size_t start = 0; start < count; start += RUN)
        for (size_t i = start; i < at_most(count, start + RUN); i++) {
            const size_t line = i / length, at = i % length;
            const size_t panel = o->along ? line : at, p = o->along ? at : line;
            pack_tile(to + (panel * w->depth + p) * TILE, o, pair * PAIR + panel * SIDE,
                      (part * w->depth + p) * DEPTH);
        }
}

/* A strip, whose tiles lie at `a`, and a block, whose tiles lie at `b`. */
static void multiply_strip(const amx_work *w, float *sums, size_t part, const uint32_t *a,
                           size_t strip, const uint32_t *b, size_t block)
{
    const size_t pair = 2 * w->depth * TILE, first = block * w->squares;
    const size_t squares = at_most(pairs_of(w->g->n) - first, w->squares);
    amx_steps s = {.part = part, .count = part_tiles(w, part)};
    const size_t steps = even_pieces(s.count, STEP);
    for (; s.from < s.count; s.from = s.end) {
        s.end = at_most(s.count, s.from + steps);
        for (size_t i = 0; i < squares; i++)
            step_square(w, a, b + i * pair, sums + i * PAIR * PAIR, strip * PAIR,
                        (first + i) * PAIR, &s);
    }
}

/* Blocks from `block` on and strips from `strip` on, once the team has laid out their tiles. */
static void multiply_spans(const amx_work *w, float *sums, size_t part, size_t strip, size_t block)
{
    const size_t strips = at_most(w->strips - strip, w->span_strips);
    const size_t blocks = at_most(w->blocks - block, w->span_blocks);
    const size_t pair = 2 * w->depth * TILE;
#pragma omp barrier
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < blocks * strips; i++)
        multiply_strip(w, sums, part, w->of_a + i % strips * pair, strip + i % strips,
                       w->of_b + i / strips * w->squares * pair, block + i / strips);
}

static void multiply_parts(const qkv_exec *e, const amx_work *w)
{
#pragma omp parallel num_threads(e->threads) default(none) shared(w)
    {
        float *sums = w->sums + (size_t)omp_get_thread_num() * w->squares * PAIR * PAIR;
        configure_tiles(SIDE, ROW_BYTES);
        for (size_t part = 0; part < w->parts; part++)
            for (size_t strip = 0; strip < w->strips; strip += w->span_strips) {
                amx_pack(&w->a, w->of_a, w, part, strip, w->span_strips);
                for (size_t block = 0; block < w->blocks; block += w->span_blocks) {
                    amx_pack(&w->b, w->of_b, w, part, block * w->squares,
                             w->span_blocks * w->squares);
                    multiply_spans(w, sums, part, strip, block);
                }
            }
        _tile_release();
    }
}

/* How the product is cut: evenly, by its shape alone, so that its bits are those of any team. */
static void amx_cut(amx_work *w)
{
    const size_t tiles = units_of(w->g->k, DEPTH), pairs = pairs_of(w->g->n);
    w->depth = even_pieces(tiles, MOST_DEPTH);
    w->parts = units_of(tiles, w->depth);
    w->squares = even_pieces(pairs, at_most(BLOCK_TILES / (2 * w->depth), MOST_SQUARES));
    w->blocks = units_of(pairs, w->squares);
    w->strips = pairs_of(w->g->m);
    w->span_strips = at_most(w->strips, SPAN_TILES / (2 * w->depth));
    w->span_blocks = at_most(w->blocks, SPAN_TILES / (2 * w->depth * w->squares));
}

static void simd_amx_product(const qkv_exec *e, float *c, const float *a, const float *b,
                             const qkv_k_gemm_args *g)
{
    amx_work w = {.c = c, .g = g, .a = {a, g->lda, g->m, g->k, !g->ta, true},
                  .b = {b, g->ldb, g->n, g->k, g->tb, false}};
    amx_cut(&w);
    const size_t pair = 2 * w.depth * TILE_BYTES, sums = w.squares * PAIR * PAIR;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    w.of_a = qkv__arena_alloc(e->scratch, w.span_strips * pair);
    w.of_b = w.of_a ? qkv__arena_alloc(e->scratch, w.span_blocks * w.squares * pair) : NULL;
    w.sums = w.of_b ? qkv__arena_alloc(e->scratch, (size_t)e->threads * sums * sizeof *w.sums)
                    : NULL;
    if (w.sums && !e->meta)
        multiply_parts(e, &w);
    qkv__arena_release(e->scratch, mark);
}

static void simd_amx_gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                          const qkv_k_gemm_args *g)
{
    if (g->m * g->n * g->k >= QKV__BF16_LEAST)
        simd_amx_product(e, c, a, b, g);
    else if (!e->meta)
        simd_amx_f32(e, c, a, b, g);
}

void QKV_SIMD(qkv__kernels_amx)(qkv_kernels *k)
{
    simd_amx_f32 = k->gemm;
    k->gemm = simd_amx_gemm;
}

#else
void QKV_SIMD(qkv__kernels_amx)(qkv_kernels *k) { (void)k; }
#endif
