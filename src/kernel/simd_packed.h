/* simd_packed.h - tiles of y = x w with w packed, for products whose weights were packed before
 * (simd_packed.c) and for those that pack first (simd_gemm.c).
 *
 * A tile of y stays in registers while k runs: some rows of x, whose elements are broadcast, meet
 * some groups of QKV_K_PACKED packed columns. A block of rows that fits the second cache meets all
 * of w before the next block does, and one tile's columns (48 x 512: 96 KB) meet the whole block
 * meanwhile, so w comes from memory once a block.
 *
 * The columns of the next tiles are fetched into the second cache meanwhile, and y's lines before
 * their sums begin. Without either the first tile of every column waited for memory, and products
 * of GPT-2's and ViT's shapes took 78 % of what the processor can multiply, with both 94 % (family
 * 6 model 207; one thread; in AVX2 88 and 95 %). */
#ifndef QKV_KERNEL_SIMD_PACKED_H
#define QKV_KERNEL_SIMD_PACKED_H

#include "kernel/simd.h"

/* Rows and groups of a tile, and vectors of a group: their sums must fit the registers, 16 of AVX2
 * and 32 of the others. */
enum { MR = VF == 16 ? 8 : 6, GROUPS = VF == 16 ? 3 : 1, GROUP_V = QKV_K_PACKED / VF,
       NV = GROUPS * GROUP_V };
enum { DEPTH = 1024, L2 = 2 }; /* of k at a time, at most; __builtin_prefetch's second cache */
static const size_t block_parameters = 1u << 17; /* of x: 512 KB, a part of the second cache */

/* A block: y (m, n) = [y +] x w [+ bias] for a part of k, `depth` numbers of it. x: rows ldx apart;
 * turned: tiles (depth, MR) of MR rows, ldx apart. w: the part's numbers of group g begin at
 * w + g run, each with those of QKV_K_PACKED columns. bias: NULL for none. */
typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, m, n, depth, run;
    bool add;
} packed_block;

/* For each number of k so many numbers of w are fetched, from `from` on. */
typedef struct {
    const float *from;
    size_t step;
} packed_fetch;

static inline size_t pieces_of(size_t n, size_t size) { return (n + size - 1) / size; }

/* How many of VF columns from j on y has. */
static inline size_t packed_lanes(const packed_block *b, size_t j)
{
    return j < b->n ? at_most(b->n - j, VF) : 0;
}

/* y[i .. i+M-1, j .. j+15+16(G-1)]. M, G and TURNED are constants wherever this is inlined. Rows of
 * x are addressed from every third one: a base and up to twice a distance are one address. */
QKV_INLINE void packed_micro(const packed_block *b, size_t i, size_t j, const packed_fetch *f,
                             const size_t M, const size_t G, const bool TURNED)
{
    const float *x = b->x + (TURNED ? i / MR : i) * b->ldx, *soon = f->from;
    const float *w = b->w + j / QKV_K_PACKED * b->run;
    const size_t run = b->run, ldx = TURNED ? 1 : b->ldx, step = f->step;
    float *y = b->y + i * b->ldy + j;
    vf sum[MR][NV];
    for (size_t v = 0; v < G * GROUP_V; v++)
        for (size_t r = 0; r < M; r++) {
            size_t lanes = b->add ? packed_lanes(b, j + v * VF) : 0;
            sum[r][v] = lanes ? vf_get(y + r * b->ldy + v * VF, lanes) : vf_zero();
            __builtin_prefetch(y + r * b->ldy + v * VF, 1);
        }
    const float *rows[] = {x, x + 3 * ldx, x + 6 * ldx};
    for (size_t left = b->depth; left; left--) {
        vf row[NV];
        for (size_t v = 0; v < G * GROUP_V; v++)
            row[v] = vf_load(w + v / GROUP_V * run + v % GROUP_V * VF);
        __builtin_prefetch(soon, 0, L2);
        for (size_t r = 0; r < M; r++) {
            vf a = vf_set1(rows[r / 3][r % 3 * ldx]);
            for (size_t v = 0; v < G * GROUP_V; v++)
                sum[r][v] = vf_fma(a, row[v], sum[r][v]);
        }
        for (size_t r = 0; r < M; r += 3)
            rows[r / 3] += TURNED ? MR : 1;
        w += QKV_K_PACKED;
        soon += step;
    }
    for (size_t v = 0; v < G * GROUP_V; v++) {
        size_t at = j + v * VF, lanes = packed_lanes(b, at);
        if (!lanes)
            continue;
        vf bias = b->bias ? vf_get(b->bias + at, lanes) : vf_zero();
        for (size_t r = 0; r < M; r++)
            vf_put(y + r * b->ldy + v * VF, sum[r][v] + bias, lanes);
    }
}

/* The rows of a tile; G and TURNED as above. */
QKV_INLINE void packed_tile(const packed_block *b, size_t i, size_t j, const packed_fetch *f,
                            size_t rows, const size_t G, const bool TURNED)
{
    switch (rows) {
    case 1: packed_micro(b, i, j, f, 1, G, TURNED); break;
    case 2: packed_micro(b, i, j, f, 2, G, TURNED); break;
    case 3: packed_micro(b, i, j, f, 3, G, TURNED); break;
    case 4: packed_micro(b, i, j, f, 4, G, TURNED); break;
    case 5: packed_micro(b, i, j, f, 5, G, TURNED); break;
    case 6: packed_micro(b, i, j, f, 6, G, TURNED); break;
    case 7: packed_micro(b, i, j, f, at_most(7, MR), G, TURNED); break;
    default: packed_micro(b, i, j, f, MR, G, TURNED);
    }
}

/* What the tile at row i of the first of these groups fetches: its share of the GROUPS groups that
 * come next; or, in the first groups, the rows of x that come next, if they are one piece. */
QKV_INLINE packed_fetch packed_share(const packed_block *b, size_t i, size_t g, size_t g0,
                                     size_t g1, const bool TURNED)
{
    if (g == g0 && !TURNED && b->ldx == b->depth && b->m - i > MR)
        return (packed_fetch){b->x + (i + MR) * b->ldx, MR};
    size_t part = b->depth * QKV_K_PACKED, next = g + GROUPS < g1 ? g + GROUPS : g0;
    size_t step = at_most(pieces_of(GROUPS * QKV_K_PACKED, pieces_of(b->m, MR)), QKV_K_PACKED);
    size_t done = i / MR * step * b->depth, ahead = at_most(next + done / part, g1 - 1);
    return (packed_fetch){b->w + ahead * b->run + done % part, step};
}

/* Columns of groups g0 .. g1-1. Four groups that are left are two tiles of two. */
QKV_INLINE void packed_groups(const packed_block *b, size_t g0, size_t g1, const bool TURNED)
{
    size_t most = GROUPS, first = g0;
    for (; g0 < g1; g0 += most) {
        most = GROUPS == 3 && g1 - g0 == 4 ? GROUPS - 1 : at_most(g1 - g0, most);
        for (size_t i = 0; i < b->m; i += MR) {
            size_t rows = at_most(b->m - i, MR), j = g0 * QKV_K_PACKED;
            const packed_fetch f = packed_share(b, i, g0, first, g1, TURNED);
            if (most == GROUPS)
                packed_tile(b, i, j, &f, rows, GROUPS, TURNED);
            else if (most == 1)
                packed_tile(b, i, j, &f, rows, 1, TURNED);
            else
                packed_tile(b, i, j, &f, rows, GROUPS - 1, TURNED);
        }
    }
}

/* How many numbers of k are taken at a time: all parts are nearly alike. */
static inline size_t packed_depth(size_t k) { return pieces_of(k, pieces_of(k, DEPTH)); }

/* Rows of a block, of `rows` with `depth` numbers each: blocks are alike. */
static inline size_t packed_rows(size_t rows, size_t depth)
{
    size_t blocks = (rows * depth + block_parameters / 2) / block_parameters;
    return pieces_of(pieces_of(rows, blocks ? blocks : 1), MR) * MR;
}

/* The most that packed_rows gives of at most `rows`: a block is at most half as large again. */
static inline size_t packed_most_rows(size_t rows, size_t depth)
{
    return at_most(pieces_of(rows, MR), block_parameters * 3 / 2 / depth / MR + 1) * MR;
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
