/* tensor.c - making tensors. */
#include <string.h>

#include "tensor/param.h"
#include "tensor/tape.h"

size_t qkv__dtype_size(qkv_dtype dtype)
{
    return dtype == (qkv_dtype)QKV__ROUNDED ? sizeof(uint16_t)
           : dtype == QKV_REAL              ? sizeof(qkv_real)
                                            : sizeof(int32_t);
}

int qkv_ndim(const qkv_tensor *x) { return x->ndim; }
qkv_dtype qkv_tensor_dtype(const qkv_tensor *x)
{
    return qkv__is_rounded(x) ? QKV_REAL : x->dtype;
}

size_t qkv_dim(const qkv_tensor *x, int axis)
{
    if (axis < 0)
        axis += x->ndim;
    return axis >= 0 && axis < x->ndim ? x->shape[axis] : 1;
}

size_t qkv_count(const qkv_tensor *x)
{
    size_t n = 1;
    for (int i = 0; i < x->ndim; i++)
        n *= x->shape[i];
    return n;
}

size_t qkv__rows(const qkv_tensor *x)
{
    size_t n = 1;
    for (int i = 0; i + 1 < x->ndim; i++)
        n *= x->shape[i];
    return n;
}

bool qkv__same_shape(const qkv_tensor *a, const qkv_tensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

bool qkv__is_vector(const qkv_tensor *w, size_t n)
{
    return !w || (w->dtype == QKV_REAL && w->ndim == 1 && w->shape[0] == n &&
                  qkv__is_contiguous(w));
}

bool qkv__is_contiguous(const qkv_tensor *x)
{
    size_t expected = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->shape[i] != 1 && x->stride[i] != expected)
            return false;
        expected *= x->shape[i];
    }
    return true;
}

static void contiguous_strides(qkv_tensor *x)
{
    size_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        x->stride[i] = stride;
        stride *= x->shape[i];
    }
}

qkv_tensor *qkv__new_over(qkv_tape *t, qkv_dtype dtype, void *data, int ndim,
                          const size_t *shape)
{
    if (t->status)
        return NULL;
    if (ndim < 0 || ndim > QKV_MAX_DIMS)
        return qkv__op_fail(t, "tensor", "%d dimensions; at most %d are possible", ndim,
                            QKV_MAX_DIMS);
    size_t count = qkv__dtype_size(dtype);
    for (int i = 0; i < ndim; i++)
        if (!qkv__mul_size(count, shape[i], &count))
            return qkv__op_fail(t, "tensor", "more elements than memory has addresses");
    qkv_tensor *x = qkv__step_alloc(t, sizeof *x);
    if (!x)
        return NULL;
    memset(x, 0, sizeof *x);
    x->dtype = dtype;
    x->ndim = ndim;
    if (ndim)
        memcpy(x->shape, shape, (size_t)ndim * sizeof *shape);
    contiguous_strides(x);
    x->data = data ? data : qkv__step_memory(t, count);
    x->root = x;
    x->part = QKV__WHOLE;
    x->region = t->region;
    return x->data ? x : NULL;
}

qkv_tensor *qkv__new(qkv_tape *t, qkv_dtype dtype, int ndim, const size_t *shape)
{
    return qkv__new_over(t, dtype, NULL, ndim, shape);
}

qkv_tensor *qkv__new_like(qkv_tape *t, const qkv_tensor *x)
{
    return qkv__new_over(t, x->dtype, NULL, x->ndim, x->shape);
}

static bool was_used(const qkv_tape *t, const qkv_param *p)
{
    return p->leaf_tape == t && p->leaf_epoch == t->epoch && p->leaf->uses > 0;
}

/* What is lent may lie where gradients of parameters will be that have been used. */
static void lower_floor(const qkv_tape *t, qkv__lending *l)
{
    qkv_param *const *list = qkv__params_list(l->owner);
    const size_t count = qkv_params_count(l->owner);
    for (; l->next < count; l->next++) {
        const qkv_param *p = list[l->next];
        if (!qkv__lend_has(l, p->grad))
            continue;
        if (p->has_grad || !was_used(t, p))
            break;
        l->floor = (size_t)((const char *)p->grad - l->begin);
    }
}

qkv_tensor *qkv__new_inner(qkv_tape *t, qkv_dtype dtype, int ndim, const size_t *shape)
{
    size_t bytes = qkv__dtype_size(dtype);
    void *data = NULL;
    for (int i = 0; i < ndim; i++)
        bytes *= shape[i];
    if (t->lender && t->record && !t->region && !t->probes &&
        qkv__params_lay_out_grads(t->lender->owner)) {
        lower_floor(t, t->lender);
        data = qkv__lend_take(t->lender, bytes);
    }
    return qkv__new_over(t, dtype, data, ndim, shape);
}

/* Of few numbers the memory is worth less than what a card gains by doing neighbouring kernels at
 * once, which it cannot where one writes what all of another reads. */
void qkv__spend(qkv_tape *t, qkv_tensor *x)
{
    enum { FEW_NUMBERS = 1 << 15 };
    const bool worth = x && (!t->device->products || qkv_count(x) > FEW_NUMBERS);
    if (worth && !t->probes)
        x->spent = x->root == x && !x->param && !x->remade;
}

qkv_tensor *qkv__new_in_place(qkv_tape *t, const qkv_tensor *x)
{
    return qkv__new_over(t, x->dtype, x->spent ? x->data : NULL, x->ndim, x->shape);
}

qkv_tensor *qkv__view(qkv_tape *t, qkv_tensor *x, int ndim, const size_t *shape,
                      const size_t *stride, size_t offset, int part)
{
    qkv_tensor *y = qkv__step_alloc(t, sizeof *y);
    if (!y)
        return NULL;
    memset(y, 0, sizeof *y);
    y->dtype = x->dtype;
    y->ndim = ndim;
    if (ndim) {
        memcpy(y->shape, shape, (size_t)ndim * sizeof *shape);
        memcpy(y->stride, stride, (size_t)ndim * sizeof *stride);
    }
    y->data = (char *)x->data + offset * qkv__dtype_size(x->dtype);
    y->root = x->root;
    y->offset = x->offset + offset;
    y->part = part;
    y->region = t->region;
    return y;
}

qkv_tensor *qkv__copy(qkv_tape *t, const qkv_tensor *x)
{
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(x) ? 2 : 0);
    qkv__arrive(t, x->root);
    qkv_tensor *y = qkv__new(t, QKV_REAL, x->ndim, x->shape);
    if (y)
        t->k->copy(&e, qkv__real(y), y->stride, qkv__real(x), x->stride, x->shape, x->ndim, false);
    return y;
}

/* A leaf made earlier in this step that trains, or does not: a parameter may be frozen and
 * thawed between its uses, but two leaves that train would overwrite each other's gradient. */
static qkv_tensor *find_leaf(qkv_tape *t, const qkv_param *p, bool trains)
{
    if (p->leaf_tape != t || p->leaf_epoch != t->epoch)
        return NULL;
    if (p->leaf->trains == trains)
        return p->leaf;
    for (qkv_tensor *x = t->leaves; x; x = x->next_leaf)
        if (x->param == p && x->trains == trains)
            return x;
    return NULL;
}

/* Does p train? In a region that runs again: did it when that ran first? */
static bool leaf_trains(const qkv_tape *t, const qkv_param *p)
{
    bool found = false;
    if (!t->again)
        return !p->frozen;
    for (int i = 0; i < t->again->n_in && !found; i++)
        found = t->again->in[i]->param == p;
    return found;
}

qkv_tensor *qkv_use(qkv_tape *t, qkv_param *p)
{
    if (t->status)
        return NULL;
    bool trains = leaf_trains(t, p);
    qkv_tensor *x = find_leaf(t, p, trains);
    if (x)
        return x;
    bool small = p->weights != QKV_WEIGHTS_F32;
    qkv__arena *host = t->host;
    if (t->record)
        t->host = t->kept.host; /* remembered, so it outlives a region */
    x = qkv__new_over(t, QKV_REAL, small ? p->small.words : (void *)p->data, p->ndim, p->shape);
    t->host = host;
    if (!x)
        return NULL;
    if (small)
        x->dtype = (qkv_dtype)QKV__SMALL;
    x->param = p;
    if (!t->record)
        return x; /* not remembered: it may lie in a scope that ends before the step does */
    x->needs_grad = x->trains = trains;
    if (trains && qkv__params_lending(p->owner))
        qkv__lend_begin(qkv__params_lending(p->owner), &t->lender);
    x->region = 0;
    x->next_leaf = t->leaves;
    t->leaves = x;
    p->leaf_tape = t;
    p->leaf_epoch = t->epoch;
    p->leaf = x;
    return x;
}

uint64_t qkv__version_of(const qkv_tensor *x)
{
    return x->root->param ? x->root->param->version : 0;
}

qkv_tensor *qkv_require_grad(qkv_tape *t, qkv_tensor *x)
{
    if (!x || t->status)
        return NULL;
    if (t->region && x->root->region)
        return qkv__op_fail(t, "require_grad", "%s is computed again for the backward pass, so its "
                            "gradient does not outlive that; ask outside qkv_recompute",
                            qkv__shape_text(t, x));
    x->root->needs_grad = true;
    x->root->required = true;
    return x;
}
