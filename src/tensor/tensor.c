/* tensor.c - making tensors and reading them. */
#include <math.h>
#include <string.h>

#include "tensor/param.h"
#include "tensor/tape.h"

size_t qkv__dtype_size(qkv_dtype dtype)
{
    return dtype == QKV_REAL ? sizeof(qkv_real) : sizeof(int32_t);
}

int qkv_ndim(const qkv_tensor *x) { return x->ndim; }
qkv_dtype qkv_tensor_dtype(const qkv_tensor *x) { return x->dtype; }

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

bool qkv__is_dense(const qkv_tensor *x)
{
    size_t expected = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->shape[i] != 1 && x->stride[i] != expected)
            return false;
        expected *= x->shape[i];
    }
    return true;
}

static void dense_strides(qkv_tensor *x)
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
    dense_strides(x);
    x->data = data ? data : qkv__step_memory(t, count);
    x->root = x;
    x->part = QKV__WHOLE;
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

static size_t bytes_of(const qkv_tensor *x) { return qkv_count(x) * qkv__dtype_size(x->dtype); }

/* ---- between the host and the device ------------------------------------------------------- */

/* A root whose elements the host writes, where they lie or at x->host, which is `host` if given. */
static qkv_tensor *new_staged(qkv_tape *t, qkv_dtype dtype, void *host, int ndim,
                              const size_t *shape)
{
    qkv_tensor *x = qkv__new_over(t, dtype, t->device->host ? host : NULL, ndim, shape);
    if (!x || t->device->host)
        return x;
    x->host = host ? host : qkv__step_alloc(t, bytes_of(x));
    x->staged = true;
    return x->host ? x : NULL;
}

void qkv__arrive(qkv_tape *t, qkv_tensor *x)
{
    if (!x || !x->root->staged)
        return;
    t->device->copy_in(x->root->data, x->root->host, bytes_of(x->root));
    x->root->staged = false;
}

const void *qkv__read(qkv_tape *t, const void *p, size_t bytes)
{
    void *copy = t->device->host ? NULL : qkv__step_alloc(t, bytes);
    if (copy)
        t->device->copy_out(copy, p, bytes);
    return t->device->host ? p : copy;
}

void *qkv__target(qkv_tape *t, void *host, size_t bytes)
{
    return t->device->host || !host ? host : qkv__scratch(t, bytes / sizeof(qkv_real) + 1);
}

void qkv__deliver(qkv_tape *t, void *host, const void *target, size_t bytes)
{
    if (target != host && target)
        t->device->copy_out(host, target, bytes);
}

qkv_real qkv__get(const qkv_tape *t, const qkv_real *p)
{
    qkv_real value;
    t->device->copy_out(&value, p, sizeof value);
    return value;
}

void qkv__put(qkv_tape *t, qkv_real *p, double value)
{
    qkv_real x = (qkv_real)value;
    t->device->copy_in(p, &x, sizeof x);
}

/* Where the host reads the elements of x, which is dense. What it wrote itself is there already. */
static const void *read_dense(qkv_tape *t, const qkv_tensor *x)
{
    const qkv_tensor *root = x->root;
    return root->host ? (const char *)root->host + x->offset * qkv__dtype_size(x->dtype)
                      : qkv__read(t, x->data, bytes_of(x));
}

qkv_tensor *qkv__copy(qkv_tape *t, const qkv_tensor *x)
{
    qkv__arrive(t, x->root);
    qkv_tensor *y = qkv__new_like(t, x);
    if (y)
        t->k->copy(&t->exec, qkv__real(y), y->stride, qkv__real(x), x->stride, x->shape, x->ndim,
                   false);
    return y;
}

/* A copy of data, unless that is NULL. */
static qkv_tensor *from(qkv_tape *t, qkv_dtype dtype, const void *data, int ndim,
                        const size_t *shape)
{
    qkv_tensor *x = new_staged(t, dtype, NULL, ndim, shape);
    if (x && x->host && data)
        memcpy(x->host, data, bytes_of(x));
    else if (x && data)
        t->device->copy_in(x->data, data, bytes_of(x));
    return x;
}

qkv_tensor *qkv_tensor_from(qkv_tape *t, const qkv_real *data, int ndim, const size_t *shape)
{
    return from(t, QKV_REAL, data, ndim, shape);
}

qkv_tensor *qkv_tensor_ids(qkv_tape *t, const int32_t *ids, int ndim, const size_t *shape)
{
    return from(t, QKV_I32, ids, ndim, shape);
}

qkv_tensor *qkv_tensor_wrap(qkv_tape *t, qkv_real *data, int ndim, const size_t *shape)
{
    return new_staged(t, QKV_REAL, data, ndim, shape);
}

qkv_real *qkv_tensor_fill(qkv_tensor *x)
{
    if (!x || !x->host)
        return x ? qkv__real(x) : NULL;
    x->staged = true;
    return x->host;
}

const qkv_real *qkv_data(qkv_tape *t, const qkv_tensor *x)
{
    if (!x || x->dtype != QKV_REAL)
        return NULL;
    if (qkv__is_dense(x))
        return read_dense(t, x);
    const qkv_tensor *y = qkv__copy(t, x);
    return y ? read_dense(t, y) : NULL;
}

const int32_t *qkv__read_ids(qkv_tape *t, const qkv_tensor *x) { return read_dense(t, x); }

const int32_t *qkv_data_ids(qkv_tape *t, const qkv_tensor *x)
{
    return x && x->dtype == QKV_I32 && qkv__is_dense(x) ? qkv__read_ids(t, x) : NULL;
}

qkv_real qkv_item(qkv_tape *t, const qkv_tensor *x)
{
    bool one = x && x->dtype == QKV_REAL && qkv_count(x) == 1;
    return !one ? (qkv_real)NAN : x->root->host ? *qkv_data(t, x) : qkv__get(t, qkv__real(x));
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

qkv_tensor *qkv_use(qkv_tape *t, qkv_param *p)
{
    if (t->status)
        return NULL;
    qkv_tensor *x = find_leaf(t, p, !p->frozen);
    if (x)
        return x;
    x = qkv__new_over(t, QKV_REAL, p->data, p->ndim, p->shape);
    if (!x)
        return NULL;
    x->param = p;
    if (!t->record)
        return x; /* not remembered: it may lie in a scope that ends before the step does */
    x->needs_grad = x->trains = !p->frozen;
    x->next_leaf = t->leaves;
    t->leaves = x;
    p->leaf_tape = t;
    p->leaf_epoch = t->epoch;
    p->leaf = x;
    return x;
}

qkv_tensor *qkv_require_grad(qkv_tape *t, qkv_tensor *x)
{
    if (!x || t->status)
        return NULL;
    x->root->needs_grad = true;
    x->root->required = true;
    return x;
}

qkv_tensor *qkv_detach(qkv_tape *t, qkv_tensor *x)
{
    x = qkv_contiguous(t, x); /* roots are dense */
    return x ? qkv__new_over(t, x->dtype, x->data, x->ndim, x->shape) : NULL;
}
