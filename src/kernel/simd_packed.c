/* simd_packed.c - y = x w^T + bias for many rows of x and weights that were packed before.
 *
 * A tile of y stays in registers while k runs: some rows of x, whose elements are broadcast, meet
 * some groups of packed columns. A block of rows that fits the second cache meets all of w before
 * the next block does, and one tile's columns (48 x 512: 96 KB) meet the whole block meanwhile, so
 * w comes from memory once a block. x is read where it lies: as tiles are high, w is what counts.
 *
 * The columns of the next tiles are fetched into the second cache meanwhile, and y's lines before
 * their sums begin. Without either the first tile of every column waited for memory, and products
 * of GPT-2's and ViT's shapes took 78 % of what the processor can multiply, with both 94 % (family
 * 6 model 207; one thread; in AVX2 88 and 95 %).
 *
 * A library's sgemm copies both operands into such an order at every call, and its own kernel for
 * packed weights has to be generated anew for every number of rows. */
#include "kernel/simd.h"

/* Rows and groups of a tile, and vectors of a group: their sums must fit the registers, 16 of AVX2
 * and 32 of the others. */
enum { MR = VF == 16 ? 8 : 6, GROUPS = VF == 16 ? 3 : 1, GROUP_V = QKV_K_PACKED / VF,
       NV = GROUPS * GROUP_V };
enum { DEPTH = 1024, L2 = 2 }; /* of k at a time, at most; __builtin_prefetch's second cache */
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */
static const size_t block_parameters = 1u << 17; /* of x: 512 KB, a part of the second cache */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, m, n, k;
} job;

/* Of k what a tile takes; and for each of it `step` numbers of w that are fetched, from `soon`. */
typedef struct {
    size_t from, to, step;
    const float *soon;
} packed_depth;

static size_t pieces_of(size_t n, size_t size) { return (n + size - 1) / size; }

/* How many of VF columns from j on y has. */
static size_t packed_lanes(const job *t, size_t j)
{
    return j < t->n ? at_most(t->n - j, VF) : 0;
}

/* y[i .. i+M-1, j .. j+15+16(G-1)]. M and G are constants wherever this is inlined. */
QKV_INLINE void micro(const job *t, size_t i, size_t j, const packed_depth *d, const size_t M,
                      const size_t G)
{
    const float *x = t->x + i * t->ldx + d->from, *soon = d->soon;
    const float *w = t->w + j * t->k + d->from * QKV_K_PACKED;
    const size_t run = t->k * QKV_K_PACKED, ldx = t->ldx, step = d->step;
    float *y = t->y + i * t->ldy + j;
    vf sum[MR][NV];
    for (size_t v = 0; v < G * GROUP_V; v++)
        for (size_t r = 0; r < M; r++) {
            size_t lanes = d->from ? packed_lanes(t, j + v * VF) : 0;
            sum[r][v] = lanes ? vf_get(y + r * t->ldy + v * VF, lanes) : vf_zero();
            __builtin_prefetch(y + r * t->ldy + v * VF, 1);
        }
    const float *rows[] = {x, x + 3 * ldx, x + 6 * ldx};
    for (size_t left = d->to - d->from; left; left--) {
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
            rows[r / 3]++;
        w += QKV_K_PACKED;
        soon += step;
    }
    for (size_t v = 0; v < G * GROUP_V; v++) {
        size_t at = j + v * VF, lanes = packed_lanes(t, at);
        if (!lanes)
            continue;
        vf bias = t->bias && d->to == t->k ? vf_get(t->bias + at, lanes) : vf_zero();
        for (size_t r = 0; r < M; r++)
            vf_put(y + r * t->ldy + v * VF, sum[r][v] + bias, lanes);
    }
}

/* The rows of a tile; G as above. */
QKV_INLINE void tile(const job *t, size_t i, size_t j, const packed_depth *d, size_t rows,
                     const size_t G)
{
    switch (rows) {
    case 1: micro(t, i, j, d, 1, G); break;
    case 2: micro(t, i, j, d, 2, G); break;
    case 3: micro(t, i, j, d, 3, G); break;
    case 4: micro(t, i, j, d, 4, G); break;
    case 5: micro(t, i, j, d, 5, G); break;
    case 6: micro(t, i, j, d, 6, G); break;
    case 7: micro(t, i, j, d, at_most(7, MR), G); break;
    default: micro(t, i, j, d, MR, G);
    }
}

/* Rows i0 .. i1-1 of y, columns of groups g0 .. g1-1, numbers from .. to-1 of k. Each row of tiles
 * fetches its share of the next GROUPS groups. */
static void packed_block(const job *t, size_t i0, size_t i1, size_t g0, size_t g1, size_t from,
                         size_t to)
{
    size_t fetches = pieces_of(i1 - i0, MR), run = (to - from) * QKV_K_PACKED;
    size_t step = at_most(pieces_of(GROUPS * QKV_K_PACKED, fetches), QKV_K_PACKED);
    for (size_t g = g0; g < g1; g += GROUPS) {
        size_t next = g + GROUPS < g1 ? g + GROUPS : g0, done = 0;
        for (size_t i = i0; i < i1; i += MR, done += (to - from) * step) {
            size_t rows = at_most(i1 - i, MR), ahead = at_most(next + done / run, g1 - 1);
            const packed_depth d = {
                from, to, step, t->w + (ahead * t->k + from) * QKV_K_PACKED + done % run};
            if (g1 - g >= GROUPS)
                tile(t, i, g * QKV_K_PACKED, &d, rows, GROUPS);
            else if (g1 - g == 1)
                tile(t, i, g * QKV_K_PACKED, &d, rows, 1);
            else
                tile(t, i, g * QKV_K_PACKED, &d, rows, GROUPS - 1);
        }
    }
}

/* Rows i0 .. i1-1 of y, columns of groups g0 .. g1-1. Of a long k one part after another: sums wait
 * in y, to the same bits. */
static void simd_packed_piece(const job *t, size_t i0, size_t i1, size_t g0, size_t g1)
{
    size_t depth = pieces_of(t->k, pieces_of(t->k, DEPTH));
    size_t blocks = ((i1 - i0) * depth + block_parameters / 2) / block_parameters;
    size_t rows = pieces_of(pieces_of(i1 - i0, blocks ? blocks : 1), MR) * MR;
    for (; i0 < i1; i0 += rows)
        for (size_t p = 0; p < t->k; p += depth)
            packed_block(t, i0, at_most(i1, i0 + rows), g0, g1, p, at_most(t->k, p + depth));
}

/* How many pieces y is cut into across so that the largest of `team` pieces is smallest. */
static size_t choose_across(const job *t, size_t team)
{
    size_t best = 1, least = SIZE_MAX, tiles = pieces_of(t->m, MR);
    size_t groups = pieces_of(t->n, QKV_K_PACKED);
    for (size_t across = 1; across <= team; across++) {
        size_t size = pieces_of(tiles, team / across) * pieces_of(groups, across);
        if (size < least) {
            least = size;
            best = across;
        }
    }
    return best;
}

static void simd_packed_packed(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                               const float *w, const float *bias, size_t m, size_t n, size_t k)
{
    const job t = {y, x, w, bias, ldy, ldx, m, n, k};
    size_t team = m * n * k > worth_threads ? (size_t)e->threads : 1;
    size_t across = choose_across(&t, team), down = team / across;
    size_t tiles = pieces_of(m, MR), groups = pieces_of(n, QKV_K_PACKED);
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, across, down, tiles, groups)
    for (size_t p = 0; p < down * across; p++) {
        size_t i = p / across, j = p % across;
        simd_packed_piece(&t, tiles * i / down * MR,
                          at_most(tiles * (i + 1) / down * MR, t.m),
                          groups * j / across, groups * (j + 1) / across);
    }
}

void QKV_SIMD(qkv__kernels_packed)(qkv_kernels *k)
{
    k->packed = simd_packed_packed;
}
