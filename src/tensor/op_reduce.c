/* op_reduce.c - sums and means: of everything, and over one axis. */
#include <string.h>

#include "tensor/tape.h"

/* ---- of everything ----------------------------------------------------------------------- */

static void total_backward(qkv_tape *t, const qkv__node *n)
{
    const double *factor = n->params;
    qkv_tensor *x = n->in[0];
    double g = *factor * qkv__grad_one(t, n);
    bool acc;
    qkv_real *dx = qkv__grad(t, x, &acc);
    if (dx)
        qkv__grad_fill(t, dx, x, g, acc);
}

static const qkv_op sum_op = {.name = "sum", .backward = total_backward};
static const qkv_op mean_op = {.name = "mean", .backward = total_backward};

static qkv_tensor *op_reduce_total(qkv_tape *t, const qkv_op *op, qkv_tensor *x, bool mean)
{
    if (!qkv__ready_contiguous(t, op->name, 1, &x))
        return NULL;
    size_t n = qkv_count(x);
    if (mean && n == 0)
        return qkv__op_fail(t, op->name, "%s has no elements", qkv__shape_text(t, x));
    double factor = mean ? 1.0 / (double)n : 1.0;
    qkv_tensor *y = qkv__new_item(t, factor * t->k->sum(&t->exec, qkv__real(x), n));
    return qkv__record(t, op, 1, &x, 1, &y, &factor, sizeof factor);
}

qkv_tensor *qkv_sum(qkv_tape *t, qkv_tensor *x) { return op_reduce_total(t, &sum_op, x, false); }
qkv_tensor *qkv_mean(qkv_tape *t, qkv_tensor *x) { return op_reduce_total(t, &mean_op, x, true); }

/* ---- over one axis ----------------------------------------------------------------------- */

static void mean_axis_backward(qkv_tape *t, const qkv__node *n)
{
    const int *axis = n->params;
    qkv_tensor *x = n->in[0];
    const qkv_tensor *y = n->out[0];
    bool acc;
    qkv_real *dx = qkv__grad(t, x, &acc);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *g = dx ? qkv__scratch(t, qkv_count(y)) : NULL;
    if (g) {
        t->k->axpy(&t->exec, g, qkv__grad_out(t, n, 0), 1.0 / (double)x->shape[*axis], false,
                   qkv_count(y));
        size_t from[QKV_MAX_DIMS]; /* y's strides, standing still along the axis */
        for (int i = 0; i < x->ndim; i++)
            from[i] = i == *axis ? 0 : y->stride[i - (i > *axis)];
        t->k->copy(&t->exec, dx, x->stride, g, from, x->shape, x->ndim, acc);
    }
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op mean_axis_op = {.name = "mean_axis", .backward = mean_axis_backward};

qkv_tensor *qkv_mean_axis(qkv_tape *t, qkv_tensor *x, int axis)
{
    if (!qkv__ready_contiguous(t, "mean_axis", 1, &x))
        return NULL;
    int a = axis < 0 ? axis + x->ndim : axis;
    if (a < 0 || a >= x->ndim || x->shape[a] == 0)
        return qkv__op_fail(t, "mean_axis", "no mean over axis %d of %s", axis,
                            qkv__shape_text(t, x));
    size_t shape[QKV_MAX_DIMS], outer = 1, inner = 1, length = x->shape[a];
    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < a; i++)
        outer *= x->shape[i];
    memmove(shape + a, shape + a + 1, (size_t)(QKV_MAX_DIMS - 1 - a) * sizeof *shape);
    qkv_tensor *y = qkv__new(t, QKV_REAL, x->ndim - 1, shape);
    if (!y)
        return NULL;
    for (int i = a + 1; i < x->ndim; i++)
        inner *= x->shape[i];
    for (size_t o = 0; o < outer; o++)
        t->k->sum_rows(&t->exec, qkv__real(y) + o * inner, qkv__real(x) + o * length * inner,
                       inner, false, length, inner);
    t->k->axpy(&t->exec, qkv__real(y), qkv__real(y), 1.0 / (double)length, false, qkv_count(y));
    return qkv__record(t, &mean_axis_op, 1, &x, 1, &y, &a, sizeof a);
}
