/* simd_gemv.c - y = x w^T + bias for few rows of x, at the speed at which memory gives w.
 *
 * A few rows of w at a time meet all rows of x, so w is read once. These rows are not neighbours:
 * a thread cuts its part of w into as many runs and goes through them side by side, each from one
 * end to the other. So the processor sees a few long streams and fetches ahead by itself: 57 GB/s
 * on two cores of Zen 4 that read memory at 60, where neighbouring rows, 3 KB each, gave 35. */
#include "kernel/simd.h"

enum { BLOCK = 4, MOST = 8 }; /* most rows of w at a time, rows of x at a time */
static const size_t worth_threads = 1u << 15; /* multiplications that pay for waking a team */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    size_t ldy, ldx, n, k;
} job;

/* y[0..M-1, j + r apart] for r < R. M and R are constants wherever this is inlined, so that the
 * sums stay in registers. */
QKV_INLINE void dots(const job *t, size_t j, size_t apart, const size_t M, const size_t R)
{
    const float *w = t->w + j * t->k;
    size_t k = t->k, next = apart * k, i = 0;
    vf sum[MOST][BLOCK];
    for (size_t a = 0; a < M; a++) {
        for (size_t r = 0; r < R; r++) {
            sum[a][r] = vf_zero();
        }
    }
    for (; i + VF <= k; i += VF) {
        vf row[BLOCK];
        for (size_t r = 0; r < R; r++) {
            row[r] = vf_load(w + r * next + i);
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
            size_t at = j + r * apart;
            float y = vf_sum(vf_fma(x, vf_load_n(w + r * next + i, k - i), sum[a][r]));
            t->y[a * t->ldy + at] = y + (t->bias ? t->bias[at] : 0);
        }
    }
}

/* Rows j0 .. j0+rows-1 of w, as R runs side by side and what is left. */
QKV_INLINE void span(const job *t, size_t j0, size_t rows, const size_t M, const size_t R)
{
    size_t run = rows / R;
    for (size_t j = 0; j < run; j++) {
        dots(t, j0 + j, run, M, R);
    }
    for (size_t j = run * R; j < rows; j++) {
        dots(t, j0 + j, 0, M, 1);
    }
}

/* M R sums must fit the registers, of which AVX-512 has twice as many. */
enum { FEW = VF == 16 ? 4 : 2, FEWER = VF == 16 ? 3 : 1 };

static void span1(const job *t, size_t j, size_t rows) { span(t, j, rows, 1, BLOCK); }
static void span2(const job *t, size_t j, size_t rows) { span(t, j, rows, 2, BLOCK); }
static void span3(const job *t, size_t j, size_t rows) { span(t, j, rows, 3, FEW); }
static void span4(const job *t, size_t j, size_t rows) { span(t, j, rows, 4, FEW); }
static void span5(const job *t, size_t j, size_t rows) { span(t, j, rows, 5, FEW); }
static void span6(const job *t, size_t j, size_t rows) { span(t, j, rows, 6, FEW); }
static void span7(const job *t, size_t j, size_t rows) { span(t, j, rows, 7, FEWER); }
static void span8(const job *t, size_t j, size_t rows) { span(t, j, rows, 8, FEWER); }

typedef void span_fn(const job *t, size_t j, size_t rows);
static span_fn *const spans[MOST + 1] = {NULL, span1, span2, span3, span4,
                                         span5, span6, span7, span8};

static void gemv(const qkv_exec *e, float *y, size_t ldy, const float *x, size_t ldx,
                 const float *w, const float *bias, size_t m, size_t n, size_t k)
{
    size_t team = m * n * k > worth_threads ? (size_t)e->threads : 1;
    for (size_t i = 0; i < m; i += MOST) {
        size_t now = m - i < MOST ? m - i : MOST;
        const job t = {y + i * ldy, x + i * ldx, w, bias, ldy, ldx, n, k};
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(t, team, now, spans)
        for (size_t p = 0; p < team; p++) {
            size_t from = t.n * p / team;
            spans[now](&t, from, t.n * (p + 1) / team - from);
        }
    }
}

void QKV_SIMD(qkv__kernels_gemv)(qkv_kernels *k)
{
    k->gemv = gemv;
}
