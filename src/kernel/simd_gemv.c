/* simd_gemv.c - y = x w^T + bias for few rows of x, at the speed at which memory gives w.
 *
 * A few rows of w at a time meet all rows of x, so w is read once. These rows are not neighbours:
 * a thread cuts its part of w into as many runs and goes through them side by side, each from one
 * end to the other. So the processor sees a few long streams and fetches ahead by itself: 57 GB/s
 * on two cores of Zen 4 that read memory at 60, where neighbouring rows, 3 KB each, gave 35.
 *
 * Both operands are read along k and nothing is packed: few rows do not pay for that. */
#include "kernel/simd.h"

/* Rows of w, and rows of x at a time: their sums must fit the registers, 16 of AVX2 and 32 of the
 * others. */
enum { BLOCK = 4, TILE = VF == 8 ? 2 : 4 };
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, m, n, k;
} job;

/* y[i .. i+M-1, j + r apart] for r < R. M and R are constants wherever this is inlined, so that the
 * sums stay in registers; so is AHEAD: the rows of w that come next are fetched meanwhile. */
QKV_INLINE void dots(const job *t, size_t i, size_t j, size_t apart, const size_t M,
                     const size_t R, const bool AHEAD)
{
    const float *w = t->w + j * t->k, *x = t->x + i * t->ldx;
    size_t k = t->k, next = apart * k, at = 0;
    vf sum[TILE][BLOCK];
    for (size_t a = 0; a < M; a++)
        for (size_t r = 0; r < R; r++)
            sum[a][r] = vf_zero();
    for (; at + VF <= k; at += VF) {
        vf row[BLOCK];
        for (size_t r = 0; r < R; r++) {
            row[r] = vf_load(w + r * next + at);
            if (AHEAD)
                __builtin_prefetch(w + r * next + k + at);
        }
        for (size_t a = 0; a < M; a++) {
            vf v = vf_load(x + a * t->ldx + at);
            for (size_t r = 0; r < R; r++)
                sum[a][r] = vf_fma(v, row[r], sum[a][r]);
        }
    }
    for (size_t a = 0; a < M && at < k; a++) {
        vf v = vf_load_n(x + a * t->ldx + at, k - at);
        for (size_t r = 0; r < R; r++)
            sum[a][r] = vf_fma(v, vf_load_n(w + r * next + at, k - at), sum[a][r]);
    }
    for (size_t a = 0; a < M; a++) {
        float out[BLOCK];
        if (R == BLOCK)
            vf_sum4(out, sum[a][0], sum[a][1], sum[a][2], sum[a][3]);
        else
            out[0] = vf_sum(sum[a][0]);
        float *y = t->y + (i + a) * t->ldy + j;
        for (size_t r = 0; r < R; r++)
            y[r * apart] = out[r] + (t->bias ? t->bias[j + r * apart] : 0);
    }
}

QKV_INLINE void rest(const job *t, size_t i, size_t j, size_t apart, const size_t R,
                     const bool AHEAD)
{
    size_t left = t->m - i;
    if (TILE == 4 && left == 3)
        dots(t, i, j, apart, TILE - 1, R, AHEAD);
    else if (TILE == 4 && left == 2)
        dots(t, i, j, apart, TILE / 2, R, AHEAD);
    else if (left == 1)
        dots(t, i, j, apart, 1, R, AHEAD);
}

/* All rows of x meet R rows of w. With one tile of them memory's own prefetching is enough; else it
 * pauses while more tiles meet rows of w that are in the cache. */
QKV_INLINE void meet(const job *t, size_t j, size_t apart, const size_t R)
{
    if (t->m < TILE) {
        rest(t, 0, j, apart, R, false);
        return;
    }
    dots(t, 0, j, apart, TILE, R, false);
    if (t->m < 2 * TILE) {
        rest(t, TILE, j, apart, R, true);
        return;
    }
    dots(t, TILE, j, apart, TILE, R, true);
    size_t i = 2 * TILE;
    for (; i + TILE <= t->m; i += TILE)
        dots(t, i, j, apart, TILE, R, false);
    rest(t, i, j, apart, R, false);
}

/* Rows j0 .. j0+rows-1 of w, as runs side by side and what is left. */
static void span(const job *t, size_t j0, size_t rows)
{
    size_t run = rows / BLOCK;
    for (size_t j = 0; j < run; j++)
        meet(t, j0 + j, run, BLOCK);
    for (size_t j = run * BLOCK; j < rows; j++)
        meet(t, j0 + j, 0, 1);
}

static void simd_gemv_gemv(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                           const float *w, const float *bias, size_t m, size_t n, size_t k)
{
    size_t team = m * n * k > worth_threads ? (size_t)e->threads : 1;
    const job t = {y, x, w, bias, ldy, ldx, m, n, k};
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, team)
    for (size_t p = 0; p < team; p++) {
        size_t from = t.n * p / team;
        span(&t, from, t.n * (p + 1) / team - from);
    }
}

void QKV_SIMD(qkv__kernels_gemv)(qkv_kernels *k)
{
    k->gemv = simd_gemv_gemv;
}
