/* simd_packed.c - y = x w^T + bias for many rows of x and weights that were packed before.
 *
 * A library's sgemm copies w into such an order at every call, and its own kernel for packed
 * weights has to be generated anew for every number of rows. */
#include "kernel/simd_packed.h"

static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, m, n, k;
    float *tiles; /* of x, `room` for each thread; NULL: x is read where it lies */
    size_t room;
} job;

/* Rows i0 .. i1-1 of y, columns of groups g0 .. g1-1. Of a long k one part after another: sums wait
 * in y, to the same bits. */
static void simd_packed_piece(const job *t, float *tiles, size_t i0, size_t i1, size_t g0,
                              size_t g1)
{
    size_t depth = packed_depth(t->k), rows = packed_rows(i1 - i0, depth);
    for (; i0 < i1; i0 += rows)
        for (size_t p = 0; p < t->k; p += depth) {
            size_t now = at_most(t->k - p, depth), m = at_most(i1 - i0, rows);
            const float *x = t->x + i0 * t->ldx + p;
            if (tiles)
                packed_copy_rows(tiles, x, t->ldx, m, now);
            const packed_block b = {.y = t->y + i0 * t->ldy, .x = tiles ? tiles : x,
                                    .w = t->w + p * QKV_K_PACKED,
                                    .bias = p + now == t->k ? t->bias : NULL, .ldy = t->ldy,
                                    .ldx = tiles ? packed_tile_size(now) : t->ldx, .m = m,
                                    .n = t->n, .depth = now, .run = t->k * QKV_K_PACKED,
                                    .add = p > 0};
            packed_groups(&b, g0, g1, tiles != NULL);
        }
}

static void simd_packed_packed(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                               const float *w, const float *bias, size_t m, size_t n, size_t k)
{
    job t = {y, x, w, bias, ldy, ldx, m, n, k, NULL, packed_room(m, packed_depth(k))};
    size_t team = m * n * k > worth_threads ? (size_t)e->threads : 1;
    size_t across = packed_across(m, n, team), down = team / across;
    size_t tiles = pieces_of(m, MR), groups = pieces_of(n, QKV_K_PACKED);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (packed_worth_tiles(m, n))
        t.tiles = qkv__arena_alloc(e->scratch, down * across * t.room * sizeof *t.tiles);
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, across, down, tiles, groups)
    for (size_t p = 0; p < down * across; p++) {
        size_t i = p / across, j = p % across;
        simd_packed_piece(&t, t.tiles ? t.tiles + p * t.room : NULL, tiles * i / down * MR,
                          at_most(tiles * (i + 1) / down * MR, t.m),
                          groups * j / across, groups * (j + 1) / across);
    }
    qkv__arena_release(e->scratch, mark);
}

void QKV_SIMD(qkv__kernels_packed)(qkv_kernels *k)
{
    k->packed = simd_packed_packed;
}
