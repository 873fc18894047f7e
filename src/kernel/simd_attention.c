/* simd_attention.c - which path an attention takes. */
#include "kernel/simd_attention_parts.h"

static void simd_attention_attention(const qkv_exec *e, float *out, float *lse, const float *q,
                                     const float *k, const float *v, const attention_args *a)
{
    bool few = !(a->dropout.p > 0);
    for (size_t b = 0; b < a->B; b++) {
        few = few && a->q_len[b] <= FEW;
    }
    (few ? attention_few : attention_tiled)(e, out, lse, q, k, v, a);
}

void QKV_SIMD(qkv__kernels_attention)(qkv_kernels *k)
{
    k->attention = simd_attention_attention;
    k->attention_bwd = attention_backward;
    k->attention_rows = attention_weights;
    k->attention_stored = attention_few_stored;
}
