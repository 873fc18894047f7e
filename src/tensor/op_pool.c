/* op_pool.c - the largest, or the mean, of every window of an image. */
#include "tensor/tape.h"

typedef struct {
    qkv_k_conv_args args;
    int32_t *from; /* max: which pixel of the image each output is; NULL: the mean */
} pool_params;

static void pool_backward(qkv_tape *t, const qkv__node *n)
{
    const pool_params *p = n->params;
    bool acc;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx && p->from)
        t->k->max_pool_bwd(&t->exec, dx, dy, p->from, &p->args, acc);
    else if (dx)
        t->k->mean_pool_bwd(&t->exec, dx, dy, &p->args, acc);
}

static const qkv_op max_op = {.name = "max_pool2d", .backward = pool_backward};
static const qkv_op mean_op = {.name = "mean_pool2d", .backward = pool_backward};

static qkv_tensor *pool(qkv_tape *t, qkv_tensor *x, size_t window, const qkv_conv_options *o,
                        const qkv_op *op)
{
    static const qkv_conv_options plain = {0};
    x = qkv__widened(t, x);
    if (!qkv__ready_contiguous(t, op->name, 1, &x))
        return NULL;
    o = o ? o : &plain;
    size_t stride = o->stride ? o->stride : window;
    bool fits = x->ndim == 4 && window && x->shape[1] + o->top + o->bottom >= window &&
                x->shape[2] + o->left + o->right >= window && x->shape[1] * x->shape[2] < INT32_MAX;
    if (!fits || o->top >= window || o->left >= window || o->bottom >= window ||
        o->right >= window)
        return qkv__op_fail(t, op->name, "x %s and windows of %zu with less padding than that "
                            "do not fit", qkv__shape_text(t, x), window);
    pool_params p = {{.B = x->shape[0], .H = x->shape[1], .W = x->shape[2], .C = x->shape[3],
                      .N = x->shape[3], .KH = window, .KW = window, .stride = stride,
                      .top = o->top, .left = o->left,
                      .OH = (x->shape[1] + o->top + o->bottom - window) / stride + 1,
                      .OW = (x->shape[2] + o->left + o->right - window) / stride + 1}, NULL};
    size_t shape[] = {p.args.B, p.args.OH, p.args.OW, p.args.C};
    qkv_tensor *y = qkv__new(t, QKV_REAL, 4, shape);
    if (y && op == &max_op)
        p.from = qkv__step_memory(t, qkv_count(y) * sizeof *p.from);
    if (!y || (op == &max_op && !p.from))
        return NULL;
    if (p.from)
        t->k->max_pool(&t->exec, qkv__real(y), p.from, qkv__real(x), &p.args);
    else
        t->k->mean_pool(&t->exec, qkv__real(y), qkv__real(x), &p.args);
    return qkv__record(t, op, 1, &x, 1, &y, &p, sizeof p);
}

qkv_tensor *qkv_max_pool2d(qkv_tape *t, qkv_tensor *x, size_t window,
                           const qkv_conv_options *options)
{
    return pool(t, x, window, options, &max_op);
}

qkv_tensor *qkv_avg_pool2d(qkv_tape *t, qkv_tensor *x, size_t window,
                           const qkv_conv_options *options)
{
    return pool(t, x, window, options, &mean_op);
}
