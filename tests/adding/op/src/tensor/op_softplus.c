/* op_softplus.c - log(1 + e^x), a ReLU without its kink: its slope is the logistic function. */
#include "tensor/tape.h"

static void softplus_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_tensor *x = n->in[0];
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->softplus_bwd(&t->exec, dx, qkv__real(x), qkv__grad_out(t, n, 0), acc, qkv_count(x));
}

static const qkv_op softplus_op = {.name = "softplus", .backward = softplus_backward};

qkv_tensor *qkv_softplus(qkv_tape *t, qkv_tensor *x)
{
    if (!qkv__ready_contiguous(t, "softplus", 1, &x))
        return NULL;
    qkv_tensor *y = qkv__new_like(t, x);
    if (!y)
        return NULL;
    t->k->softplus(&t->exec, qkv__real(y), qkv__real(x), qkv_count(x));
    return qkv__record(t, &softplus_op, 1, &x, 1, &y, NULL, 0);
}
