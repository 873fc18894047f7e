/* op_linear.c - y = act(x W^T + b): product, bias and activation as one op.
 *
 * The value before the activation is kept for the backward pass; without an activation, or when
 * nothing is recorded, nothing is kept. A few rows without a tape (decoding) are bound by the
 * speed at which the weights are read and take their own kernel. Weights in fewer bits:
 * small_product.c. */
#include "tensor/param.h"
#include "tensor/tape.h"

enum { GEMV_ROWS = 32, PACKED_ROWS = 4 };

typedef struct {
    qkv_activation act;
    qkv_tensor *before; /* x W^T + b, or NULL without an activation */
} linear_params;

static void linear_backward(qkv_tape *t, const qkv__node *n)
{
    const linear_params *p = n->params;
    qkv_tensor *x = n->in[0], *w = n->in[1], *b = n->in[2], *y = n->out[0];
    size_t M = qkv__rows(x), K = qkv__channels(x), N = qkv__channels(y);
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    if (p->before) { /* the gradient before the activation, in place unless dy was asked for */
        bool asked = y->required || y->kept == t->pass;
        qkv_real *du = asked ? qkv__scratch(t, M * N) : (qkv_real *)(uintptr_t)dy;
        if (du)
            t->k->act_bwd(&t->exec, du, qkv__real(p->before), dy, (qkv_k_act)p->act, false, M * N);
        dy = du; /* without scratch the tape has failed, and nobody wants a gradient now */
    }
    bool acc;
    qkv_real *dx = qkv__grad(t, x, &acc);
    if (dx)
        t->k->gemm(&t->exec, dx, dy, qkv__real(w),
                   &(qkv_k_gemm_args){false, false, acc, M, K, N, N, K, K, NULL});
    qkv_real *dw = qkv__grad(t, w, &acc);
    if (dw)
        t->k->gemm(&t->exec, dw, dy, qkv__real(x),
                   &(qkv_k_gemm_args){true, false, acc, N, K, M, N, K, K, NULL});
    qkv_real *db = b ? qkv__grad(t, b, &acc) : NULL;
    if (db)
        t->k->sum_rows(&t->exec, db, dy, N, acc, M, N);
    qkv__arena_release(t->exec.scratch, mark);
}

/* y (M, N) = x (M, K) w^T + bias where no backward pass follows. */
static void infer(qkv_tape *t, qkv_real *y, const qkv_tensor *x, const qkv_tensor *w,
                  const qkv_real *bias, size_t M, size_t N, size_t K)
{
    const qkv_real *packed = NULL;
    if (t->pack && w->root == w && w->param && (M >= PACKED_ROWS || t->invariant) &&
        !qkv__param_packed(&packed, w->param, t->k, &t->exec, t->invariant))
        t->status = QKV_E_MEMORY;
    if (packed)
        t->k->packed(&t->exec, y, N, qkv__real(x), K, packed, bias, M, N, K);
    else if (t->invariant)
        for (size_t i = 0; i < M; i += GEMV_ROWS)
            t->k->gemv(&t->exec, y + i * N, N, qkv__real(x) + i * K, K, qkv__real(w), bias,
                       M - i < GEMV_ROWS ? M - i : GEMV_ROWS, N, K);
    else if (M <= GEMV_ROWS)
        t->k->gemv(&t->exec, y, N, qkv__real(x), K, qkv__real(w), bias, M, N, K);
    else
        t->k->gemm(&t->exec, y, qkv__real(x), qkv__real(w),
                   &(qkv_k_gemm_args){false, true, false, M, N, K, K, K, N, bias});
}

static const qkv_op linear_op = {"linear", linear_backward};

qkv_tensor *qkv_linear(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       qkv_activation act)
{
    qkv_tensor *in[] = {x, w, b};
    const qkv_k_small *small = qkv__small_of(t, "linear", w);
    if (!qkv__ready_product(t, "linear", in) || !qkv__known_act(t, "linear", act))
        return NULL;
    x = in[0];
    w = in[1];
    if (x->ndim < 1 || w->ndim != 2 || qkv__channels(x) != w->shape[1] ||
        (b && (b->ndim != 1 || b->shape[0] != w->shape[0])))
        return qkv__op_fail(t, "linear", "x %s, weight %s and bias %s do not fit",
                            qkv__shape_text(t, x), qkv__shape_text(t, w), qkv__shape_text(t, b));
    size_t shape[QKV_MAX_DIMS], M = qkv__rows(x), K = w->shape[1], N = w->shape[0];
    for (int i = 0; i < x->ndim; i++)
        shape[i] = x->shape[i];
    shape[x->ndim - 1] = N;
    qkv_tensor *y = qkv__new(t, QKV_REAL, x->ndim, shape);
    if (!y)
        return NULL;
    linear_params params = {act, NULL};
    bool recording = qkv__recording(t, 3, in);
    qkv_real *out = qkv__real(y);
    if (act != QKV_ACT_NONE && recording) {
        params.before = qkv__new_like(t, y);
        if (!params.before)
            return NULL;
        out = qkv__real(params.before);
    }
    const qkv_real *bias = b ? qkv__real(in[2]) : NULL;
    if (small)
        qkv__small_product(t, out, qkv__real(x), small, bias, M);
    else if (!recording)
        infer(t, out, x, w, bias, M, N, K);
    else
        t->k->gemm(&t->exec, out, qkv__real(x), qkv__real(w),
                   &(qkv_k_gemm_args){false, true, false, M, N, K, K, K, N, bias});
    if (act != QKV_ACT_NONE)
        t->k->act(&t->exec, qkv__real(y), out, (qkv_k_act)act, M * N);
    return qkv__record(t, &linear_op, 3, in, 1, &y, &params, sizeof params);
}
