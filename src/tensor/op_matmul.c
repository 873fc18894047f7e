/* op_matmul.c - products of matrices, one or a batch of them.
 *
 * Operands may be strided views (heads of a packed projection, say): a matrix needs a contiguous
 * last axis, its rows and the leading axes may lie anywhere. */
#include "tensor/tape.h"

typedef struct {
    bool ta, tb;
    size_t M, N, K; /* y (M, N) = op(a) (M, K) op(b) (K, N) */
    size_t lda, ldb;
    int batch_dims;
    size_t batch, shape[QKV_MAX_DIMS];
    size_t step_a[QKV_MAX_DIMS], step_b[QKV_MAX_DIMS]; /* of the leading axes; 0: shared */
    bool shared_a, shared_b;                           /* one matrix for the whole batch */
} matmul_params;

static void offsets(const matmul_params *p, size_t i, size_t *a, size_t *b)
{
    *a = *b = 0;
    for (int d = p->batch_dims - 1; d >= 0; d--) {
        size_t at = i % p->shape[d];
        i /= p->shape[d];
        *a += at * p->step_a[d];
        *b += at * p->step_b[d];
    }
}

/* da = dy op(b)^T, transposed when a is. */
static void matmul_backward_a(qkv_tape *t, const matmul_params *p, qkv_real *da, bool acc,
                              const qkv_real *dy, const qkv_real *b)
{
    qkv_k_gemm_args plain = {false, !p->tb, acc, p->M, p->K, p->N, p->N, p->ldb, p->lda, NULL, 0};
    qkv_k_gemm_args turned = {p->tb, true, acc, p->K, p->M, p->N, p->ldb, p->N, p->lda, NULL, 0};
    if (p->ta)
        t->k->gemm(&t->exec, da, b, dy, &turned);
    else
        t->k->gemm(&t->exec, da, dy, b, &plain);
}

/* db = op(a)^T dy, transposed when b is. */
static void matmul_backward_b(qkv_tape *t, const matmul_params *p, qkv_real *db, bool acc,
                              const qkv_real *dy, const qkv_real *a)
{
    qkv_k_gemm_args plain = {!p->ta, false, acc, p->K, p->N, p->M, p->lda, p->N, p->ldb, NULL, 0};
    qkv_k_gemm_args turned = {true, p->ta, acc, p->N, p->K, p->M, p->N, p->lda, p->ldb, NULL, 0};
    if (p->tb)
        t->k->gemm(&t->exec, db, dy, a, &turned);
    else
        t->k->gemm(&t->exec, db, a, dy, &plain);
}

static void matmul_backward(qkv_tape *t, const qkv__node *n)
{
    const matmul_params *p = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    bool acc;
    for (int side = 0; side < 2; side++) {
        qkv_real *d = qkv__grad(t, n->in[side], &acc);
        bool shared = side ? p->shared_b : p->shared_a;
        for (size_t i = 0; d && i < p->batch; i++) {
            size_t oa, ob;
            offsets(p, i, &oa, &ob);
            bool add = acc || (shared && i > 0);
            const qkv_real *g = dy + i * p->M * p->N;
            if (side == 0)
                matmul_backward_a(t, p, d + oa, add, g, qkv__real(n->in[1]) + ob);
            else
                matmul_backward_b(t, p, d + ob, add, g, qkv__real(n->in[0]) + oa);
        }
    }
}

static const qkv_op matmul_op = {.name = "matmul", .backward = matmul_backward};

/* The row stride of x's matrices; 0 when x must be copied first. */
static size_t op_matmul_row_step(const qkv_tensor *x)
{
    size_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
    if (columns != 1 && x->stride[x->ndim - 1] != 1)
        return 0;
    return rows == 1 ? columns : x->stride[x->ndim - 2];
}

static qkv_tensor *with_rows(qkv_tape *t, qkv_tensor *x)
{
    return op_matmul_row_step(x) >= x->shape[x->ndim - 1] ? x : qkv_contiguous(t, x);
}

static bool leading_fit(const qkv_tensor *a, const qkv_tensor *b)
{
    if (a->ndim == 2 || b->ndim == 2)
        return true;
    bool fit = a->ndim == b->ndim;
    for (int i = 0; fit && i < a->ndim - 2; i++)
        fit = a->shape[i] == b->shape[i];
    return fit;
}

/* Sizes and strides; false when the shapes do not fit. */
static bool op_matmul_describe(matmul_params *p, const qkv_tensor *a, const qkv_tensor *b, bool ta,
                               bool tb)
{
    const size_t *sa = a->shape + a->ndim - 2, *sb = b->shape + b->ndim - 2;
    *p = (matmul_params){.ta = ta, .tb = tb, .M = sa[ta], .N = sb[!tb], .K = sa[!ta], .batch = 1};
    if (sb[tb] != p->K || !leading_fit(a, b))
        return false;
    p->lda = op_matmul_row_step(a);
    p->ldb = op_matmul_row_step(b);
    p->shared_a = a->ndim == 2;
    p->shared_b = b->ndim == 2;
    if (p->shared_b && !ta && qkv__is_contiguous(a)) { /* all of a's rows are one matrix */
        p->M = qkv__rows(a);
        return true;
    }
    const qkv_tensor *lead = p->shared_a ? b : a;
    p->batch_dims = lead->ndim - 2;
    for (int i = 0; i < p->batch_dims; i++) {
        p->shape[i] = lead->shape[i];
        p->batch *= lead->shape[i];
        p->step_a[i] = p->shared_a ? 0 : a->stride[i];
        p->step_b[i] = p->shared_b ? 0 : b->stride[i];
    }
    return true;
}

qkv_tensor *qkv_matmul(qkv_tape *t, qkv_tensor *a, bool transpose_a, qkv_tensor *b,
                       bool transpose_b)
{
    qkv_tensor *in[] = {a, b};
    if (!qkv__ready_reals(t, "matmul", 2, in))
        return NULL;
    matmul_params p;
    if (a->ndim >= 2 && b->ndim >= 2)
        for (int i = 0; i < 2; i++)
            if (!(in[i] = with_rows(t, in[i])))
                return NULL;
    if (a->ndim < 2 || b->ndim < 2 || !op_matmul_describe(&p, in[0], in[1], transpose_a,
                                                          transpose_b))
        return qkv__op_fail(t, "matmul", "%s%s and %s%s do not fit", qkv__shape_text(t, a),
                            transpose_a ? " transposed" : "", qkv__shape_text(t, b),
                            transpose_b ? " transposed" : "");
    const qkv_tensor *lead = a->ndim == 2 ? b : a;
    size_t shape[QKV_MAX_DIMS];
    for (int i = 0; i < lead->ndim - 2; i++)
        shape[i] = lead->shape[i];
    shape[lead->ndim - 2] = a->shape[a->ndim - 2 + transpose_a];
    shape[lead->ndim - 1] = p.N;
    qkv_tensor *y = qkv__new(t, QKV_REAL, lead->ndim, shape);
    if (!y)
        return NULL;
    for (size_t i = 0; i < p.batch; i++) {
        size_t oa, ob;
        offsets(&p, i, &oa, &ob);
        t->k->gemm(&t->exec, qkv__real(y) + i * p.M * p.N, qkv__real(in[0]) + oa,
                   qkv__real(in[1]) + ob,
                   &(qkv_k_gemm_args){p.ta, p.tb, false, p.M, p.N, p.K, p.lda, p.ldb, p.N, NULL,
                                      0});
    }
    return qkv__record(t, &matmul_op, 2, in, 1, &y, &p, sizeof p);
}
