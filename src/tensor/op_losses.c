/* op_losses.c - losses between pairs of numbers: means over all elements. Either side may be
 * differentiated. */
#include "tensor/tape.h"

static void loss_backward(qkv_tape *t, const qkv__node *n)
{
    qkv_k_loss_args args = *(const qkv_k_loss_args *)n->params;
    args.scale *= qkv__grad_one(t, n);
    for (int i = 0; i < 2; i++) {
        bool acc;
        qkv_real *d = qkv__grad(t, n->in[i], &acc);
        args.to_target = i == 1;
        if (d)
            t->k->loss_bwd(&t->exec, d, qkv__real(n->in[0]), qkv__real(n->in[1]), acc, &args,
                           qkv_count(n->in[i]));
    }
}

static qkv_tensor *op_losses_loss(qkv_tape *t, const qkv_op *op, qkv_tensor *x, qkv_tensor *target,
                                  qkv_k_loss_kind kind, double delta)
{
    qkv_tensor *in[] = {x, target};
    if (!qkv__ready_contiguous(t, op->name, 2, in))
        return NULL;
    size_t n = qkv_count(x);
    if (!qkv__same_shape(x, target) || n == 0)
        return qkv__op_fail(t, op->name, "x is %s, its target %s", qkv__shape_text(t, x),
                            qkv__shape_text(t, target));
    qkv_k_loss_args args = {kind, delta, 1.0 / (double)n, false};
    qkv_tensor *y = qkv__new_item(t, args.scale * t->k->loss(&t->exec, qkv__real(in[0]),
                                                             qkv__real(in[1]), &args, n));
    return qkv__record(t, op, 2, in, 1, &y, &args, sizeof args);
}

static const qkv_op mse_op = {.name = "mse_loss", .backward = loss_backward};
static const qkv_op l1_op = {.name = "l1_loss", .backward = loss_backward};
static const qkv_op huber_op = {.name = "huber_loss", .backward = loss_backward};
static const qkv_op binary_op = {.name = "binary_loss", .backward = loss_backward};

qkv_tensor *qkv_mse_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target)
{
    return op_losses_loss(t, &mse_op, x, target, QKV_K_SQUARED, 0);
}

qkv_tensor *qkv_l1_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target)
{
    return op_losses_loss(t, &l1_op, x, target, QKV_K_ABSOLUTE, 0);
}

qkv_tensor *qkv_huber_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target, double delta)
{
    if (!(delta > 0))
        return qkv__op_fail(t, "huber_loss", "delta %g is not positive", delta);
    return op_losses_loss(t, &huber_op, x, target, QKV_K_HUBER, delta);
}

qkv_tensor *qkv_bce_with_logits_loss(qkv_tape *t, qkv_tensor *logits, qkv_tensor *target)
{
    return op_losses_loss(t, &binary_op, logits, target, QKV_K_BINARY, 0);
}
