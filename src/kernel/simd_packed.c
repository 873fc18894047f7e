/* simd_packed.c - y = x w^T + bias for many rows of x and weights that were packed before.
 *
 * A tile of y stays in registers while k runs: some rows of x, whose elements are broadcast, meet
 * some groups of packed columns. A block of rows that fits the second cache meets all of w before
 * the next block does, and one tile's columns (48 x 512: 96 KB) meet the whole block meanwhile, so
 * w comes from memory once a block. x is read where it lies: as tiles are high, w is what counts.
 *
 * A library's sgemm copies both operands into such an order at every call, and its own kernel for
 * packed weights has to be generated anew for every number of rows. */
#include "kernel/simd.h"

/* Rows and groups of a tile, and vectors of a group: their sums must fit the registers, 16 of AVX2
 * and 32 of the others. */
enum { MR = VF == 16 ? 8 : 6, GROUPS = VF == 16 ? 3 : 1, GROUP_V = QKV_K_PACKED / VF,
       NV = GROUPS * GROUP_V };
/* One group of columns is one stream of lines, which the processor follows to the end of a page and
 * no further; three of them hide that. Few rows were 10 to 15 % slower without. */
enum { AHEAD = 32 };
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */
static const size_t block_parameters = 1u << 17; /* of x: half of the second cache */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, m, n, k;
} job;

static size_t pieces_of(size_t n, size_t size) { return (n + size - 1) / size; }

/* y[i .. i+M-1, j .. j+15+16(G-1)]. M and G are constants wherever this is inlined. */
QKV_INLINE void micro(const job *t, size_t i, size_t j, const size_t M, const size_t G)
{
    const float *x = t->x + i * t->ldx, *w = t->w + j * t->k;
    vf sum[MR][NV];
    for (size_t r = 0; r < M; r++)
        for (size_t v = 0; v < G * GROUP_V; v++)
            sum[r][v] = vf_zero();
    for (size_t p = 0; p < t->k; p++) {
        vf row[NV];
        for (size_t v = 0; v < G * GROUP_V; v++)
            row[v] = vf_load(w + (v / GROUP_V * t->k + p) * QKV_K_PACKED + v % GROUP_V * VF);
        if (GROUPS == 1)
            __builtin_prefetch(w + (p + AHEAD) * QKV_K_PACKED);
        for (size_t r = 0; r < M; r++) {
            vf a = vf_set1(x[r * t->ldx + p]);
            for (size_t v = 0; v < G * GROUP_V; v++)
                sum[r][v] = vf_fma(a, row[v], sum[r][v]);
        }
    }
    for (size_t v = 0; v < G * GROUP_V; v++) {
        size_t at = j + v * VF, lanes = at < t->n ? at_most(t->n - at, VF) : 0;
        if (!lanes)
            continue;
        vf bias = t->bias ? vf_get(t->bias + at, lanes) : vf_zero();
        for (size_t r = 0; r < M; r++)
            vf_put(t->y + (i + r) * t->ldy + at, sum[r][v] + bias, lanes);
    }
}

/* The rows of a tile; G as above. */
QKV_INLINE void tile(const job *t, size_t i, size_t j, size_t rows, const size_t G)
{
    switch (rows) {
    case 1: micro(t, i, j, 1, G); break;
    case 2: micro(t, i, j, 2, G); break;
    case 3: micro(t, i, j, 3, G); break;
    case 4: micro(t, i, j, 4, G); break;
    case 5: micro(t, i, j, 5, G); break;
    case 6: micro(t, i, j, 6, G); break;
    case 7: micro(t, i, j, at_most(7, MR), G); break;
    default: micro(t, i, j, MR, G);
    }
}

/* Rows i0 .. i1-1 of y, columns of groups g0 .. g1-1. */
static void simd_packed_piece(const job *t, size_t i0, size_t i1, size_t g0, size_t g1)
{
    size_t block = block_parameters / (t->k + 1) / MR * MR;
    block = block ? block : MR;
    for (; i0 < i1; i0 += block) {
        size_t end = at_most(i1, i0 + block);
        for (size_t g = g0; g < g1; g += GROUPS)
            for (size_t i = i0; i < end; i += MR) {
                size_t j = g * QKV_K_PACKED, rows = at_most(end - i, MR);
                if (g1 - g >= GROUPS)
                    tile(t, i, j, rows, GROUPS);
                else if (g1 - g == 1)
                    tile(t, i, j, rows, 1);
                else
                    tile(t, i, j, rows, GROUPS - 1);
            }
    }
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
