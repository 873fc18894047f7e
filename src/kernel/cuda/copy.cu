/* copy.cu - the strided copy: permutes, broadcasts and slices of up to 8 dimensions; and rows that
 * change places.
 *
 * Dimensions that lie one behind the other in both arrays are joined first. A copy whose innermost
 * dimension is contiguous on both sides moves 4 neighbours a thread where it can; one that turns a
 * plane goes through tiles of shared memory, so that both sides are read and written along their
 * contiguous dimension. */
#include <cstring>

#include "kernel/cuda/elements.cuh"
#include "kernel/cuda/list.cuh"

enum { MAX_DIMS = 8, TILE = 32, TILE_ROWS = 8, TILE_LEAST = 4, MOVES_MOST = 1 << 17 };

struct copy_dim {
    size_t n, y, x; /* size, strides in y and x */
};

struct copy_plan {
    copy_dim d[MAX_DIMS];
    int dims;
};

/* Drops dimensions of size 1 and joins neighbours. */
static copy_plan joined(const size_t *sy, const size_t *sx, const size_t *shape, int ndim)
{
    copy_plan p = {};
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        copy_dim next = {shape[i], sy[i], sx[i]};
        copy_dim *last = &p.d[p.dims ? p.dims - 1 : 0];
        if (p.dims && last->y == next.y * next.n && last->x == next.x * next.n) {
            next.n *= last->n;
            p.dims--;
        }
        p.d[p.dims++] = next;
    }
    if (p.dims == 0)
        p.d[p.dims++] = {1, 1, 1};
    return p;
}

/* Where element i of the first `dims` dimensions lies. */
static __device__ __forceinline__ void places(const copy_plan &p, int dims, size_t i, size_t *y,
                                              size_t *x)
{
    size_t at_y = 0, at_x = 0;
    for (int d = dims - 1; d > 0; d--) {
        size_t at;
        split(i, p.d[d].n, &i, &at);
        at_y += at * p.d[d].y;
        at_x += at * p.d[d].x;
    }
    if (dims > 0) {
        at_y += i * p.d[0].y;
        at_x += i * p.d[0].x;
    }
    *y = at_y;
    *x = at_x;
}

/* Element by element; W neighbours where the innermost dimension is contiguous on both sides and
 * counts them. */
template <int W, typename Y, typename X>
static __global__ void __launch_bounds__(BLOCK) copy_elements(Y *y, const X *x, copy_plan p,
                                                              size_t n, bool acc)
{
    for (FOR_EACH(i, n)) {
        size_t at_y, at_x;
        places(p, p.dims, i, &at_y, &at_x);
        put<W>(y + at_y, load<W>(x + at_x), acc);
    }
}

/* Along a x is contiguous, along b y; p has the other dimensions. */
struct turn {
    copy_dim a, b;
    size_t tiles_a, tiles_b, tiles;
    copy_plan outer;
};

static __global__ void __launch_bounds__(TILE *TILE_ROWS) copy_turned(float *y, const float *x,
                                                                     turn t, bool acc)
{
    __shared__ float tile[TILE][TILE + 1]; /* [b][a] */
    for (size_t k = blockIdx.x; k < t.tiles; k += gridDim.x) {
        size_t rest, tile_a, tile_b, at_y, at_x;
        split(k, t.tiles_b, &rest, &tile_b);
        split(rest, t.tiles_a, &rest, &tile_a);
        places(t.outer, t.outer.dims, rest, &at_y, &at_x);
        const size_t a0 = tile_a * TILE, b0 = tile_b * TILE;
        for (unsigned j = threadIdx.y; j < TILE; j += TILE_ROWS)
            if (a0 + threadIdx.x < t.a.n && b0 + j < t.b.n)
                tile[j][threadIdx.x] =
                    x[at_x + (a0 + threadIdx.x) * t.a.x + (b0 + j) * t.b.x];
        __syncthreads();
        for (unsigned j = threadIdx.y; j < TILE; j += TILE_ROWS)
            if (a0 + j < t.a.n && b0 + threadIdx.x < t.b.n) {
                float *to = y + at_y + (a0 + j) * t.a.y + (b0 + threadIdx.x) * t.b.y;
                *to = acc ? *to + tile[threadIdx.x][j] : tile[threadIdx.x][j];
            }
        __syncthreads();
    }
}

/* Whether a plane of p can be turned, and how. */
static bool find_turn(turn *t, const copy_plan *p)
{
    const copy_dim b = p->d[p->dims - 1];
    int plane = -1;
    for (int i = 0; i < p->dims - 1; i++)
        if (p->d[i].x == 1)
            plane = i;
    if (plane < 0 || b.x == 1 || b.y != 1 || b.n < TILE_LEAST || p->d[plane].n < TILE_LEAST)
        return false;
    *t = {};
    t->a = p->d[plane];
    t->b = b;
    t->tiles_a = (t->a.n + TILE - 1) / TILE;
    t->tiles_b = (t->b.n + TILE - 1) / TILE;
    t->tiles = t->tiles_a * t->tiles_b;
    for (int i = 0; i < p->dims - 1; i++)
        if (i != plane) {
            t->outer.d[t->outer.dims++] = p->d[i];
            t->tiles *= p->d[i].n;
        }
    return true;
}

/* Whether p moves in fours; then it counts them. */
static bool in_fours(copy_plan *p)
{
    copy_dim *inner = &p->d[p->dims - 1];
    bool fit = inner->x == 1 && inner->y == 1 && inner->n % 4 == 0;
    for (int i = 0; i < p->dims - 1; i++)
        fit = fit && p->d[i].x % 4 == 0 && p->d[i].y % 4 == 0;
    if (fit)
        *inner = {inner->n / 4, 4, 4};
    return fit;
}

template <typename Y, typename X>
static void copy_in_order(Y *y, const X *x, copy_plan p, size_t n, bool acc)
{
    if (aligned16(y, x) && in_fours(&p))
        LAUNCH((copy_elements<4, Y, X>), cuda_blocks(n / 4), BLOCK, 0, y, x, p, n / 4, acc);
    else
        LAUNCH((copy_elements<1, Y, X>), cuda_blocks(n), BLOCK, 0, y, x, p, n, acc);
}

/* Rows that are contiguous on both sides go on the list. */
static bool list_plan(float *y, const float *x, const copy_plan &p)
{
    const copy_dim inner = p.d[p.dims - 1], outer = p.dims == 2 ? p.d[0] : copy_dim{1, 0, 0};
    return p.dims <= 2 && inner.x == 1 && inner.y == 1 &&
           list_rows(y, outer.y, x, outer.x, outer.n, inner.n);
}

/* Each of y and x may hold bf16. */
static void cuda_copy(const qkv_exec *e, qkv_real *y, const size_t *sy, const qkv_real *x,
                      const size_t *sx, const size_t *shape, int ndim, bool acc)
{
    const bool rounded = holds_bf16(e, 0), of_rounded = holds_bf16(e, 1);
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    if (n == 0)
        return;
    copy_plan p = joined(sy, sx, shape, ndim);
    turn t;
    if (!rounded && !of_rounded && !acc && list_plan(y, x, p))
        return;
    if (rounded && of_rounded)
        copy_in_order((bf16 *)y, (const bf16 *)x, p, n, acc);
    else if (rounded)
        copy_in_order((bf16 *)y, x, p, n, acc);
    else if (of_rounded)
        copy_in_order(y, (const bf16 *)x, p, n, acc);
    else if (find_turn(&t, &p))
        LAUNCH(copy_turned, (unsigned)smaller(t.tiles, GRID_MOST), dim3(TILE, TILE_ROWS), 0, y, x,
               t, acc);
    else
        copy_in_order(y, x, p, n, acc);
}

/* ---- rows that change places ----------------------------------------------------------------- */

/* Each thread makes all moves of its columns, one after another. */
struct move_body {
    float *x;
    size_t row, moves;
    const size_t *to, *from, *begin;
    template <int W> __device__ void at(size_t i) const
    {
        for (size_t k = 0; k < moves; k++)
            if (i >= begin[k])
                store<W>(x + to[k] * row + i, load<W>(x + from[k] * row + i));
    }
};

/* Whether neighbours of four move together. */
static bool in_fours(const qkv_real *x, size_t row, const size_t *begin, size_t moves)
{
    bool whole = row % 4 == 0 && aligned16(x);
    for (size_t k = 0; k < moves && whole; k++)
        whole = begin[k] % 4 == 0;
    return whole;
}

static void cuda_move(const qkv_exec *e, qkv_real *x, size_t row, const size_t *to,
                      const size_t *from, const size_t *begin, size_t moves, size_t n)
{
    (void)e;
    for (size_t first = 0; first < moves && n; first += MOVES_MOST) {
        const size_t left = moves - first, count = smaller(left, MOVES_MOST);
        const void *t = cuda_upload(to + first, count * sizeof *to);
        const void *f = cuda_upload(from + first, count * sizeof *from);
        const void *b = cuda_upload(begin + first, count * sizeof *begin);
        if (!t || !f || !b)
            return;
        launch_elements(move_body{x, row, count, (const size_t *)t, (const size_t *)f,
                                  (const size_t *)b},
                        n, in_fours(x, row, begin + first, count));
    }
}

extern "C" void qkv__cuda_copy(qkv_kernels *k)
{
    k->copy = cuda_copy;
    k->move = cuda_move;
}
