/* op_rotary.c - positions as rotations of pairs of channels (RoFormer, Su et al. 2021). */
#include <math.h>

#include "tensor/tape.h"

static void rotary_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_k_rotary_args *p = n->params; /* of the forward pass: x's strides, then y's */
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (!dx)
        return;
    qkv_k_rotary_args a = *p;
    a.sx = p->sy;
    a.hx = p->hy;
    a.sy = p->sx;
    a.hy = p->hx;
    a.sign = -1;
    a.acc = acc;
    t->k->rotary(&t->exec, dx, qkv__grad_out(t, n, 0), qkv__ids(n->in[1]), &a);
}

static const qkv_op rotary_op = {.name = "rotary", .backward = rotary_backward};

qkv_tensor *qkv_rotary(qkv_tape *t, qkv_tensor *x, qkv_tensor *positions, double base,
                       size_t width)
{
    if (t->status)
        return NULL;
    if (!(base > 0))
        return qkv__op_fail(t, "rotary", "base %g is not above 0", base);
    double *frequency = qkv__step_alloc(t, (width / 2 + 1) * sizeof *frequency);
    for (size_t i = 0; frequency && i < width / 2; i++)
        frequency[i] = pow(base, -2 * (double)i / (double)width);
    const qkv_rotary_angles angles = {.width = width, .frequency = frequency, .scale = 1};
    return frequency ? qkv_rotary_by(t, x, positions, &angles) : NULL;
}

qkv_tensor *qkv_rotary_by(qkv_tape *t, qkv_tensor *x, qkv_tensor *positions,
                          const qkv_rotary_angles *angles)
{
    qkv_tensor *in[] = {x, positions};
    size_t width = angles->width;
    if (!qkv__ready(t, "rotary", 2, in) || !qkv__ready_reals(t, "rotary", 1, in))
        return NULL;
    size_t D = qkv__channels(x), H = x->ndim >= 2 ? x->shape[x->ndim - 2] : 0;
    size_t N = H ? qkv__rows(x) / H : 0;
    if (x->ndim < 2 || positions->dtype != QKV_I32 || qkv_count(positions) != N)
        return qkv__op_fail(t, "rotary", "positions %s (i32) are not one per row before the heads "
                            "of %s", qkv__shape_text(t, positions), qkv__shape_text(t, x));
    if (width % 2 || width > D)
        return qkv__op_fail(t, "rotary", "cannot rotate %zu of %zu channels", width, D);
    qkv_k_rotary_args a = {.N = N, .H = H, .D = D, .width = width, .sign = 1,
                           .frequency = angles->frequency, .scale = angles->scale};
    if (!qkv__even_axes(x, x->ndim - 2, &a.sx)) {
        in[0] = x = qkv_contiguous(t, x);
        a.sx = H * D;
    }
    in[1] = qkv_contiguous(t, positions);
    qkv_tensor *y = t->status ? NULL : qkv__new_like(t, x);
    if (!y)
        return NULL;
    a.hx = x->stride[x->ndim - 2];
    a.sy = H * D;
    a.hy = D;
    t->k->rotary(&t->exec, qkv__real(y), qkv__real(x), qkv__ids(in[1]), &a);
    return qkv__record(t, &rotary_op, 2, in, 1, &y, &a, sizeof a);
}
