/* simd_product.c - register-blocked products on small operands that lie in cache. */
#include "kernel/simd_product.h"

/* Element (r, p) of a is at a + r * ar + p * ak. m and nv are constants wherever this is
 * inlined, so acc lives in registers. */
static inline __attribute__((always_inline)) void micro(float *c, size_t ldc, const float *a,
                                                        size_t ar, size_t ak, const float *b,
                                                        size_t ldb, const size_t m,
                                                        const size_t nv, size_t k,
                                                        const float *alpha)
{
    vf acc[MR][NV];
    QKV_UNROLL
    for (size_t r = 0; r < m; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < nv; v++) {
            acc[r][v] = vf_zero();
        }
    }
    QKV_UNROLL_4 /* a short loop's end is foreseen: the next block's products begin behind it */
    for (size_t p = 0; p < k; p++) {
        vf row[NV];
        QKV_UNROLL
        for (size_t v = 0; v < nv; v++) {
            row[v] = vf_load(b + p * ldb + v * VF);
        }
        QKV_UNROLL
        for (size_t r = 0; r < m; r++) {
            vf x = vf_set1(a[r * ar + p * ak]);
            QKV_UNROLL
            for (size_t v = 0; v < nv; v++) {
                acc[r][v] = vf_fma(x, row[v], acc[r][v]);
            }
        }
    }
    QKV_UNROLL
    for (size_t r = 0; r < m; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < nv; v++) {
            float *y = c + r * ldc + v * VF;
            vf_store(y, alpha ? vf_fma(vf_set1(alpha[r]), vf_load(y), acc[r][v]) : acc[r][v]);
        }
    }
}

#define SIZE(m, nv)                                                        \
    case (m) * 8 + (nv):                                                   \
        micro(c, ldc, a, ar, ak, b, ldb, m, nv, k, alpha);                 \
        break;
#define HEIGHTS(nv) SIZE(1, nv) SIZE(2, nv) SIZE(3, nv) SIZE(4, nv) SIZE(5, nv) SIZE(6, nv)
#if defined(QKV_SIMD_avx2)
#define SIZES HEIGHTS(1) HEIGHTS(2)
#else
#define SIZES HEIGHTS(1) HEIGHTS(2) HEIGHTS(3) HEIGHTS(4)
#endif

/* As many vectors of columns at a time as registers hold. ak, and perhaps ar, is a constant
 * wherever this is inlined. */
QKV_INLINE void product(float *c, size_t ldc, const float *a, size_t ar, size_t ak, const float *b,
                        size_t ldb, size_t m, size_t nv, size_t k, const float *alpha)
{
    while (nv) {
        size_t n = at_most(nv, NV);
        switch (m * 8 + n) {
            SIZES
        }
        c += n * VF;
        b += n * VF;
        nv -= n;
    }
}

void product_rows(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                  size_t m, size_t nv, size_t k, const float *alpha)
{
    product(c, ldc, a, lda, 1, b, ldb, m, nv, k, alpha);
}

void product_columns(float *c, size_t ldc, const float *a, const float *b, size_t ldb, size_t m,
                     size_t nv, size_t k, const float *alpha)
{
    product(c, ldc, a, 1, ACROSS, b, ldb, m, nv, k, alpha);
}
