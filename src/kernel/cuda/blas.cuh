/* blas.cuh - products by cuBLASLt. */
#ifndef QKV_KERNEL_CUDA_BLAS_CUH
#define QKV_KERNEL_CUDA_BLAS_CUH

#include "kernel/cuda/cuda.cuh"

/* c (m, n) = [c +] op(a) (m, k) op(b) (k, n) [+ bias (n)], row-major as qkv_k_gemm_args. The bias
 * has the type of c. */
struct blas_product {
    bool ta, tb, acc;
    size_t m, n, k, lda, ldb, ldc;
    const void *bias;
};

static __device__ __forceinline__ float blas_number(float x) { return x; }
static __device__ __forceinline__ float blas_number(bf16 x) { return __bfloat162float(x); }

static __device__ __forceinline__ void blas_store(float *p, float x) { *p = x; }
static __device__ __forceinline__ void blas_store(bf16 *p, float x) { *p = __float2bfloat16_rn(x); }

/* False: the library has no way to do this, and nothing was done. */
bool blas_multiply(float *c, const float *a, const float *b, const blas_product *p);
bool blas_multiply(float *c, const bf16 *a, const bf16 *b, const blas_product *p);
bool blas_multiply(bf16 *c, const bf16 *a, const bf16 *b, const blas_product *p);

/* By the library or the plain kernel (gemm.cu), of operands that are bf16 already. */
void multiply_rounded(float *c, const bf16 *a, const bf16 *b, const blas_product &p);

#endif
