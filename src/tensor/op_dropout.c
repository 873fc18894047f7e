/* op_dropout.c - dropout, alone or with a residual added in the same pass.
 *
 * Nothing is remembered: the backward pass draws the same numbers again, from the seed, the
 * step, the site and the place of each element in the global batch. */
#include "tensor/tape.h"

static void dropout_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_k_dropout_args *args = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    size_t count = qkv_count(n->out[0]);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->dropout(&t->exec, dx, dy, NULL, acc, args, count);
    qkv_real *dresidual = qkv__grad(t, n->in[1], &acc);
    if (dresidual)
        t->k->axpy(&t->exec, dresidual, dy, 1.0, acc, count);
}

static const qkv_op dropout_op = {"dropout", dropout_backward};
static const qkv_op dropout_add_op = {"dropout_add", dropout_backward};

/* residual may be NULL. */
static qkv_tensor *drop(qkv_tape *t, const qkv_op *op, qkv_tensor *x, qkv_tensor *residual,
                        double p, uint32_t site)
{
    qkv_tensor *in[] = {qkv__dense_input(t, x), residual};
    if (residual)
        in[1] = qkv__dense_input(t, residual);
    if (t->status)
        return NULL;
    qkv_tensor *y = qkv__new_like(t, x);
    if (!y)
        return NULL;
    uint64_t row = qkv__first_row(t, qkv__rows(x), x->ndim ? x->shape[0] : 1);
    qkv_k_dropout_args args = {p, t->random.seed, t->random.step, row * qkv__channels(x), site};
    t->k->dropout(&t->exec, qkv__real(y), qkv__real(in[0]), residual ? qkv__real(in[1]) : NULL,
                  false, &args, qkv_count(x));
    return qkv__record(t, op, 2, in, 1, &y, &args, sizeof args);
}

static bool possible(qkv_tape *t, const char *op, double p)
{
    if (p >= 0 && p < 1)
        return true;
    qkv__op_fail(t, op, "the probability %g is not in [0, 1)", p);
    return false;
}

qkv_tensor *qkv_dropout(qkv_tape *t, qkv_tensor *x, double p, uint32_t site)
{
    if (!qkv__ready_reals(t, "dropout", 1, &x) || !possible(t, "dropout", p))
        return NULL;
    return t->train && p > 0 ? drop(t, &dropout_op, x, NULL, p, site) : x;
}

qkv_tensor *qkv_dropout_add(qkv_tape *t, qkv_tensor *x, qkv_tensor *residual, double p,
                            uint32_t site)
{
    qkv_tensor *in[] = {x, residual};
    if (!qkv__ready_reals(t, "dropout_add", 2, in) || !possible(t, "dropout_add", p))
        return NULL;
    if (!qkv__same_shape(x, residual))
        return qkv__op_fail(t, "dropout_add", "x is %s, the residual %s", qkv__shape_text(t, x),
                            qkv__shape_text(t, residual));
    return t->train && p > 0 ? drop(t, &dropout_add_op, x, residual, p, site)
                             : qkv_add(t, residual, x);
}
