/* op_vector_quantize.c - the nearest code of a row; nothing is differentiated. */
#include "tensor/tape.h"

enum { PRODUCTS = 1 << 20 }; /* numbers at a time, about */

static void op_vector_quantize_find(qkv_tape *t, int32_t *id, const qkv_tensor *x,
                                    const qkv_tensor *codes)
{
    const qkv_kernels *k = qkv__kernels_of(t->ctx, false);
    const size_t N = qkv__rows(x), C = qkv__channels(x), K = codes->shape[0];
    size_t rows = PRODUCTS / K + 1;
    rows = rows < N ? rows : N;
    qkv_real *products = qkv__scratch(t, rows * K), *x2 = qkv__scratch(t, N);
    qkv_real *code2 = qkv__scratch(t, K);
    if (!products || !x2 || !code2)
        return;
    k->row_squares(&t->exec, x2, qkv__real(x), N, C);
    k->row_squares(&t->exec, code2, qkv__real(codes), K, C);
    for (size_t n = 0; n < N; n += rows) {
        size_t m = N - n < rows ? N - n : rows;
        const qkv_k_gemm_args g = {.tb = true, .m = m, .n = K, .k = C, .lda = C, .ldb = C,
                                   .ldc = K};
        k->gemm(&t->exec, products, qkv__real(x) + n * C, qkv__real(codes), &g);
        k->nearest(&t->exec, id + n, products, x2 + n, code2, m, K);
    }
}

qkv_tensor *qkv_vector_quantize(qkv_tape *t, qkv_tensor *x, qkv_tensor *codes)
{
    qkv_tensor *in[] = {x, codes};
    if (!qkv__ready_contiguous(t, "nearest", 2, in))
        return NULL;
    if (x->ndim < 1 || codes->ndim != 2 || codes->shape[1] != qkv__channels(x) ||
        !qkv_count(codes) || codes->shape[0] > INT32_MAX)
        return qkv__op_fail(t, "nearest", "x %s and codes %s do not fit", qkv__shape_text(t, x),
                            qkv__shape_text(t, codes));
    qkv_tensor *id = qkv__new(t, QKV_I32, x->ndim - 1, x->shape);
    if (!id)
        return NULL;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    op_vector_quantize_find(t, qkv__ids(id), in[0], in[1]);
    qkv__arena_release(t->exec.scratch, mark);
    return t->status ? NULL : id;
}
