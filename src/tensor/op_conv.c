/* op_conv.c - two-dimensional convolution of images, channels last. */
#include "tensor/tape.h"

/* For a kernel whose first parameters hold bf16, or not. */
static qkv_exec conv_exec(const qkv_tape *t, bool first, bool second, bool third)
{
    return qkv__exec_bf16(t, first | second << 1 | third << 2);
}

static void conv_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_k_conv_args *a = n->params;
    qkv_tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    const bool of_x = qkv__is_rounded(x), of_y = qkv__is_rounded(n->out[0]);
    const qkv_exec of_data = conv_exec(t, of_x, of_y, false);
    const qkv_exec of_weights = conv_exec(t, false, of_y, of_x);
    const qkv_exec of_bias = conv_exec(t, false, of_y, false);
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    bool acc;
    qkv_real *dx = qkv__grad(t, x, &acc);
    if (dx)
        t->k->conv_bwd_data(&of_data, dx, dy, qkv__real(w), a, acc);
    qkv_real *dw = qkv__grad(t, w, &acc);
    if (dw)
        t->k->conv_bwd_weights(&of_weights, dw, dy, qkv__real(x), a, acc);
    qkv_real *db = b ? qkv__grad(t, b, &acc) : NULL;
    if (db)
        t->k->sum_rows(&of_bias, db, dy, a->N, acc, a->B * a->OH * a->OW, a->N);
}

static const qkv_op conv_op = {.name = "conv2d", .backward = conv_backward, .product = true};

/* Outputs along an axis; 0: the window does not fit. */
static size_t op_conv_outputs(size_t size, size_t window, size_t stride, size_t before,
                              size_t after)
{
    size_t padded = size + before + after;
    return padded < window ? 0 : (padded - window) / stride + 1;
}

qkv_tensor *qkv_conv2d(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       const qkv_conv_options *options)
{
    static const qkv_conv_options plain = {0};
    const qkv_conv_options *o = options ? options : &plain;
    qkv_tensor *in[] = {x, w, b};
    if (!qkv__ready_rounded(t, "conv2d", b ? 3 : 2, in))
        return NULL;
    if (x->ndim != 4 || w->ndim != 4 || x->shape[3] != w->shape[3] ||
        (b && (b->ndim != 1 || b->shape[0] != w->shape[0])))
        return qkv__op_fail(t, "conv2d", "x %s, weight %s and bias %s do not fit",
                            qkv__shape_text(t, x), qkv__shape_text(t, w), qkv__shape_text(t, b));
    size_t stride = o->stride ? o->stride : 1;
    qkv_k_conv_args p = {.B = x->shape[0], .H = x->shape[1], .W = x->shape[2], .C = x->shape[3],
                         .N = w->shape[0], .KH = w->shape[1], .KW = w->shape[2], .stride = stride,
                         .top = o->top, .left = o->left,
                         .OH = op_conv_outputs(x->shape[1], w->shape[1], stride, o->top, o->bottom),
                         .OW = op_conv_outputs(x->shape[2], w->shape[2], stride, o->left,
                                               o->right)};
    if (!p.OH || !p.OW)
        return qkv__op_fail(t, "conv2d", "x %s is smaller than the window of %s with its padding",
                            qkv__shape_text(t, x), qkv__shape_text(t, w));
    size_t shape[] = {p.B, p.OH, p.OW, p.N};
    qkv_tensor *y = qkv__new_for_products(t, 4, shape, 3, in);
    if (!y)
        return NULL;
    const qkv_exec e = conv_exec(t, qkv__is_rounded(y), qkv__is_rounded(in[0]), false);
    t->k->conv(&e, qkv__real(y), qkv__real(in[0]), qkv__real(in[1]),
               b ? qkv__real(in[2]) : NULL, &p);
    return qkv__record(t, &conv_op, 3, in, 1, &y, &p, sizeof p);
}
