/* ref_copy.c - the strided copy: permutes, broadcasts and slices of up to 8 dimensions; and rows
 * that change places.
 *
 * Dimensions that lie one behind the other in both arrays are joined first; of what remains
 * two make a plane, walked in tiles, and the others count. It moves memory and nothing else,
 * so there is no vector version. */
#include <string.h>

#include "kernel/ref_math.h"

enum { MAX_DIMS = 8, TILE_A = 16, TILE_B = 4096, TILE_SMALL = 16 };

typedef struct {
    size_t n, y, x; /* size, strides in y and x */
} copy_dim;

typedef struct {
    copy_dim outer[MAX_DIMS];
    int outers;
    copy_dim a, b; /* the plane: b is y's innermost dimension */
} copy_plan;

/* Drops dimensions of size 1 and joins neighbours; returns how many are left. */
static int ref_copy_joined(copy_dim *d, const size_t *sy, const size_t *sx, const size_t *shape,
                           int ndim)
{
    int dims = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        copy_dim next = {shape[i], sy[i], sx[i]};
        if (dims && d[dims - 1].y == next.y * next.n && d[dims - 1].x == next.x * next.n) {
            next.n *= d[dims - 1].n;
            dims--;
        }
        d[dims++] = next;
    }
    return dims;
}

static void plan_copy(copy_plan *p, const size_t *sy, const size_t *sx, const size_t *shape,
                      int ndim)
{
    copy_dim d[MAX_DIMS];
    int dims = ref_copy_joined(d, sy, sx, shape, ndim), plane = dims - 2;
    p->outers = 0;
    p->b = dims ? d[dims - 1] : (copy_dim){1, 1, 1};
    /* If x is not contiguous along b, its contiguous dimension shares the tiles. */
    for (int i = 0; i < dims - 1 && p->b.x != 1; i++)
        if (d[i].x == 1)
            plane = i;
    p->a = plane >= 0 ? d[plane] : (copy_dim){1, 0, 0};
    for (int i = 0; i < dims - 1; i++)
        if (i != plane)
            p->outer[p->outers++] = d[i];
}

/* One tile of the plane, na x nb elements. */
static void copy_tile(qkv_real *y, const qkv_real *x, const copy_plan *p, size_t na, size_t nb,
                      bool acc)
{
    copy_dim a = p->a, b = p->b;
    if (b.x == 1 && b.y == 1 && !acc) {
        for (size_t i = 0; i < na; i++)
            memcpy(y + i * a.y, x + i * a.x, nb * sizeof *y);
        return;
    }
    size_t step = b.x == 1 ? nb : TILE_SMALL;
    for (size_t j0 = 0; j0 < nb; j0 += step) {
        size_t j1 = nb - j0 < step ? nb : j0 + step;
        for (size_t i = 0; i < na; i++) {
            qkv_real *out = y + i * a.y;
            const qkv_real *in = x + i * a.x;
            for (size_t j = j0; j < j1; j++)
                out[j * b.y] = acc ? out[j * b.y] + in[j * b.x] : in[j * b.x];
        }
    }
}

void qkv__ref_copy(const qkv_exec *e, qkv_real *y, const size_t *sy, const qkv_real *x,
                   const size_t *sx, const size_t *shape, int ndim, bool acc)
{
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    if (n == 0)
        return;
    copy_plan p;
    plan_copy(&p, sy, sx, shape, ndim);
    size_t tiles_a = (p.a.n + TILE_A - 1) / TILE_A, tiles_b = (p.b.n + TILE_B - 1) / TILE_B;
    size_t tiles = tiles_a * tiles_b;
    for (int i = 0; i < p.outers; i++)
        tiles *= p.outer[i].n;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, x, p, acc, tiles, tiles_a, tiles_b) if (n >= REF_GRAIN)
    for (size_t t = 0; t < tiles; t++) {
        size_t rest = t, b0 = rest % tiles_b * TILE_B;
        rest /= tiles_b;
        size_t a0 = rest % tiles_a * TILE_A;
        rest /= tiles_a;
        size_t oy = a0 * p.a.y + b0 * p.b.y, ox = a0 * p.a.x + b0 * p.b.x;
        for (int i = p.outers - 1; i >= 0; i--) {
            oy += rest % p.outer[i].n * p.outer[i].y;
            ox += rest % p.outer[i].n * p.outer[i].x;
            rest /= p.outer[i].n;
        }
        size_t na = p.a.n - a0 < TILE_A ? p.a.n - a0 : TILE_A;
        size_t nb = p.b.n - b0 < TILE_B ? p.b.n - b0 : TILE_B;
        copy_tile(y + oy, x + ox, &p, na, nb, acc);
    }
}

/* Each thread makes all moves of its columns, which lie everywhere in a row: many moves leave out a
 * row's beginning. */
void qkv__ref_move(const qkv_exec *e, qkv_real *x, size_t row, const size_t *to,
                   const size_t *from, const size_t *begin, size_t moves, size_t n)
{
    enum { COLUMNS = 512 };
    size_t parts = moves * n >= REF_GRAIN ? (size_t)e->threads : 1;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(x, row, to, from, begin, moves, n, parts) if (parts > 1)
    for (size_t p = 0; p < parts; p++) {
        for (size_t i = p * COLUMNS; i < n; i += parts * COLUMNS) {
            size_t end = n - i < COLUMNS ? n : i + COLUMNS;
            for (size_t m = 0; m < moves; m++) {
                size_t first = begin[m] > i ? begin[m] : i;
                if (first < end)
                    memcpy(x + to[m] * row + first, x + from[m] * row + first,
                           (end - first) * sizeof *x);
            }
        }
    }
}
