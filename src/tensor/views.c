/* views.c - other ways to look at the same memory.
 *
 * Views record nothing: their gradient is the same region of their root's gradient, so there is
 * nothing to do on the way back. A split is remembered on the root, so that the first writer of
 * each part can store; any other partial view makes the root's gradient start from zeros. */
#include <string.h>

#include "tensor/tape.h"

/* ---- copies that ops record --------------------------------------------------------------- */

static void copy_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_tensor *x = n->in[0], *y = n->out[0];
    const size_t *axes = n->params; /* y's axis i is x's axes[i] */
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (!dx)
        return;
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(x) ? 1 : 0);
    size_t stride[QKV_MAX_DIMS];
    for (int i = 0; i < y->ndim; i++)
        stride[i] = x->stride[axes[i]];
    t->k->copy(&e, dx, stride, dy, y->stride, y->shape, y->ndim, acc);
}

static const qkv_op copy_op = {.name = "copy", .backward = copy_backward};

/* y, dense, from x with these strides; few elements, so the plain way, on the host. */
static void copy_ids(qkv_tape *t, qkv_tensor *contiguous, const qkv_tensor *strided,
                     const size_t *shape, const size_t *stride)
{
    const qkv_tensor *root = strided->root;
    const int32_t *x = qkv__read_ids(t, root);
    int32_t *y = qkv__step_alloc(t, qkv_count(contiguous) * sizeof *y);
    size_t at[QKV_MAX_DIMS] = {0}, from = strided->offset;
    int ndim = contiguous->ndim;
    if (!x || !y)
        return;
    size_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    for (size_t e = 0; e < count; e++) {
        y[e] = x[from];
        for (int i = ndim - 1; i >= 0; i--) { /* the next index, as an odometer turns */
            from += stride[i];
            if (++at[i] < shape[i])
                break;
            from -= at[i] * stride[i];
            at[i] = 0;
        }
    }
    t->device->copy_in(contiguous->data, y, count * sizeof *y);
    contiguous->host = t->device->host ? NULL : y;
}

/* A dense tensor whose axis i is x's axes[i]; in f32 if x is rounded. */
static qkv_tensor *copy_permuted(qkv_tape *t, qkv_tensor *x, const size_t *axes)
{
    size_t shape[QKV_MAX_DIMS], stride[QKV_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        shape[i] = x->shape[axes[i]];
        stride[i] = x->stride[axes[i]];
    }
    const bool rounded = qkv__is_rounded(x);
    const qkv_exec e = qkv__exec_bf16(t, rounded ? 2 : 0);
    qkv_tensor *y = qkv__new(t, rounded ? QKV_REAL : x->dtype, x->ndim, shape);
    if (!y)
        return NULL;
    if (y->dtype == QKV_REAL)
        t->k->copy(&e, qkv__real(y), y->stride, qkv__real(x), stride, shape, x->ndim, false);
    else
        copy_ids(t, y, x, shape, stride);
    return qkv__record(t, &copy_op, 1, &x, 1, &y, axes, sizeof(size_t) * QKV_MAX_DIMS);
}

static const size_t in_order[QKV_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};

qkv_tensor *qkv_contiguous(qkv_tape *t, qkv_tensor *x)
{
    if (!qkv__ready(t, "contiguous", 1, &x))
        return NULL;
    if (qkv__is_contiguous(x))
        return x;
    return copy_permuted(t, x, in_order);
}

qkv_tensor *qkv__widened(qkv_tape *t, qkv_tensor *x)
{
    return qkv__is_rounded(x) ? copy_permuted(t, x, in_order) : x;
}

bool qkv__ready_contiguous(qkv_tape *t, const char *op, int n, qkv_tensor **in)
{
    bool ready = qkv__ready_reals(t, op, n, in);
    for (int i = 0; ready && i < n; i++)
        ready = (in[i] = qkv_contiguous(t, in[i])) != NULL;
    return ready;
}

bool qkv__ready_rounded(qkv_tape *t, const char *op, int n, qkv_tensor **in)
{
    if (qkv__is_rounded(in[0]) && !qkv__is_contiguous(in[0]))
        in[0] = qkv__widened(t, in[0]);
    if (!qkv__is_rounded(in[0]))
        return qkv__ready_contiguous(t, op, n, in);
    return qkv__ready(t, op, 1, in) && qkv__ready_contiguous(t, op, n - 1, in + 1);
}

bool qkv__ready_product(qkv_tape *t, const char *op, qkv_tensor *in[3])
{
    bool small = qkv__small_of(t, op, in[1]) != NULL;
    if (small)
        in[0] = qkv__widened(t, in[0]);
    return qkv__ready_rounded(t, op, 1, in) && (small || qkv__ready_contiguous(t, op, 1, &in[1])) &&
           (!in[2] || qkv__ready_contiguous(t, op, 1, &in[2]));
}

qkv_tensor *qkv__ready_map(qkv_tape *t, const char *op, qkv_tensor **x)
{
    return qkv__ready_contiguous(t, op, 1, x) ? qkv__new_like(t, *x) : NULL;
}

bool qkv__even_axes(const qkv_tensor *x, int n, size_t *step)
{
    size_t extent = 0; /* of the axes walked so far; 0: none yet */
    *step = x->ndim ? qkv__channels(x) : 1;
    for (int i = n - 1; i >= 0; i--) {
        if (x->shape[i] == 1)
            continue;
        if (extent == 0)
            extent = *step = x->stride[i];
        else if (x->stride[i] != extent)
            return false;
        extent *= x->shape[i];
    }
    return true;
}

qkv_tensor *qkv__even_rows(qkv_tape *t, qkv_tensor *x, size_t *step)
{
    bool contiguous = qkv__channels(x) == 1 || x->stride[x->ndim - 1] == 1;
    if (contiguous && qkv__even_axes(x, x->ndim - 1, step))
        return x;
    *step = qkv__channels(x);
    return qkv_contiguous(t, x);
}

/* ---- views -------------------------------------------------------------------------------- */

/* Strides for `shape` over x's elements in row-major order, without moving any; false when x's
 * own strides make that impossible, or the innermost dimension would not be contiguous. Both
 * shapes are walked in groups of equal size: within a group x must step evenly. */
static bool restride(const qkv_tensor *x, int ndim, const size_t *shape, size_t *stride)
{
    size_t old[QKV_MAX_DIMS], step[QKV_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (x->shape[i] != 1) {
            old[n] = x->shape[i];
            step[n++] = x->stride[i];
        }
    int a = 0, b = 0; /* group of x: a .. a_end-1, of the new shape: b .. b_end-1 */
    while (a < n && b < ndim) {
        int a_end = a + 1, b_end = b + 1;
        size_t have = old[a], want = shape[b];
        while (have != want) {
            if (want < have)
                want *= shape[b_end++];
            else
                have *= old[a_end++];
        }
        for (int i = a; i + 1 < a_end; i++)
            if (step[i] != old[i + 1] * step[i + 1])
                return false;
        stride[b_end - 1] = step[a_end - 1];
        for (int i = b_end - 1; i > b; i--)
            stride[i - 1] = stride[i] * shape[i];
        a = a_end;
        b = b_end;
    }
    for (; b < ndim; b++)
        stride[b] = 1; /* only ones are left */
    return ndim == 0 || shape[ndim - 1] == 1 || stride[ndim - 1] == 1;
}

qkv_tensor *qkv_reshape(qkv_tape *t, qkv_tensor *x, int ndim, const size_t *shape)
{
    if (!qkv__ready(t, "reshape", 1, &x))
        return NULL;
    if (ndim < 0 || ndim > QKV_MAX_DIMS)
        return qkv__op_fail(t, "reshape", "%d dimensions; at most %d are possible", ndim,
                            QKV_MAX_DIMS);
    size_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    if (count != qkv_count(x) || count == 0)
        return qkv__op_fail(t, "reshape", "%s has %zu elements, the new shape %zu",
                            qkv__shape_text(t, x), qkv_count(x), count);
    size_t stride[QKV_MAX_DIMS];
    if (!restride(x, ndim, shape, stride)) {
        x = qkv_contiguous(t, x);
        if (!x || !restride(x, ndim, shape, stride))
            return NULL;
    }
    return qkv__view(t, x, ndim, shape, stride, 0, x->part);
}

qkv_tensor *qkv_permute(qkv_tape *t, qkv_tensor *x, const int *axes)
{
    if (!qkv__ready(t, "permute", 1, &x))
        return NULL;
    size_t order[QKV_MAX_DIMS] = {0}, shape[QKV_MAX_DIMS], stride[QKV_MAX_DIMS];
    unsigned seen = 0;
    for (int i = 0; i < x->ndim; i++) {
        int a = axes[i] < 0 ? axes[i] + x->ndim : axes[i];
        if (a < 0 || a >= x->ndim || (seen >> a & 1u))
            return qkv__op_fail(t, "permute", "axes are not a permutation of %d dimensions",
                                x->ndim);
        seen |= 1u << a;
        order[i] = (size_t)a;
        shape[i] = x->shape[a];
        stride[i] = x->stride[a];
    }
    bool innermost_moves = x->ndim && order[x->ndim - 1] != (size_t)x->ndim - 1;
    if (innermost_moves)
        return copy_permuted(t, x, order);
    return qkv__view(t, x, x->ndim, shape, stride, 0, x->part);
}

qkv_tensor *qkv_slice(qkv_tape *t, qkv_tensor *x, int axis, size_t begin, size_t end)
{
    if (!qkv__ready(t, "slice", 1, &x))
        return NULL;
    int a = axis < 0 ? axis + x->ndim : axis;
    if (a < 0 || a >= x->ndim || begin > end || end > x->shape[a])
        return qkv__op_fail(t, "slice", "[%zu, %zu) of axis %d of %s", begin, end, axis,
                            qkv__shape_text(t, x));
    size_t shape[QKV_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[a] = end - begin;
    int part = shape[a] == x->shape[a] ? x->part : QKV__OTHER;
    return qkv__view(t, x, x->ndim, shape, x->stride, begin * x->stride[a], part);
}

/* Remembers on x's root that it is cut along axis a; false when the root is cut already. */
static bool remember_parts(qkv_tape *t, qkv_tensor *x, int a, int n, const size_t *sizes)
{
    qkv_tensor *root = x->root;
    if (root->parts || x->part != QKV__WHOLE || !qkv__is_contiguous(x) || n > 64)
        return false;
    qkv__parts *p = qkv__step_alloc(t, sizeof *p + 2 * (size_t)n * sizeof(size_t));
    if (!p)
        return false;
    size_t *offset = (size_t *)(p + 1), *len = offset + n, inner = x->stride[a], at = 0;
    for (int i = 0; i < n; i++) {
        offset[i] = at * inner;
        len[i] = sizes[i] * inner;
        at += sizes[i];
    }
    size_t outer = 1;
    for (int i = 0; i < a; i++)
        outer *= x->shape[i];
    *p = (qkv__parts){n, outer, x->shape[a] * inner, offset, len};
    root->parts = p;
    return true;
}

bool qkv_split(qkv_tape *t, qkv_tensor *x, int axis, int n, const size_t *sizes,
               qkv_tensor **parts)
{
    for (int i = 0; i < n; i++)
        parts[i] = NULL;
    if (!qkv__ready(t, "split", 1, &x))
        return false;
    int a = axis < 0 ? axis + x->ndim : axis;
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += sizes[i];
    if (a < 0 || a >= x->ndim || total != x->shape[a])
        return qkv__op_fail(t, "split", "parts of %zu in all along axis %d of %s", total, axis,
                            qkv__shape_text(t, x)) != NULL;
    bool known = remember_parts(t, x, a, n, sizes);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t shape[QKV_MAX_DIMS];
        memcpy(shape, x->shape, sizeof shape);
        shape[a] = sizes[i];
        parts[i] = qkv__view(t, x, x->ndim, shape, x->stride, at * x->stride[a],
                             known ? i : QKV__OTHER);
        at += sizes[i];
    }
    return t->status == QKV_OK;
}

qkv_tensor *qkv_detach(qkv_tape *t, qkv_tensor *x)
{
    x = qkv_contiguous(t, x); /* roots are dense */
    return x ? qkv__new_over(t, x->dtype, x->data, x->ndim, x->shape) : NULL;
}
