/* ref_gemm.c - matrix products in plain C: the measure of every other product, and what is
 * left when there is no library. Blocks of op(b) are copied so that the inner loop runs over
 * dense rows; there is no register blocking and no tuning. */
#include "kernel/kernel.h"

/* c is computed in tiles of TILE_M x TILE_N, each by one thread, whose copy of a block of
 * op(b) (TILE_K x TILE_N) stays in the first-level cache in the float build. */
enum { TILE_M = 64, TILE_N = 128, TILE_K = 64, LANES = 8 };
static const size_t worth_threads = 1u << 16; /* multiplications that pay for waking a team */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* to (kn, TILE_N) = rows k0.. and columns j0.. of op(b); columns past jn are 0. */
static void copy_block(qkv_real *to, const qkv_real *b, const qkv_k_gemm_args *args, size_t k0,
                       size_t kn, size_t j0, size_t jn)
{
    size_t step_k = args->tb ? 1 : args->ldb, step_j = args->tb ? args->ldb : 1;
    const qkv_real *from = b + k0 * step_k + j0 * step_j;
    for (size_t kk = 0; kk < kn; kk++) {
        for (size_t j = 0; j < TILE_N; j++) {
            to[kk * TILE_N + j] = j < jn ? from[kk * step_k + j * step_j] : 0;
        }
    }
}

static void start_tile(qkv_real *c, const qkv_k_gemm_args *args, size_t i0, size_t in, size_t j0,
                       size_t jn)
{
    for (size_t i = i0; i < i0 + in; i++) {
        qkv_real *row = c + i * args->ldc;
        for (size_t j = j0; j < j0 + jn; j++) {
            qkv_real bias = args->bias ? args->bias[j] : 0;
            row[j] = args->acc ? row[j] + bias : bias;
        }
    }
}

/* c (jn) += a (kn; stride step_a) block (kn, TILE_N). */
static void ref_gemm_add_row(qkv_real *c, const qkv_real *a, size_t step_a, const qkv_real *block,
                             size_t kn, size_t jn)
{
    qkv_real sum[TILE_N] = {0};
    for (size_t kk = 0; kk < kn; kk++) {
        qkv_real x = a[kk * step_a];
        for (size_t j = 0; j < TILE_N; j++) {
            sum[j] += x * block[kk * TILE_N + j];
        }
    }
    for (size_t j = 0; j < jn; j++) {
        c[j] += sum[j];
    }
}

static void ref_gemm_tile(qkv_real *c, const qkv_real *a, const qkv_real *b,
                          const qkv_k_gemm_args *args, size_t i0, size_t j0)
{
    qkv_real block[TILE_K * TILE_N];
    size_t in = min_size(TILE_M, args->m - i0), jn = min_size(TILE_N, args->n - j0);
    size_t step_i = args->ta ? 1 : args->lda, step_k = args->ta ? args->lda : 1;
    start_tile(c, args, i0, in, j0, jn);
    for (size_t k0 = 0; k0 < args->k; k0 += TILE_K) {
        size_t kn = min_size(TILE_K, args->k - k0);
        copy_block(block, b, args, k0, kn, j0, jn);
        for (size_t i = i0; i < i0 + in; i++) {
            ref_gemm_add_row(c + i * args->ldc + j0, a + i * step_i + k0 * step_k, step_k, block,
                             kn, jn);
        }
    }
}

static void ref_gemm_gemm(const qkv_exec *e, qkv_real *c, const qkv_real *a, const qkv_real *b,
                          const qkv_k_gemm_args *args)
{
    size_t down = (args->m + TILE_M - 1) / TILE_M, across = (args->n + TILE_N - 1) / TILE_N;
    size_t tiles = down * across;
    bool threaded = tiles > 1 && args->m * args->n * args->k > worth_threads;
#pragma omp parallel for num_threads(e->threads) if (threaded) schedule(static) default(none)      \
    shared(c, a, b, args, tiles, across)
    for (size_t t = 0; t < tiles; t++) {
        ref_gemm_tile(c, a, b, args, t / across * TILE_M, t % across * TILE_N);
    }
}

/* <a, b>, in LANES sums that a compiler may put in one vector. */
static qkv_real ref_gemm_dot(const qkv_real *a, const qkv_real *b, size_t n)
{
    qkv_real lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lane[l] += a[i + l] * b[i + l];
        }
    }
    for (; i < n; i++) {
        sum += a[i] * b[i];
    }
    for (size_t l = 0; l < LANES; l++) {
        sum += lane[l];
    }
    return sum;
}

static void ref_gemm_gemv(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
                          const qkv_real *w, const qkv_real *bias, size_t m, size_t n, size_t k)
{
    bool threaded = m * n * k > worth_threads;
#pragma omp parallel for num_threads(e->threads) if (threaded) schedule(static) default(none)      \
    shared(y, ldy, x, ldx, w, bias, m, n, k)
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < m; i++) {
            y[i * ldy + j] = ref_gemm_dot(x + i * ldx, w + j * k, k) + (bias ? bias[j] : 0);
        }
    }
}

static void ref_gemm_pack(const qkv_exec *e, qkv_real *packed, const qkv_real *w, size_t n,
                          size_t k)
{
    size_t groups = (n + QKV_K_PACKED - 1) / QKV_K_PACKED;
#pragma omp parallel for num_threads(e->threads) if (n * k > worth_threads) schedule(static)       \
    default(none) shared(packed, w, n, k, groups)
    for (size_t g = 0; g < groups; g++) {
        qkv_real *to = packed + g * k * QKV_K_PACKED;
        const qkv_real *from = w + g * k * QKV_K_PACKED;
        size_t rows = min_size(QKV_K_PACKED, n - g * QKV_K_PACKED);
        for (size_t p = 0; p < k; p++) {
            for (size_t i = 0; i < QKV_K_PACKED; i++) {
                to[p * QKV_K_PACKED + i] = i < rows ? from[i * k + p] : 0;
            }
        }
    }
}

/* Row i of y in the columns of one group of w. */
static void packed_row(qkv_real *y, const qkv_real *x, const qkv_real *w, const qkv_real *bias,
                       size_t columns, size_t k)
{
    qkv_real sum[QKV_K_PACKED] = {0};
    for (size_t p = 0; p < k; p++) {
        for (size_t j = 0; j < QKV_K_PACKED; j++) {
            sum[j] += x[p] * w[p * QKV_K_PACKED + j];
        }
    }
    for (size_t j = 0; j < columns; j++) {
        y[j] = sum[j] + (bias ? bias[j] : 0);
    }
}

static void ref_gemm_packed(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x,
                            size_t ldx,
                            const qkv_real *w, const qkv_real *bias, size_t m, size_t n, size_t k)
{
    size_t groups = (n + QKV_K_PACKED - 1) / QKV_K_PACKED;
#pragma omp parallel for num_threads(e->threads) if (m * n * k > worth_threads) schedule(static)   \
    default(none) shared(y, ldy, x, ldx, w, bias, m, n, k, groups)
    for (size_t g = 0; g < groups; g++) {
        size_t j = g * QKV_K_PACKED;
        for (size_t i = 0; i < m; i++) {
            packed_row(y + i * ldy + j, x + i * ldx, w + j * k, bias ? bias + j : NULL,
                       min_size(QKV_K_PACKED, n - j), k);
        }
    }
}

void qkv__kernels_ref_gemm(qkv_kernels *k)
{
    k->gemm = ref_gemm_gemm;
    k->gemv = ref_gemm_gemv;
    k->pack = ref_gemm_pack;
    k->packed = ref_gemm_packed;
}
