/* simd_amx.c - products of operands rounded to bf16, with sums in f32, by AMX: a tile of 16 x 16
 * sums takes 32 numbers along k at a time, sixteen times as many products as a vector instruction.
 *
 * Both operands are rounded and laid out in tiles of 1 KB first, each once, by all threads: of
 * op(a) 16 rows of 32 numbers along k; of op(b) 16 pairs of numbers along k, of 16 columns each.
 * Then blocks of c are computed, each by one thread, from parts that stay in the second cache.
 * Products with large operands, as those with a vocabulary, are cut: layouts take 32 MB at most. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include "kernel/simd_tiles.h"

enum {
    BLOCK_M = 256, BLOCK_N = 256,   /* a block of c */
    BLOCK_K = 384,                  /* at most, between visits to c: 24 KB of op(b) stay in L1 */
    RUN = 64,                       /* tiles that a thread packs at a time */
    MOST = 1 << 24                  /* numbers of both operands that are laid out at a time */
};

static qkv_k_gemm_fn *simd_amx_f32; /* what served before; the same in every table */

static size_t panels_of(size_t lanes) { return 2 * units_of(lanes, 2 * SIDE); }

/* ---- layout ------------------------------------------------------------------------------- */

/* An operand (rows of op(a), columns of op(b)) and its tiles. */
typedef struct {
    operand of;
    size_t panels, depth; /* tiles: across lanes, along k */
    uint32_t *tiles;
} layout;

/* ---- tiles of c --------------------------------------------------------------------------- */

/* The product as all threads see it. */
typedef struct {
    float *c;
    const uint32_t *a, *b; /* tiles: those of a panel of 16 lanes lie one after another */
    const qkv_k_gemm_args *g;
    size_t depth; /* tiles along k */
    size_t step;  /* of them between visits to c */
} simd_amx_job;

/* Where a tile's sums begin and end: rows of 16 floats, `ld` apart. Those of a tile that is not
 * whole in c lie in `aside`. */
typedef struct {
    float *c;
    size_t ldc, rows, columns; /* that c has of it */
    const float *from;         /* NULL: zeros */
    size_t from_ld;            /* 0: the same row, a bias, sixteen times */
    float *to;
    size_t to_ld;
    float aside[SIDE * SIDE];
} place;

static void begin_aside(place *t, const float *bias, bool add)
{
    for (size_t r = 0; r < SIDE; r++) {
        vf sum = vf_zero();
        if (r < t->rows && t->columns && add)
            sum = vf_get(t->c + r * t->ldc, t->columns);
        if (r < t->rows && t->columns && bias)
            sum = sum + vf_get(bias, t->columns);
        vf_put(t->aside + r * SIDE, sum, VF);
    }
    t->from = t->to = t->aside;
    t->from_ld = t->to_ld = SIDE;
}

static inline void begin_tile(place *t, const simd_amx_job *j, size_t row, size_t column,
                              bool first)
{
    const qkv_k_gemm_args *g = j->g;
    const float *bias = g->bias && first ? g->bias + column : NULL;
    const bool add = g->acc || !first;
    t->rows = row < g->m ? at_most(g->m - row, SIDE) : 0;
    t->columns = column < g->n ? at_most(g->n - column, SIDE) : 0;
    t->ldc = t->from_ld = t->to_ld = g->ldc;
    t->c = t->to = j->c + (t->rows && t->columns ? row * g->ldc + column : 0);
    t->from = add ? t->c : bias;
    if (t->rows < SIDE || t->columns < SIDE || (add && bias))
        begin_aside(t, bias, add);
    else if (!add)
        t->from_ld = 0;
}

static inline void end_tile(const place *t)
{
    for (size_t r = 0; r < t->rows && t->to == t->aside && t->columns; r++)
        vf_put(t->c + r * t->ldc, vf_get(t->aside + r * SIDE, VF), t->columns);
}

/* Tile register `n`, which must be a constant. */
#define LOAD_SUMS(n, t)                                                                           \
    do {                                                                                          \
        if ((t)->from)                                                                            \
            _tile_loadd(n, (t)->from, (t)->from_ld * sizeof(float));                              \
        else                                                                                      \
            _tile_zero(n);                                                                        \
    } while (0)
#define STORE_SUMS(n, t) _tile_stored(n, (t)->to, (t)->to_ld * sizeof(float))

/* Two tiles by two of c, from row and column on, and tiles p .. end-1 along k. Rows of c that are
 * only written are fetched while the sums are made: c is far away. A row may touch three lines. */
static void square_of_tiles(const simd_amx_job *j, size_t row, size_t column, size_t p, size_t end)
{
    const size_t panel = j->depth * TILE;
    const uint32_t *a = j->a + row / SIDE * panel, *b = j->b + column / SIDE * panel;
    place t[4];
    for (size_t i = 0; i < 4; i++)
        begin_tile(&t[i], j, row + i / 2 * SIDE, column + i % 2 * SIDE, p == 0);
    tiles_fence();
    LOAD_SUMS(0, &t[0]);
    LOAD_SUMS(1, &t[1]);
    LOAD_SUMS(2, &t[2]);
    LOAD_SUMS(3, &t[3]);
    const bool fetch = t[0].from != t[0].to && t[3].rows == SIDE && t[3].columns == SIDE;
    const size_t rows = fetch ? units_of(2 * SIDE, end - p) : 0; /* a step */
    const float *next = t[0].c;
    for (; p < end; p++) {
        for (size_t r = 0; r < rows; r++, next += j->g->ldc) {
            __builtin_prefetch(next, 1);
            __builtin_prefetch(next + SIDE, 1);
            __builtin_prefetch(next + 2 * SIDE - 1, 1);
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
    STORE_SUMS(0, &t[0]);
    STORE_SUMS(1, &t[1]);
    STORE_SUMS(2, &t[2]);
    STORE_SUMS(3, &t[3]);
    for (size_t i = 0; i < 4; i++)
        end_tile(&t[i]);
}

/* The block of c that begins there. */
static void simd_amx_block(const simd_amx_job *j, size_t row, size_t column)
{
    size_t rows = at_most(j->g->m, row + BLOCK_M);
    size_t columns = at_most(j->g->n, column + BLOCK_N);
    for (size_t p = 0; p < j->depth; p += j->step)
        for (size_t y = column; y < columns; y += 2 * SIDE)
            for (size_t x = row; x < rows; x += 2 * SIDE)
                square_of_tiles(j, x, y, p, at_most(j->depth, p + j->step));
}

/* ---- the kernel --------------------------------------------------------------------------- */

/* How many runs of tiles a layout has. */
static size_t runs_of(const layout *o)
{
    return (o->of.along ? o->panels : o->depth) *
           units_of(o->of.along ? o->depth : o->panels, RUN);
}

/* Tiles that follow each other in the order in which memory has their numbers. */
static void pack_run(const layout *o, size_t run)
{
    const size_t length = o->of.along ? o->depth : o->panels, runs = units_of(length, RUN);
    const size_t line = run / runs, from = run % runs * RUN;
    for (size_t i = from; i < at_most(length, from + RUN); i++) {
        size_t panel = o->of.along ? line : i, p = o->of.along ? i : line;
        pack_tile(o->tiles + (panel * o->depth + p) * TILE, &o->of, panel * SIDE, p * DEPTH);
    }
}

static void pack_both(const qkv_exec *e, const layout *a, const layout *b)
{
    const size_t runs_a = runs_of(a), runs = runs_a + runs_of(b);
#pragma omp parallel for num_threads(e->threads) schedule(dynamic) default(none)                   \
    shared(a, b, runs_a, runs)
    for (size_t i = 0; i < runs; i++)
        pack_run(i < runs_a ? a : b, i < runs_a ? i : i - runs_a);
}

static void multiply_blocks(const qkv_exec *e, const simd_amx_job *j)
{
    size_t across = units_of(j->g->n, BLOCK_N);
    size_t blocks = units_of(j->g->m, BLOCK_M) * across;
#pragma omp parallel num_threads(e->threads) default(none) shared(j, across, blocks)
    {
        configure_tiles(SIDE, ROW_BYTES);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < blocks; i++)
            simd_amx_block(j, i / across * BLOCK_M, i % across * BLOCK_N);
        _tile_release();
    }
}

/* A product whose tiles fit. */
static void simd_amx_product(const qkv_exec *e, float *c, const float *a, const float *b,
                             const qkv_k_gemm_args *g)
{
    const size_t depth = units_of(g->k, DEPTH);
    layout left = {{a, g->lda, g->m, g->k, !g->ta, true}, panels_of(g->m), depth, NULL};
    layout right = {{b, g->ldb, g->n, g->k, g->tb, false}, panels_of(g->n), depth, NULL};
    qkv__mark mark = qkv__arena_mark(e->scratch);
    left.tiles = qkv__arena_alloc(e->scratch, left.panels * depth * TILE * sizeof *left.tiles);
    right.tiles = left.tiles ? qkv__arena_alloc(e->scratch, right.panels * depth * TILE *
                                                                sizeof *right.tiles)
                             : NULL;
    if (right.tiles && !e->meta) {
        size_t visits = units_of(depth, BLOCK_K / DEPTH);
        simd_amx_job j = {c, left.tiles, right.tiles, g, depth, units_of(depth, visits)};
        pack_both(e, &left, &right);
        multiply_blocks(e, &j);
    }
    qkv__arena_release(e->scratch, mark);
}

static void simd_amx_gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                          const qkv_k_gemm_args *g);

/* The product in two halves, cut across its longest side. */
static void multiply_halves(const qkv_exec *e, float *c, const float *a, const float *b,
                            const qkv_k_gemm_args *g)
{
    const size_t longest = g->m > g->n ? g->m : g->n;
    qkv_k_gemm_args first = *g, second = *g;
    size_t *half = g->k >= longest ? &first.k : g->m == longest ? &first.m : &first.n;
    size_t *rest = g->k >= longest ? &second.k : g->m == longest ? &second.m : &second.n;
    *half = units_of(*half / 2, BLOCK_M) * BLOCK_M;
    *rest -= *half;
    simd_amx_gemm(e, c, a, b, &first);
    if (half == &first.k) {
        second.acc = true;
        second.bias = NULL;
        a += *half * (g->ta ? g->lda : 1);
        b += *half * (g->tb ? 1 : g->ldb);
    } else if (half == &first.m) {
        a += *half * (g->ta ? 1 : g->lda);
        c += *half * g->ldc;
    } else {
        second.bias = g->bias ? g->bias + *half : NULL;
        b += *half * (g->tb ? g->ldb : 1);
        c += *half;
    }
    simd_amx_gemm(e, c, a, b, &second);
}

static void simd_amx_gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                          const qkv_k_gemm_args *g)
{
    if (g->m * g->n * g->k >= QKV__BF16_LEAST)
        ((g->m + g->n) * g->k > MOST ? multiply_halves : simd_amx_product)(e, c, a, b, g);
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
