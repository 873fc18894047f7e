/* gemm_dnnl.c - matrix products from oneDNN. */
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>

#include "kernel/kernel.h"

static qkv_k_gemm_fn *reference; /* for what oneDNN refuses; the same for every table */

/* c (m, n) = [c +] bias. */
static void add_bias(const qkv_exec *e, float *c, const qkv_k_gemm_args *args)
{
    const float *bias = args->bias;
    size_t m = args->m, n = args->n, ldc = args->ldc;
    bool acc = args->acc, threaded = m * n > 1u << 14;
#pragma omp parallel for num_threads(e->threads) if (threaded) schedule(static) default(none)      \
    shared(c, bias, m, n, ldc, acc)
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            c[i * ldc + j] = acc ? c[i * ldc + j] + bias[j] : bias[j];
        }
    }
}

static void gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                 const qkv_k_gemm_args *args)
{
    if (args->m == 0 || args->n == 0 || args->k == 0) {
        reference(e, c, a, b, args);
        return;
    }
    if (args->bias) {
        add_bias(e, c, args);
    }
    int team = omp_get_max_threads();
    omp_set_num_threads(e->threads);
    dnnl_status_t status =
        dnnl_sgemm(args->ta ? 'T' : 'N', args->tb ? 'T' : 'N', (dnnl_dim_t)args->m,
                   (dnnl_dim_t)args->n, (dnnl_dim_t)args->k, 1.0f, a, (dnnl_dim_t)args->lda, b,
                   (dnnl_dim_t)args->ldb, args->acc || args->bias ? 1.0f : 0.0f, c,
                   (dnnl_dim_t)args->ldc);
    omp_set_num_threads(team);
    if (status != dnnl_success) {
        qkv_k_gemm_args again = *args;
        again.acc = args->acc || args->bias;
        again.bias = NULL;
        reference(e, c, a, b, &again);
    }
}

void qkv__kernels_dnnl(qkv_kernels *k)
{
    reference = k->gemm;
    k->gemm = gemm;
}
