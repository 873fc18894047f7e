/* simd_product.h - register-blocked products on small operands that lie in cache: of attention's
 * tiles, of convolutions (simd_product.c). */
#ifndef QKV_SIMD_PRODUCT_H
#define QKV_SIMD_PRODUCT_H

#include "kernel/simd.h"

enum {
    MR = 6,                /* rows of a register block */
    NV = VF == 8 ? 2 : 4,  /* its vectors: AVX2 has 16 registers, the others 32 */
    ACROSS = 64            /* row stride of what product_columns reads transposed */
};


/* c (m, n) = [alpha c +] a b for m <= MR rows; n = nv vectors. b (k, n), row stride ldb.
 * product_rows: a (m, k) with row stride lda. product_columns: a is stored (k, m), row stride
 * ACROSS. alpha (m): NULL stores the product. */
#define product_rows QKV_SIMD(qkv__product_rows)
#define product_columns QKV_SIMD(qkv__product_columns)
void product_rows(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                  size_t m, size_t nv, size_t k, const float *alpha);
void product_columns(float *c, size_t ldc, const float *a, const float *b, size_t ldb, size_t m,
                     size_t nv, size_t k, const float *alpha);

#endif
