/* blas.cu - products by cuBLASLt: descriptors and the library's choice of a way, found once for
 * each kind of product and kept. */
#include "kernel/cuda/blas.cuh"

#ifdef QKV_CUDA_EMULATED

#include <vector>

/* The emulator's library: sums of rows, on the host, whose memory the device's is. */
template <typename C, typename T>
static bool host_multiply(C *c, const T *a, const T *b, const blas_product *p)
{
    if (p->k < 2) /* these are the plain kernel's */
        return false;
    std::vector<float> row(p->n);
    const C *bias = (const C *)p->bias;
    (void)cuda_stream(); /* what waits for it goes first */
    for (size_t i = 0; i < p->m; i++) {
        C *to = c + i * p->ldc;
        for (size_t j = 0; j < p->n; j++)
            row[j] = (p->acc ? blas_number(to[j]) : 0) + (bias ? blas_number(bias[j]) : 0);
        for (size_t l = 0; l < p->k && !p->tb; l++) {
            const float x = blas_number(a[p->ta ? l * p->lda + i : i * p->lda + l]);
            for (size_t j = 0; j < p->n; j++)
                row[j] += x * blas_number(b[l * p->ldb + j]);
        }
        for (size_t j = 0; j < p->n && p->tb; j++) {
            float sums[8] = {0};
            for (size_t l = 0; l < p->k; l++)
                sums[l % 8] += blas_number(a[p->ta ? l * p->lda + i : i * p->lda + l]) *
                               blas_number(b[j * p->ldb + l]);
            row[j] += ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                      ((sums[4] + sums[5]) + (sums[6] + sums[7]));
        }
        for (size_t j = 0; j < p->n; j++)
            blas_store(to + j, row[j]);
    }
    return true;
}

bool blas_multiply(float *c, const float *a, const float *b, const blas_product *p)
{
    return host_multiply(c, a, b, p);
}

bool blas_multiply(float *c, const bf16 *a, const bf16 *b, const blas_product *p)
{
    return host_multiply(c, a, b, p);
}

bool blas_multiply(bf16 *c, const bf16 *a, const bf16 *b, const blas_product *p)
{
    return host_multiply(c, a, b, p);
}

#else

#include <cublasLt.h>

#include <cstring>
#include <map>
#include <mutex>

enum { WORKSPACE = 64 << 20, ALIGNMENT = 256 };

/* All that the choice of a way depends on. Compared byte by byte: cleared before it is filled. */
struct key {
    size_t m, n, k, lda, ldb, ldc;
    unsigned align_a, align_b, align_c;
    bool ta, tb, acc, bias;
    cudaDataType_t in, out; /* types of a and b, and of c */
    bool operator<(const key &other) const { return memcmp(this, &other, sizeof other) < 0; }
};

struct plan {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t way;
    bool serves;
};

static std::mutex lock;
static std::map<key, plan> plans;
static cublasLtHandle_t handle;
static void *workspace;

static bool ready(void)
{
    if (!handle && cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        handle = NULL;
    if (handle && !workspace && cudaMalloc(&workspace, WORKSPACE) != cudaSuccess) {
        (void)cudaGetLastError();
        workspace = NULL;
    }
    return handle && workspace;
}

static unsigned alignment(const void *p)
{
    unsigned a = ALIGNMENT;
    while ((uintptr_t)p % a)
        a /= 2;
    return a;
}

static void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, int32_t value)
{
    (void)cublasLtMatmulDescSetAttribute(d, what, &value, sizeof value);
}

static void prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what,
                   uint32_t value)
{
    (void)cublasLtMatmulPreferenceSetAttribute(p, what, &value, sizeof value);
}

/* The library's matrices are column-major: our row-major c is its turned one, and c' = b' a'. So
 * its first operand is b, its second a, and neither is turned once more. */
static plan make_plan(const key &k)
{
    plan p = {};
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    size_t bytes = WORKSPACE;
    cublasLtMatmulDescCreate(&p.product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, k.tb ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, k.ta ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (k.bias) {
        set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(p.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, k.out);
    }
    cublasLtMatrixLayoutCreate(&p.a, k.in, k.tb ? k.k : k.n, k.tb ? k.n : k.k, (int64_t)k.ldb);
    cublasLtMatrixLayoutCreate(&p.b, k.in, k.ta ? k.m : k.k, k.ta ? k.k : k.m, (int64_t)k.lda);
    cublasLtMatrixLayoutCreate(&p.c, k.out, k.n, k.m, (int64_t)k.ldc);
    cublasLtMatmulPreferenceCreate(&wish);
    (void)cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof bytes);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, k.align_b);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, k.align_a);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, k.align_c);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, k.align_c);
    if (k.out == CUDA_R_16BF) /* parts along k are added up in f32 */
        prefer(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
               CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    p.serves = cublasLtMatmulAlgoGetHeuristic(handle, p.product, p.a, p.b, p.c, p.c, wish, 1,
                                              &found, &count) == CUBLAS_STATUS_SUCCESS &&
               count > 0;
    p.way = found.algo;
    cublasLtMatmulPreferenceDestroy(wish);
    return p;
}

static bool library_multiply(void *c, const void *a, const void *b, const blas_product *q,
                             cudaDataType_t in, cudaDataType_t out)
{
    static const float one = 1, zero = 0;
    key k;
    memset(&k, 0, sizeof k);
    k.m = q->m, k.n = q->n, k.k = q->k, k.lda = q->lda, k.ldb = q->ldb, k.ldc = q->ldc;
    k.align_a = alignment(a), k.align_b = alignment(b), k.align_c = alignment(c);
    k.ta = q->ta, k.tb = q->tb, k.acc = q->acc, k.bias = q->bias != NULL;
    k.in = in, k.out = out;
    std::lock_guard<std::mutex> guard(lock);
    if (q->k == 0 || !ready())
        return false;
    std::map<key, plan>::iterator at = plans.find(k);
    if (at == plans.end())
        at = plans.emplace(k, make_plan(k)).first;
    plan &p = at->second;
    if (!p.serves)
        return false;
    if (q->bias)
        (void)cublasLtMatmulDescSetAttribute(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &q->bias, sizeof q->bias);
    p.serves = cublasLtMatmul(handle, p.product, &one, b, p.a, a, p.b, q->acc ? &one : &zero, c,
                              p.c, c, p.c, &p.way, workspace, WORKSPACE,
                              cuda_stream()) == CUBLAS_STATUS_SUCCESS;
    return p.serves;
}

bool blas_multiply(float *c, const float *a, const float *b, const blas_product *p)
{
    return library_multiply(c, a, b, p, CUDA_R_32F, CUDA_R_32F);
}

bool blas_multiply(float *c, const bf16 *a, const bf16 *b, const blas_product *p)
{
    return library_multiply(c, a, b, p, CUDA_R_16BF, CUDA_R_32F);
}

bool blas_multiply(bf16 *c, const bf16 *a, const bf16 *b, const blas_product *p)
{
    return library_multiply(c, a, b, p, CUDA_R_16BF, CUDA_R_16BF);
}

#endif
