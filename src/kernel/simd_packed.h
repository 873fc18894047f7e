/* simd_packed.h - tiles of y = x w with w packed, for products whose weights were packed before
 * (simd_packed.c) and for those that pack first (simd_gemm.c).
 *
 * A tile of y stays in registers while k runs: some rows of x, whose elements are broadcast, meet
 * some groups of QKV_K_PACKED packed columns. A block of rows that fits the second cache meets all
 * of w before the next block does, and one tile's columns (48 x 768: 147 KB) meet the whole block
 * meanwhile, so w comes from memory once a block.
 *
 * So that a tile waits little for memory, three things are fetched while the sums before run: the
 * columns of the next tiles into the second cache, this tile's columns from there into the first
 * one some steps ahead, and the next tile's lines of y. All lines of y at once would stop the loads
 * of w meanwhile, so they are spread over k. Rows of x that many columns meet are copied into
 * tiles, which are read as one stream: rows a page apart share one set of the first cache. */
#ifndef QKV_KERNEL_SIMD_PACKED_H
#define QKV_KERNEL_SIMD_PACKED_H

#include <string.h>

#include "kernel/simd.h"

/* Rows and groups of a tile, and vectors of a group: their sums must fit the registers, 16 of AVX2
 * and 32 of the others. */
enum { MR = VF == 16 ? 8 : 6, GROUPS = VF == 16 ? 3 : 1, GROUP_V = QKV_K_PACKED / VF,
       NV = GROUPS * GROUP_V };
enum { DEPTH = 768, NEAR = 16 };      /* of k at a time, at most; steps that w is fetched ahead */
enum { ASKED = GROUPS > 1 ? 1 : MR }; /* rows of y whose lines are asked for at once */
#ifdef QKV_SIMD_avx2 /* a step of few sums is as long as what a loop adds to it */
#define PACKED_UNROLL QKV_UNROLL_4
#else
#define PACKED_UNROLL
#endif
enum { L2 = 2 };                      /* __builtin_prefetch's second cache */
static const size_t block_parameters = 1u << 16; /* of x: 256 KB, a part of the second cache */

/* A block: y (m, n) = [y +] x w [+ bias] for a part of k, `depth` numbers of it. x: rows ldx apart;
 * tiled: tiles (depth, MR) of MR rows, ldx apart. w: the part's numbers of group g begin at
 * w + g run, each with those of QKV_K_PACKED columns. bias: NULL for none. */
typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, m, n, depth, run;
    bool add;
} packed_block;

/* What a tile fetches: for each number of k so many numbers of w, from `from` on; the lines of y
 * where the next tile begins. */
typedef struct {
    const float *from, *y;
    size_t step;
} packed_fetch;

static inline size_t pieces_of(size_t n, size_t size) { return (n + size - 1) / size; }

/* How many of VF columns from j on y has. */
static inline size_t packed_lanes(const packed_block *b, size_t j)
{
    return j < b->n ? at_most(b->n - j, VF) : 0;
}

/* sum[M][G] += x w for some numbers of k. rows: every third row of x, so that a base and up to
 * twice a distance are one address. M, G and TILED are constants wherever this is inlined. */
QKV_INLINE void packed_steps(vf sum[MR][NV], const float *rows[3], const float **w,
                             const float **soon, const packed_block *b, size_t step, size_t steps,
                             const size_t M, const size_t G, const bool TILED)
{
    const size_t run = b->run, ldx = TILED ? 1 : b->ldx;
    PACKED_UNROLL
    for (; steps; steps--) {
        vf row[NV];
        for (size_t v = 0; v < G * GROUP_V; v++)
            row[v] = vf_load(*w + v / GROUP_V * run + v % GROUP_V * VF);
        for (size_t g = 0; g < G; g++)
            __builtin_prefetch(*w + g * run + NEAR * QKV_K_PACKED);
        __builtin_prefetch(*soon, 0, L2);
        for (size_t r = 0; r < M; r++) {
            vf a = vf_set1(rows[r / 3][r % 3 * ldx]);
            for (size_t v = 0; v < G * GROUP_V; v++)
                sum[r][v] = vf_fma(a, row[v], sum[r][v]);
        }
        for (size_t r = 0; r < M; r += 3)
            rows[r / 3] += TILED ? MR : 1;
        *w += QKV_K_PACKED;
        *soon += step;
    }
}

/* y[i .. i+M-1, j .. j+15+16(G-1)]. */
QKV_INLINE void packed_micro(const packed_block *b, size_t i, size_t j, const packed_fetch *f,
                             const size_t M, const size_t G, const bool TILED)
{
    const float *x = b->x + (TILED ? i / MR : i) * b->ldx, *soon = f->from;
    const float *w = b->w + j / QKV_K_PACKED * b->run;
    const size_t ldx = TILED ? 1 : b->ldx;
    const float *rows[] = {x, x + 3 * ldx, x + 6 * ldx};
    float *y = b->y + i * b->ldy + j;
    vf sum[MR][NV]; /* in registers only where every index is a constant */
    QKV_UNROLL
    for (size_t v = 0; v < G * GROUP_V; v++) {
        size_t lanes = b->add ? packed_lanes(b, j + v * VF) : 0;
        QKV_UNROLL
        for (size_t r = 0; r < M; r++)
            sum[r][v] = lanes ? vf_get(y + r * b->ldy + v * VF, lanes) : vf_zero();
    }
    for (size_t r = 0, end; r < M; r = end) {
        end = at_most(r + ASKED, M);
        for (size_t line = r * G; line < end * G; line++)
            __builtin_prefetch(f->y + line / G * b->ldy + line % G * QKV_K_PACKED, 1, L2);
        packed_steps(sum, rows, &w, &soon, b, f->step, b->depth * end / M - b->depth * r / M, M,
                     G, TILED);
    }
    QKV_UNROLL
    for (size_t v = 0; v < G * GROUP_V; v++) {
        size_t at = j + v * VF, lanes = packed_lanes(b, at);
        if (!lanes)
            continue;
        vf bias = b->bias ? vf_get(b->bias + at, lanes) : vf_zero();
        QKV_UNROLL
        for (size_t r = 0; r < M; r++)
            vf_put(y + r * b->ldy + v * VF, sum[r][v] + bias, lanes);
    }
}

/* The rows of a tile; G and TILED as above. */
QKV_INLINE void packed_tile(const packed_block *b, size_t i, size_t j, const packed_fetch *f,
                            size_t rows, const size_t G, const bool TILED)
{
    switch (rows) {
    case 1: packed_micro(b, i, j, f, 1, G, TILED); break;
    case 2: packed_micro(b, i, j, f, 2, G, TILED); break;
    case 3: packed_micro(b, i, j, f, 3, G, TILED); break;
    case 4: packed_micro(b, i, j, f, 4, G, TILED); break;
    case 5: packed_micro(b, i, j, f, 5, G, TILED); break;
    case 6: packed_micro(b, i, j, f, 6, G, TILED); break;
    case 7: packed_micro(b, i, j, f, at_most(7, MR), G, TILED); break;
    default: packed_micro(b, i, j, f, MR, G, TILED);
    }
}

/* What the tile at row i of the first of these groups fetches of w: its share of the GROUPS groups
 * that come next; or, in the first groups, the rows of x that come next, if they are one piece. */
QKV_INLINE packed_fetch packed_share(const packed_block *b, size_t i, size_t g, size_t g0,
                                     size_t g1, const bool TILED)
{
    bool last = b->m - i <= MR;
    size_t next = g + GROUPS < g1 ? g + GROUPS : g0;
    const float *y = b->y + (last ? next * QKV_K_PACKED : (i + MR) * b->ldy + g * QKV_K_PACKED);
    if (g == g0 && !TILED && b->ldx == b->depth && !last)
        return (packed_fetch){b->x + (i + MR) * b->ldx, y, MR};
    size_t part = b->depth * QKV_K_PACKED;
    size_t step = at_most(pieces_of(GROUPS * QKV_K_PACKED, pieces_of(b->m, MR)), QKV_K_PACKED);
    size_t done = i / MR * step * b->depth, ahead = at_most(next + done / part, g1 - 1);
    return (packed_fetch){b->w + ahead * b->run + done % part, y, step};
}

/* Columns of groups g0 .. g1-1. Four groups that are left are two tiles of two. */
QKV_INLINE void packed_columns(const packed_block *b, size_t g0, size_t g1, const bool TILED)
{
    size_t most = GROUPS, first = g0;
    for (; g0 < g1; g0 += most) {
        most = GROUPS == 3 && g1 - g0 == 4 ? GROUPS - 1 : at_most(g1 - g0, most);
        for (size_t i = 0; i < b->m; i += MR) {
            size_t rows = at_most(b->m - i, MR), j = g0 * QKV_K_PACKED;
            const packed_fetch f = packed_share(b, i, g0, first, g1, TILED);
            if (most == GROUPS)
                packed_tile(b, i, j, &f, rows, GROUPS, TILED);
            else if (most == 1)
                packed_tile(b, i, j, &f, rows, 1, TILED);
            else
                packed_tile(b, i, j, &f, rows, GROUPS - 1, TILED);
        }
    }
}

static void packed_groups(const packed_block *b, size_t g0, size_t g1, bool tiled)
{
    if (tiled)
        packed_columns(b, g0, g1, true);
    else
        packed_columns(b, g0, g1, false);
}

/* ---- tiles of x ---------------------------------------------------------------------------- */

/* Whether rows of x are worth copying: many meet many columns. */
static inline bool packed_worth_tiles(size_t m, size_t n)
{
    return m >= 4 * MR && n >= (VF == 8 ? 4096 : 512);
}

/* Numbers of a tile and what keeps tiles apart: of a power of two all would share sets of the
 * cache. */
static inline size_t packed_tile_size(size_t depth) { return depth * MR + QKV__LINE; }

/* VF rows turned: row[v] has number v of each. `rows` of them and `now` numbers exist, others are
 * 0; what follows in them is fetched. */
QKV_INLINE void packed_turn(vf row[VF], const float *x, size_t ldx, size_t rows, size_t now)
{
    enum { AHEAD = 4 * QKV__LINE };
    for (size_t i = 0; i < VF; i++) {
        __builtin_prefetch(x + i * ldx + AHEAD);
        row[i] = i < rows ? vf_get(x + i * ldx, now) : vf_zero();
    }
    vf_transpose(row);
}

/* Tiles of m rows of x. A few rows at a time, so many that vectors of their columns are whole rows
 * of tiles or parts of one. */
static void packed_copy_rows(float *to, const float *x, size_t ldx, size_t m, size_t depth)
{
    enum { V = (int)VF, M = (int)MR, ROWS = V > M ? V / M * M : M, WIDTH = V < M ? V : M };
    for (size_t i = 0; i < m; i += ROWS)
        for (size_t p = 0; p < depth; p += VF)
            for (size_t r = i; r < i + ROWS; r += VF) {
                size_t now = at_most(depth - p, VF);
                vf row[VF];
                packed_turn(row, x + r * ldx + p, ldx, r < m ? m - r : 0, now);
                for (size_t v = 0; v < now; v++) {
                    float line[VF];
                    vf_store(line, row[v]);
                    for (size_t w = 0; w < VF && r + w < m && r + w < i + ROWS; w += WIDTH)
                        memcpy(to + (r + w) / MR * packed_tile_size(depth) + (p + v) * MR +
                                   (r + w) % MR,
                               line + w, at_most(WIDTH, i + ROWS - r - w) * sizeof *line);
                }
            }
}

/* ---- how a product is cut ------------------------------------------------------------------ */

/* How many numbers of k are taken at a time: all parts are nearly alike. */
static inline size_t packed_depth(size_t k) { return pieces_of(k, pieces_of(k, DEPTH)); }

/* Rows of a block, of `rows` with `depth` numbers each: blocks are alike. */
static inline size_t packed_rows(size_t rows, size_t depth)
{
    size_t blocks = (rows * depth + block_parameters / 2) / block_parameters;
    return pieces_of(pieces_of(rows, blocks ? blocks : 1), MR) * MR;
}

/* Numbers that the tiles of a block of at most `rows` take: a block is at most half as large again
 * as packed_rows wants it. */
static inline size_t packed_room(size_t rows, size_t depth)
{
    size_t tiles = at_most(pieces_of(rows, MR), block_parameters * 3 / 2 / depth / MR + 1);
    return tiles * packed_tile_size(depth);
}

/* How many pieces y (m, n) is cut into across so that the largest of `team` pieces is smallest. */
static inline size_t packed_across(size_t m, size_t n, size_t team)
{
    size_t best = 1, least = SIZE_MAX, tiles = pieces_of(m, MR);
    size_t groups = pieces_of(n, QKV_K_PACKED);
    for (size_t across = 1; across <= team; across++) {
        size_t size = pieces_of(tiles, team / across) * pieces_of(groups, across);
        if (size < least) {
            least = size;
            best = across;
        }
    }
    return best;
}

#endif
