/* op_arithmetic.c - add, sub, mul, div with NumPy's broadcasting; scale; exp.
 *
 * An operand that has the result's shape and is dense is used where it lies; any other is first
 * spread out in scratch memory. */
#include <string.h>

#include "tensor/tape.h"

/* ---- broadcasting ------------------------------------------------------------------------ */

typedef struct {
    int ndim;
    size_t shape[QKV_MAX_DIMS], stride[QKV_MAX_DIMS]; /* of the result, dense */
    size_t n;
} frame;

static bool make_frame(qkv_tape *t, const char *op, const qkv_tensor *a, const qkv_tensor *b,
                       frame *f)
{
    f->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    f->n = 1;
    for (int i = f->ndim - 1; i >= 0; i--) {
        int ia = i - (f->ndim - a->ndim), ib = i - (f->ndim - b->ndim);
        size_t da = ia >= 0 ? a->shape[ia] : 1, db = ib >= 0 ? b->shape[ib] : 1;
        if (da != db && da != 1 && db != 1)
            return qkv__op_fail(t, op, "shapes %s and %s do not broadcast", qkv__shape_text(t, a),
                                qkv__shape_text(t, b)) != NULL;
        f->shape[i] = da == 1 ? db : da;
        f->stride[i] = f->n;
        f->n *= f->shape[i];
    }
    return true;
}

static frame frame_of(const qkv_tensor *y)
{
    frame f = {.ndim = y->ndim, .n = qkv_count(y)};
    memcpy(f.shape, y->shape, sizeof f.shape);
    memcpy(f.stride, y->stride, sizeof f.stride);
    return f;
}

static bool fills(const qkv_tensor *x, const frame *f)
{
    return qkv__is_contiguous(x) && x->ndim == f->ndim &&
           memcmp(x->shape, f->shape, (size_t)f->ndim * sizeof *f->shape) == 0;
}

/* x's elements in the frame, dense; NULL when out of memory. */
static const qkv_real *op_arithmetic_spread(qkv_tape *t, const qkv_tensor *x, const frame *f)
{
    if (fills(x, f))
        return qkv__real(x);
    qkv_real *y = qkv__scratch(t, f->n);
    if (!y)
        return NULL;
    size_t from[QKV_MAX_DIMS];
    for (int i = 0; i < f->ndim; i++) {
        int ix = i - (f->ndim - x->ndim);
        from[i] = ix < 0 || x->shape[ix] == 1 ? 0 : x->stride[ix];
    }
    t->k->copy(&t->exec, y, f->stride, qkv__real(x), from, f->shape, f->ndim, false);
    return y;
}

/* x's gradient gets g times h, both in the frame. */
static void pass_product(qkv_tape *t, qkv_tensor *x, const qkv_real *g, const qkv_real *h,
                         const frame *f)
{
    if (!qkv__wants(t, x) || !h)
        return;
    if (fills(x, f)) {
        bool acc;
        qkv_real *dx = qkv__grad(t, x, &acc);
        if (dx)
            t->k->mul(&t->exec, dx, g, h, acc, f->n);
        return;
    }
    qkv_real *product = qkv__scratch(t, f->n);
    if (!product)
        return;
    t->k->mul(&t->exec, product, g, h, false, f->n);
    qkv__grad_broadcast(t, x, product, f->ndim, f->shape);
}

static void add_backward(qkv_tape *t, const qkv__node *n);
static const qkv_op add_op = {.name = "add", .backward = add_backward};

typedef void forward_fn(qkv_tape *t, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n);

/* The result of add, in the memory of an operand that is spent. */
static qkv_tensor *make_sum(qkv_tape *t, qkv_tensor *const *in, const frame *f)
{
    for (int i = 0; i < 2; i++)
        if (in[i]->spent && fills(in[i], f))
            return qkv__new_in_place(t, in[i]);
    return qkv__new(t, QKV_REAL, f->ndim, f->shape);
}

static qkv_tensor *binary(qkv_tape *t, const qkv_op *op, forward_fn *forward, qkv_tensor *a,
                          qkv_tensor *b)
{
    qkv_tensor *in[] = {a, b};
    frame f;
    if (!qkv__ready_reals(t, op->name, 2, in) || !make_frame(t, op->name, a, b, &f))
        return NULL;
    qkv_tensor *y = op == &add_op ? make_sum(t, in, &f) : qkv__new(t, QKV_REAL, f.ndim, f.shape);
    if (!y)
        return NULL;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    const qkv_real *pa = op_arithmetic_spread(t, a, &f), *pb = op_arithmetic_spread(t, b, &f);
    if (pa && pb)
        forward(t, qkv__real(y), pa, pb, f.n);
    qkv__arena_release(t->exec.scratch, mark);
    if (t->status)
        return NULL;
    return qkv__record(t, op, 2, in, 1, &y, NULL, 0);
}

/* ---- add and subtract -------------------------------------------------------------------- */

static void add_forward(qkv_tape *t, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{
    t->k->add(&t->exec, y, a, b, n);
}

static void add_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_tensor *y = n->out[0];
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    for (int i = 0; i < 2; i++)
        qkv__grad_broadcast(t, n->in[i], dy, y->ndim, y->shape);
}

/* Of the sum with what is rounded: its gradient is a rounded copy. */
static void add_rounded_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    const size_t count = qkv_count(n->out[0]), dense = 1;
    const qkv_exec e = qkv__exec_bf16(t, 1);
    bool acc;
    qkv_real *db = qkv__grad(t, n->in[1], &acc);
    if (db)
        t->k->copy(&e, db, &dense, dy, &dense, &count, 1, acc);
    if (!qkv__grad_share(t, n->out[0], n->in[0]))
        qkv__grad_add(t, n->in[0], dy, 1.0, count);
}

static const qkv_op add_rounded_op = {.name = "add", .backward = add_rounded_backward};

static qkv_tensor *add_rounded(qkv_tape *t, qkv_tensor *a, qkv_tensor *b)
{
    qkv_tensor *in[] = {a, b};
    if (!qkv__ready(t, "add", 2, in))
        return NULL;
    const qkv_exec e = qkv__exec_bf16(t, 1 << 2);
    qkv_tensor *y = qkv__new_in_place(t, a);
    if (!y)
        return NULL;
    t->k->add(&e, qkv__real(y), qkv__real(a), qkv__real(b), qkv_count(y));
    return qkv__record(t, &add_rounded_op, 2, in, 1, &y, NULL, 0);
}

qkv_tensor *qkv_add(qkv_tape *t, qkv_tensor *a, qkv_tensor *b)
{
    bool alike = a && a->dtype == QKV_REAL && qkv__is_rounded(b) && qkv__same_shape(a, b);
    if (alike && qkv__is_contiguous(a) && qkv__is_contiguous(b))
        return add_rounded(t, a, b);
    return binary(t, &add_op, add_forward, qkv__widened(t, a), qkv__widened(t, b));
}

static void sub_forward(qkv_tape *t, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{
    t->k->axpy(&t->exec, y, b, -1.0, false, n);
    t->k->add(&t->exec, y, y, a, n);
}

static void sub_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_tensor *y = n->out[0];
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv__grad_broadcast(t, n->in[0], dy, y->ndim, y->shape);
    if (!qkv__wants(t, n->in[1]))
        return;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *minus = qkv__scratch(t, qkv_count(y));
    if (minus) {
        t->k->axpy(&t->exec, minus, dy, -1.0, false, qkv_count(y));
        qkv__grad_broadcast(t, n->in[1], minus, y->ndim, y->shape);
    }
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op sub_op = {.name = "sub", .backward = sub_backward};

qkv_tensor *qkv_sub(qkv_tape *t, qkv_tensor *a, qkv_tensor *b)
{
    return binary(t, &sub_op, sub_forward, a, b);
}

/* ---- multiply and divide ----------------------------------------------------------------- */

static void mul_forward(qkv_tape *t, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{
    t->k->mul(&t->exec, y, a, b, false, n);
}

static void mul_backward(qkv_tape *t, const qkv__node *n)
{
    frame f = frame_of(n->out[0]);
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    for (int i = 0; i < 2; i++) {
        qkv__mark mark = qkv__arena_mark(t->exec.scratch);
        if (qkv__wants(t, n->in[i]))
            pass_product(t, n->in[i], dy, op_arithmetic_spread(t, n->in[1 - i], &f), &f);
        qkv__arena_release(t->exec.scratch, mark);
    }
}

static const qkv_op mul_op = {.name = "mul", .backward = mul_backward};

qkv_tensor *qkv_mul(qkv_tape *t, qkv_tensor *a, qkv_tensor *b)
{
    return binary(t, &mul_op, mul_forward, a, b);
}

static void div_forward(qkv_tape *t, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{
    t->k->reciprocal(&t->exec, y, b, n);
    t->k->mul(&t->exec, y, a, y, false, n);
}

/* da = dy / b; db = -dy y / b. */
static void div_backward(qkv_tape *t, const qkv__node *n)
{
    frame f = frame_of(n->out[0]);
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    const qkv_real *b = op_arithmetic_spread(t, n->in[1], &f);
    qkv_real *inverse = qkv__scratch(t, f.n);
    if (b && inverse) {
        t->k->reciprocal(&t->exec, inverse, b, f.n);
        pass_product(t, n->in[0], dy, inverse, &f);
        qkv_real *slope = qkv__wants(t, n->in[1]) ? qkv__scratch(t, f.n) : NULL;
        if (slope) {
            t->k->mul(&t->exec, slope, inverse, qkv__real(n->out[0]), false, f.n);
            t->k->axpy(&t->exec, slope, slope, -1.0, false, f.n);
            pass_product(t, n->in[1], dy, slope, &f);
        }
    }
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op div_op = {.name = "div", .backward = div_backward};

qkv_tensor *qkv_div(qkv_tape *t, qkv_tensor *a, qkv_tensor *b)
{
    return binary(t, &div_op, div_forward, a, b);
}

/* ---- scale and exp ----------------------------------------------------------------------- */

static void scale_backward(qkv_tape *t, const qkv__node *n)
{
    const double *factor = n->params;
    qkv__grad_add(t, n->in[0], qkv__grad_out(t, n, 0), *factor, qkv_count(n->in[0]));
}

static const qkv_op scale_op = {.name = "scale", .backward = scale_backward};

qkv_tensor *qkv_scale(qkv_tape *t, qkv_tensor *x, double factor)
{
    if (!qkv__ready_contiguous(t, "scale", 1, &x))
        return NULL;
    qkv_tensor *y = qkv__new_in_place(t, x);
    if (!y)
        return NULL;
    t->k->axpy(&t->exec, qkv__real(y), qkv__real(x), factor, false, qkv_count(x));
    return qkv__record(t, &scale_op, 1, &x, 1, &y, &factor, sizeof factor);
}

static void exp_backward(qkv_tape *t, const qkv__node *n)
{
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->mul(&t->exec, dx, qkv__grad_out(t, n, 0), qkv__real(n->out[0]), acc,
                  qkv_count(n->in[0]));
}

static const qkv_op exp_op = {.name = "exp", .backward = exp_backward};

qkv_tensor *qkv_exp(qkv_tape *t, qkv_tensor *x)
{
    qkv_tensor *y = qkv__ready_map(t, "exp", &x);
    if (!y)
        return NULL;
    t->k->exp(&t->exec, qkv__real(y), qkv__real(x), qkv_count(x));
    return qkv__record(t, &exp_op, 1, &x, 1, &y, NULL, 0);
}
