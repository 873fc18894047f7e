/* host.c - numbers between the host's memory and the device's: tensors that the host fills and
 * reads. Where both are one memory, nothing is copied that need not be. */
#include <math.h>
#include <string.h>

#include "tensor/tape.h"

static size_t host_bytes_of(const qkv_tensor *x) { return qkv_count(x) *
                                                  qkv__dtype_size(x->dtype); }

/* A root whose elements the host writes, where they lie or at x->host, which is `host` if given. */
static qkv_tensor *new_staged(qkv_tape *t, qkv_dtype dtype, void *host, int ndim,
                              const size_t *shape)
{
    qkv_tensor *x = qkv__new_over(t, dtype, t->device->host ? host : NULL, ndim, shape);
    if (!x || t->device->host)
        return x;
    x->host = host ? host : qkv__step_alloc(t, host_bytes_of(x));
    x->staged = host_bytes_of(x);
    return x->host ? x : NULL;
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

qkv_real *qkv__draft(qkv_tape *t, qkv_real *p, size_t n)
{
    return t->device->host || !p ? p : qkv__step_alloc(t, n * sizeof *p);
}

void qkv__bring(qkv_tape *t, qkv_real *p, const qkv_real *draft, size_t n)
{
    if (draft != p && draft)
        t->device->copy_in(p, draft, n * sizeof *p);
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
                      : qkv__read(t, x->data, host_bytes_of(x));
}

/* A copy of data, unless that is NULL. */
static qkv_tensor *from(qkv_tape *t, qkv_dtype dtype, const void *data, int ndim,
                        const size_t *shape)
{
    qkv_tensor *x = new_staged(t, dtype, NULL, ndim, shape);
    if (x && x->host && data)
        memcpy(x->host, data, host_bytes_of(x));
    else if (x && data)
        t->device->copy_in(x->data, data, host_bytes_of(x));
    return x;
}

qkv_tensor *qkv_tensor_from(qkv_tape *t, const qkv_real *data, int ndim, const size_t *shape)
{
    return from(t, QKV_REAL, data, ndim, shape);
}

qkv_tensor *qkv__new_item(qkv_tape *t, double value)
{
    const qkv_real x = (qkv_real)value;
    return from(t, QKV_REAL, &x, 0, NULL);
}

qkv_tensor *qkv_tensor_ids(qkv_tape *t, const int32_t *ids, int ndim, const size_t *shape)
{
    return from(t, QKV_I32, ids, ndim, shape);
}

qkv_tensor *qkv_tensor_bools(qkv_tape *t, const bool *values, int ndim, const size_t *shape)
{
    size_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    int32_t *ids = t->status ? NULL : qkv__step_alloc(t, (count + 1) * sizeof *ids);
    for (size_t i = 0; ids && i < count; i++)
        ids[i] = values[i];
    return ids ? qkv_tensor_ids(t, ids, ndim, shape) : NULL;
}

qkv_tensor *qkv_tensor_wrap(qkv_tape *t, qkv_real *data, int ndim, const size_t *shape)
{
    return new_staged(t, QKV_REAL, data, ndim, shape);
}

qkv_real *qkv_tensor_fill(qkv_tensor *x)
{
    if (!x || !x->host)
        return x ? qkv__real(x) : NULL;
    x->staged = host_bytes_of(x);
    return x->host;
}

const qkv_real *qkv_data(qkv_tape *t, const qkv_tensor *x)
{
    if (!x || qkv_tensor_dtype(x) != QKV_REAL)
        return NULL;
    if (qkv__is_contiguous(x) && !qkv__is_rounded(x))
        return read_dense(t, x);
    const qkv_tensor *y = qkv__copy(t, x);
    return y ? read_dense(t, y) : NULL;
}

const int32_t *qkv__read_ids(qkv_tape *t, const qkv_tensor *x) { return read_dense(t, x); }

const int32_t *qkv_data_ids(qkv_tape *t, const qkv_tensor *x)
{
    return x && x->dtype == QKV_I32 && qkv__is_contiguous(x) ? qkv__read_ids(t, x) : NULL;
}

qkv_real qkv_item(qkv_tape *t, const qkv_tensor *x)
{
    bool one = x && qkv_tensor_dtype(x) == QKV_REAL && qkv_count(x) == 1;
    bool copied = one && (x->root->host || qkv__is_rounded(x));
    const qkv_real *p = copied ? qkv_data(t, x) : NULL;
    return !one || (copied && !p) ? (qkv_real)NAN : copied ? *p : qkv__get(t, qkv__real(x));
}
