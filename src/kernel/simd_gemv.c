/* simd_gemv.c - y = x w^T + bias for few rows of x, at the speed at which memory gives w.
 *
 * A block of BLOCK rows of w meets all rows of x at once, so w is read once. While one block is
 * worked on the next is prefetched: w is dense, so it lies right behind. */
#include "kernel/simd.h"

enum { BLOCK = 4, MOST = 8 }; /* rows of w at a time, rows of x at a time */
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, n, k;
} job;

/* y[0..M-1, j..j+R-1]. M and R are constants wherever this is inlined, so that the sums stay in
 * registers. */
static inline __attribute__((always_inline)) void dots(const job *t, size_t j, const size_t M,
                                                       const size_t R)
{
    const float *w = t->w + j * t->k;
    size_t k = t->k, i = 0;
    vf sum[MOST][BLOCK];
    for (size_t a = 0; a < M; a++) {
        for (size_t r = 0; r < R; r++) {
            sum[a][r] = vf_zero();
        }
    }
    for (; i + VF <= k; i += VF) {
        vf row[BLOCK];
        for (size_t r = 0; r < R; r++) {
            __builtin_prefetch(w + (r + R) * k + i);
            row[r] = vf_load(w + r * k + i);
        }
        for (size_t a = 0; a < M; a++) {
            vf x = vf_load(t->x + a * t->ldx + i);
            for (size_t r = 0; r < R; r++) {
                sum[a][r] = vf_fma(x, row[r], sum[a][r]);
            }
        }
    }
    for (size_t a = 0; a < M; a++) {
        vf x = vf_load_n(t->x + a * t->ldx + i, k - i);
        for (size_t r = 0; r < R; r++) {
            float y = vf_sum(vf_fma(x, vf_load_n(w + r * k + i, k - i), sum[a][r]));
            t->y[a * t->ldy + j + r] = y + (t->bias ? t->bias[j + r] : 0);
        }
    }
}

/* Rows j0 .. j0+rows-1 of w, R at a time. */
static inline __attribute__((always_inline)) void span(const job *t, size_t j0, size_t rows,
                                                       const size_t M, const size_t R)
{
    size_t j = j0;
    for (; j + R <= j0 + rows; j += R) {
        dots(t, j, M, R);
    }
    for (; j < j0 + rows; j++) {
        dots(t, j, M, 1);
    }
}

/* M R sums must fit the registers, of which AVX-512 has twice as many. */
enum { FEW = VF == 16 ? 4 : 2 };

static void span1(const job *t, size_t j, size_t rows) { span(t, j, rows, 1, BLOCK); }
static void span2(const job *t, size_t j, size_t rows) { span(t, j, rows, 2, BLOCK); }
static void span3(const job *t, size_t j, size_t rows) { span(t, j, rows, 3, FEW); }
static void span4(const job *t, size_t j, size_t rows) { span(t, j, rows, 4, FEW); }
static void span5(const job *t, size_t j, size_t rows) { span(t, j, rows, 5, 2); }
static void span6(const job *t, size_t j, size_t rows) { span(t, j, rows, 6, 2); }
static void span7(const job *t, size_t j, size_t rows) { span(t, j, rows, 7, FEW / 2); }
static void span8(const job *t, size_t j, size_t rows) { span(t, j, rows, 8, FEW / 2); }

typedef void span_fn(const job *t, size_t j, size_t rows);
static span_fn *const spans[MOST + 1] = {NULL, span1, span2, span3, span4,
                                         span5, span6, span7, span8};

static void gemv(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                 const float *w, const float *bias, size_t m, size_t n, size_t k)
{
    size_t blocks = (n + BLOCK - 1) / BLOCK;
    bool threaded = m * n * k > worth_threads;
    for (size_t i = 0; i < m; i += MOST) {
        size_t now = m - i < MOST ? m - i : MOST;
        const job t = {y + i * ldy, x + i * ldx, w, bias, ldy, ldx, n, k};
#pragma omp parallel for num_threads(e->threads) if (threaded) schedule(static) default(none)      \
    shared(t, blocks, now, spans)
        for (size_t b = 0; b < blocks; b++) {
            size_t j = b * BLOCK;
            spans[now](&t, j, t.n - j < BLOCK ? t.n - j : BLOCK);
        }
    }
}

void QKV_SIMD(qkv__kernels_gemv)(qkv_kernels *k)
{
    k->gemv = gemv;
}
