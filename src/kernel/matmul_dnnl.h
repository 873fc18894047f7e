/* matmul_dnnl.h - products of bf16 operands from oneDNN. */
#ifndef QKV_MATMUL_DNNL_H
#define QKV_MATMUL_DNNL_H

#include "kernel/kernel.h"

/* c = [c +] op(a) op(b) as qkv_k_gemm_args says, without a bias, in the calling thread if the
 * library believes that it has no other. False, c untouched: the library refuses. */
bool qkv__matmul_dnnl(float *c, const uint16_t *a, const uint16_t *b, const qkv_k_gemm_args *args);

#endif
