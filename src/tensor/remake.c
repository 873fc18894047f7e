/* remake.c - tensors that a forward pass lets go and the backward pass computes again, one op at a
 * time: what is cheap to compute and large, as norms and activations are (Chen et al. 2016).
 *
 * They lie in an arena of their own, which is empty whenever none of them is needed: between the op
 * that makes one and qkv__let_go, and from the first op whose backward pass reads one to that of
 * the op that made it. */
#include "tensor/tape.h"

void qkv__for_products(qkv_tape *t, bool now)
{
    t->remaking = now && t->record && !t->probes && !t->device->keeps;
    t->rounding = now && qkv__rounds(t);
}

bool qkv__rounds(const qkv_tape *t)
{
    return (t->record || t->paused) && !t->probes && t->device->rounds &&
           qkv__context_products(t->ctx) == QKV__PRODUCTS_BF16;
}

qkv_dtype qkv__dtype_of_output(const qkv_tape *t, int n, qkv_tensor *const *in)
{
    const bool rounds = t->rounding && (t->paused || qkv__recording(t, n, in));
    return rounds ? (qkv_dtype)QKV__ROUNDED : QKV_REAL;
}

qkv_tensor *qkv__new_for_products(qkv_tape *t, int ndim, const size_t *shape, int n,
                                  qkv_tensor *const *in)
{
    const qkv_dtype dtype = qkv__dtype_of_output(t, n, in);
    return t->remaking && qkv__recording(t, n, in) ? qkv__new_inner(t, dtype, ndim, shape)
                                                   : qkv__new(t, dtype, ndim, shape);
}

static void *remade_memory(qkv_tape *t, size_t bytes)
{
    void *p = t->status ? NULL : qkv__arena_alloc(t->remade, bytes);
    if (p)
        t->remade_count++;
    else if (!t->status)
        t->status = QKV_E_MEMORY;
    return p;
}

qkv_tensor *qkv__new_remade(qkv_tape *t, int ndim, const size_t *shape, int n,
                            qkv_tensor *const *in)
{
    if (!t->remaking || !qkv__recording(t, n, in))
        return qkv__new(t, QKV_REAL, ndim, shape);
    size_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    void *data = remade_memory(t, count * sizeof(qkv_real));
    qkv_tensor *y = data ? qkv__new_over(t, QKV_REAL, data, ndim, shape) : NULL;
    if (y)
        y->remade = true;
    return y;
}

void qkv__let_go(qkv_tape *t, qkv_tensor *x)
{
    qkv_tensor *root = x ? x->root : NULL;
    if (!root || !root->maker || root->gone)
        return;
    root->gone = true;
    root->data = NULL;
    if (--t->remade_count == 0)
        qkv__arena_reset(t->remade);
}

void qkv__let_outputs_go(qkv_tape *t, const qkv__node *n)
{
    for (int i = 0; i < n->n_out; i++)
        qkv__let_go(t, n->out[i]);
}

void qkv__remake(qkv_tape *t, qkv_tensor *x)
{
    qkv_tensor *root = x ? x->root : NULL;
    if (!root || !root->maker)
        return;
    if (root->gone) {
        const qkv__node *n = root->maker;
        for (int i = 0; i < n->n_in; i++)
            qkv__remake(t, n->in[i]);
        root->data = remade_memory(t, qkv_count(root) * sizeof(qkv_real));
        root->gone = !root->data;
        if (root->data)
            n->op->again(t, n);
    }
    x->data = root->data ? (qkv_real *)root->data + x->offset : NULL;
}
