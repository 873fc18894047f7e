/* attention_stored.cu - attention to caches whose shapes the kernels of few queries do not serve:
 * keys and values become reals in scratch memory first. */
#include <vector>

#include "kernel/cuda/attention_few.cuh"

static __global__ void reals_of(float *y, const void *x, const float *scale, size_t first,
                                    size_t n, int width)
{
    for (FOR_EACH(i, n)) {
        const size_t at = first * width + i;
        y[i] = scale ? (float)((const int8_t *)x)[at] * scale[at / width]
                     : __uint_as_float((unsigned)((const uint16_t *)x)[at] << 16);
    }
}

void att_stored_as_reals(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                            const qkv_k_stored *k, const qkv_k_stored *v,
                            const qkv_k_attention_args *a)
{
    qkv_k_attention_args reals = *a;
    std::vector<size_t> begin(a->B);
    size_t rows = 0;
    for (size_t b = 0; b < a->B; b++)
        begin[b] = rows, rows += a->k_len_full[b];
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *x = (float *)qkv__arena_alloc(e->scratch, (rows * a->Hkv * a->D + 1) * sizeof *x);
    float *y = (float *)qkv__arena_alloc(e->scratch, (rows * a->Hkv * a->Dv + 1) * sizeof *y);
    for (size_t b = 0; x && y && b < a->B; b++) {
        const size_t from = a->k_begin[b] * a->Hkv, to = begin[b] * a->Hkv;
        const size_t n = a->k_len_full[b] * a->Hkv;
        if (n == 0)
            continue;
        LAUNCH(reals_of, cuda_blocks(n * a->D), BLOCK, 0, x + to * a->D, k->data,
               k->kind == QKV_K_KV_INT8 ? k->scale : NULL, from, n * a->D, (int)a->D);
        LAUNCH(reals_of, cuda_blocks(n * a->Dv), BLOCK, 0, y + to * a->Dv, v->data,
               v->kind == QKV_K_KV_INT8 ? v->scale : NULL, from, n * a->Dv, (int)a->Dv);
    }
    reals.k_begin = begin.data();
    reals.k_row = a->Hkv * a->D, reals.k_head = a->D;
    reals.v_row = a->Hkv * a->Dv, reals.v_head = a->Dv;
    if (x && y)
        cuda_attention(e, out, lse, q, x, y, &reals);
    qkv__arena_release(e->scratch, mark);
}
