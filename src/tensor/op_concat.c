/* op_concat.c - tensors one after another along an axis. */
#include <string.h>

#include "tensor/tape.h"

static void concat_backward(qkv_tape *t, const qkv__node *n)
{
    const int *axis = n->params;
    const size_t *stride = n->out[0]->stride;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    for (int i = 0; i < n->n_in; i++) {
        qkv_tensor *x = n->in[i];
        bool acc;
        qkv_real *dx = qkv__grad(t, x, &acc);
        if (dx)
            t->k->copy(&t->exec, dx, x->stride, dy, stride, x->shape, x->ndim, acc);
        dy += x->shape[*axis] * stride[*axis];
    }
}

static const qkv_op concat_op = {.name = "concat", .backward = concat_backward};

/* Fails the tape unless all parts have the first one's shape but for the axis. */
static bool parts_fit(qkv_tape *t, int a, int n, qkv_tensor *const *parts)
{
    for (int i = 1; i < n; i++) {
        bool fit = parts[i]->ndim == parts[0]->ndim;
        for (int d = 0; fit && d < parts[0]->ndim; d++)
            fit = d == a || parts[i]->shape[d] == parts[0]->shape[d];
        if (!fit)
            return qkv__op_fail(t, "concat", "part %d, %s, does not fit part 0, %s, along axis %d",
                                i, qkv__shape_text(t, parts[i]), qkv__shape_text(t, parts[0]),
                                a) != NULL;
    }
    return true;
}

qkv_tensor *qkv_concat(qkv_tape *t, int axis, int n, qkv_tensor *const *parts)
{
    if (n < 1)
        return qkv__op_fail(t, "concat", "no parts");
    if (!qkv__ready_reals(t, "concat", n, parts))
        return NULL;
    int a = axis < 0 ? axis + parts[0]->ndim : axis;
    if (a < 0 || a >= parts[0]->ndim)
        return qkv__op_fail(t, "concat", "%s has no axis %d", qkv__shape_text(t, parts[0]), axis);
    if (!parts_fit(t, a, n, parts))
        return NULL;
    size_t shape[QKV_MAX_DIMS];
    memcpy(shape, parts[0]->shape, sizeof shape);
    for (int i = 1; i < n; i++)
        shape[a] += parts[i]->shape[a];
    qkv_tensor *y = qkv__new(t, QKV_REAL, parts[0]->ndim, shape);
    if (!y)
        return NULL;
    qkv_real *to = qkv__real(y);
    for (int i = 0; i < n; i++) {
        const qkv_tensor *x = parts[i];
        t->k->copy(&t->exec, to, y->stride, qkv__real(x), x->stride, x->shape, x->ndim, false);
        to += x->shape[a] * y->stride[a];
    }
    return qkv__record(t, &concat_op, n, parts, 1, &y, &a, sizeof a);
}
