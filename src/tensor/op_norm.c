/* op_norm.c - layer and RMS norm over the last axis, alone or of a sum with a residual.
 *
 * norm(x + residual) is one op with two outputs: the normalised value, and the sum that a
 * pre-norm block goes on with, whose own gradient the norm's backward pass takes along. */
#include <math.h>

#include "tensor/tape.h"

typedef struct {
    qkv_k_norm_args args;
    const qkv_real *sum;   /* of the residual, which was normalised; NULL: the input was */
    qkv_real *mean, *rstd; /* (N); mean NULL for RMS */
} norm_params;

static const qkv_real *normalized(const qkv__node *n)
{
    const norm_params *p = n->params;
    return p->sum ? p->sum : qkv__real(n->in[0]);
}

/* d(loss)/ds into d, and the parameters' gradients. dy or dsum may be NULL, not both. */
static void norm_gradients(qkv_tape *t, const qkv__node *n, qkv_real *d, bool acc,
                           const qkv_real *dy, const qkv_real *dsum)
{
    const norm_params *p = n->params;
    size_t count = p->args.N * p->args.C;
    if (!dy) { /* only the sum was used */
        if (d)
            t->k->axpy(&t->exec, d, dsum, 1.0, acc, count);
        return;
    }
    enum { DY = 1 << 7 };
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(n->out[0]) ? DY : 0);
    qkv_tensor *weight = n->in[2], *bias = n->in[3];
    bool acc_weight = false, acc_bias = false;
    qkv_real *dweight = qkv__grad(t, weight, &acc_weight), *dbias = qkv__grad(t, bias, &acc_bias);
    if (d || dweight || dbias)
        t->k->norm_bwd(&e, d, acc, dweight, acc_weight, dbias, acc_bias,
                       normalized(n), p->mean, p->rstd,
                       weight ? qkv__real(weight) : NULL, dy, dsum, &p->args);
}

static void norm_backward(qkv_tape *t, const qkv__node *n)
{
    bool acc = false;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    norm_gradients(t, n, dx, acc, qkv__grad_out(t, n, 0), NULL);
}

/* Both terms get d(loss)/ds: in the same memory where neither has anything of a gradient yet; else
 * it is computed into the first, or into scratch, and added to the other. */
static void residual_norm_backward(qkv_tape *t, const qkv__node *n)
{
    const norm_params *p = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0), *dsum = NULL;
    if (n->n_out == 2)
        dsum = qkv__grad_out(t, n, 1);
    size_t count = p->args.N * p->args.C;
    bool acc = false;
    qkv_tensor *first = n->in[0], *other = n->in[1];
    if (!qkv__wants(t, first)) {
        first = other;
        other = NULL;
    }
    if (!qkv__wants(t, other)) {
        qkv_real *d = qkv__grad(t, first, &acc);
        norm_gradients(t, n, d, acc, dy, dsum);
        return;
    }
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *to = qkv__grad(t, first, &acc), *d = to;
    if (to && acc)
        d = qkv__scratch(t, count);
    if (d) {
        norm_gradients(t, n, d, false, dy, dsum);
        if (d != to)
            t->k->axpy(&t->exec, to, d, 1.0, true, count);
        if (d != to || !qkv__grad_share(t, first, other))
            qkv__grad_add(t, other, d, 1.0, count);
    }
    qkv__arena_release(t->exec.scratch, mark);
}

/* Of what was normalised, a sum with a residual or not; without statistics. */
static void norm_again(qkv_tape *t, const qkv__node *n)
{
    const norm_params *p = n->params;
    const qkv_tensor *weight = n->in[2], *bias = n->in[3];
    t->k->norm(&t->exec, qkv__real(n->out[0]), NULL, NULL, NULL, normalized(n), NULL,
               weight ? qkv__real(weight) : NULL, bias ? qkv__real(bias) : NULL, &p->args);
}

static const qkv_op norm_op = {.name = "norm", .backward = norm_backward, .again = norm_again};
static const qkv_op residual_norm_op = {.name = "residual_norm", .backward = residual_norm_backward,
                                        .again = norm_again};

/* in: x, residual, weight, bias, of which the last three may be NULL. */
static bool norm_ready(qkv_tape *t, const char *op, qkv_tensor **in)
{
    if (!qkv__ready_reals(t, op, 1, in))
        return false;
    const qkv_tensor *x = in[0];
    size_t C = qkv__channels(x);
    if (x->ndim == 0 || C == 0 || !qkv__is_vector(in[2], C) || !qkv__is_vector(in[3], C) ||
        (in[1] && (in[1]->dtype != QKV_REAL || !qkv__same_shape(x, in[1]))))
        return qkv__op_fail(t, op, "x %s, residual %s, weight %s and bias %s do not fit",
                            qkv__shape_text(t, x), qkv__shape_text(t, in[1]),
                            qkv__shape_text(t, in[2]), qkv__shape_text(t, in[3])) != NULL;
    qkv__arrive(t, in[2]);
    qkv__arrive(t, in[3]);
    in[0] = qkv_contiguous(t, in[0]);
    if (in[1])
        in[1] = qkv_contiguous(t, in[1]);
    return !t->status;
}

static qkv_tensor *new_normalized(qkv_tape *t, qkv_tensor *const *in)
{
    const qkv_dtype dtype = qkv__dtype_of_output(t, 4, in);
    return dtype == QKV_REAL ? qkv__new_remade(t, in[0]->ndim, in[0]->shape, 4, in)
                             : qkv__new(t, dtype, in[0]->ndim, in[0]->shape);
}

static qkv_exec norm_exec(const qkv_tape *t, const qkv_tensor *y)
{
    return qkv__exec_bf16(t, qkv__is_rounded(y) ? 1 : 0);
}

/* The statistics' memory, when the backward pass will want it. */
static bool norm_plan(qkv_tape *t, norm_params *p, qkv_norm_kind kind, qkv_tensor *const *in,
                      double eps)
{
    size_t N = qkv__rows(in[0]);
    *p = (norm_params){.args = {kind == QKV_NORM_RMS, eps, N, qkv__channels(in[0])}};
    if (!qkv__recording(t, 4, in))
        return true;
    p->rstd = qkv__step_memory(t, N * sizeof *p->rstd);
    if (kind == QKV_NORM_LAYER)
        p->mean = qkv__step_memory(t, N * sizeof *p->mean);
    return !t->status;
}

qkv_tensor *qkv_norm(qkv_tape *t, qkv_norm_kind kind, qkv_tensor *x, qkv_tensor *weight,
                     qkv_tensor *bias, double eps)
{
    qkv_tensor *in[] = {x, NULL, weight, bias};
    if (!norm_ready(t, "norm", in))
        return NULL;
    if (kind == QKV_NORM_NONE)
        return x;
    norm_params p;
    qkv_tensor *y = new_normalized(t, in);
    if (!y || !norm_plan(t, &p, kind, in, eps))
        return NULL;
    const qkv_exec e = norm_exec(t, y);
    t->k->norm(&e, qkv__real(y), NULL, p.mean, p.rstd, qkv__real(in[0]), NULL,
               weight ? qkv__real(weight) : NULL, bias ? qkv__real(bias) : NULL, &p.args);
    return qkv__record(t, &norm_op, 4, in, 1, &y, &p, sizeof p);
}

qkv_tensor *qkv_residual_norm(qkv_tape *t, qkv_norm_kind kind, qkv_tensor *x,
                              qkv_tensor *residual, qkv_tensor *weight, qkv_tensor *bias,
                              double eps, qkv_tensor **sum)
{
    qkv_tensor *in[] = {x, residual, weight, bias};
    if (sum)
        *sum = NULL;
    if (!qkv__ready(t, "residual_norm", 2, in) || !norm_ready(t, "residual_norm", in))
        return NULL;
    if (kind == QKV_NORM_NONE) {
        qkv_tensor *s = qkv_add(t, x, residual);
        if (sum)
            *sum = s;
        return s;
    }
    norm_params p;
    bool keep = sum || qkv__recording(t, 4, in);
    qkv_tensor *out[] = {new_normalized(t, in),
                         keep ? qkv__new_in_place(t, in[0]) : NULL};
    if (!norm_plan(t, &p, kind, in, eps) || t->status)
        return NULL;
    qkv_real *s = keep ? qkv__real(out[1]) : NULL;
    p.sum = s;
    const qkv_exec e = norm_exec(t, out[0]);
    t->k->norm(&e, qkv__real(out[0]), s, p.mean, p.rstd, qkv__real(in[0]), qkv__real(in[1]),
               weight ? qkv__real(weight) : NULL, bias ? qkv__real(bias) : NULL, &p.args);
    qkv_tensor *y = qkv__record(t, &residual_norm_op, 4, in, sum ? 2 : 1, out, &p, sizeof p);
    if (y && sum)
        *sum = out[1];
    return y;
}

/* x / sqrt(sum x^2 + eps) = C^-1/2 x / sqrt(mean x^2 + eps/C). */
qkv_tensor *qkv_l2_normalize(qkv_tape *t, qkv_tensor *x, double eps)
{
    if (!qkv__ready_reals(t, "l2_normalize", 1, &x))
        return NULL;
    double C = (double)qkv__channels(x);
    qkv_tensor *y = qkv_norm(t, QKV_NORM_RMS, x, NULL, NULL, eps / C);
    qkv__spend(t, y);
    return qkv_scale(t, y, 1.0 / sqrt(C));
}
