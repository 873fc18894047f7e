/* op_group_norm.c - group norm: neighbouring channels of an image normalised together, over all
 * its places (Wu and He 2018), and the SiLU that often follows it, in one pass. */
#include "tensor/tape.h"

typedef struct {
    qkv_k_group_norm_args args;
    qkv_real *mean, *rstd; /* (B, groups) */
} group_params;

/* Parameters of the kernels that may hold bf16 (qkv_exec). */
enum { GROUP_Y = 1, GROUP_X = 1 << 3 };
enum { GROUP_BWD_Y = 1 << 3, GROUP_BWD_X = 1 | 1 << 4 };

static void group_norm_backward(qkv_tape *t, const qkv__node *n)
{
    const group_params *p = n->params;
    qkv_tensor *x = n->in[0], *weight = n->in[1], *bias = n->in[2];
    const qkv_exec e = qkv__exec_bf16(t, (qkv__is_rounded(n->out[0]) ? GROUP_BWD_Y : 0) |
                                             (qkv__is_rounded(x) ? GROUP_BWD_X : 0));
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    const size_t C = p->args.C;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *dweight = qkv__wants(t, weight) ? qkv__scratch(t, C) : NULL;
    qkv_real *dbias = qkv__wants(t, bias) ? qkv__scratch(t, C) : NULL;
    bool acc = false;
    qkv_real *dx = qkv__grad(t, x, &acc);
    if (!t->status)
        t->k->group_norm_bwd(&e, dx, acc, dweight, dbias, dy, qkv__real(x), p->mean, p->rstd,
                             qkv__real(weight), qkv__real(bias), &p->args);
    qkv__grad_add(t, weight, dweight, 1.0, C);
    qkv__grad_add(t, bias, dbias, 1.0, C);
    qkv__arena_release(t->exec.scratch, mark);
}

static void group_norm_forward(qkv_tape *t, const group_params *p, qkv_tensor *y,
                               qkv_tensor *const *in)
{
    const qkv_exec e = qkv__exec_bf16(t, (qkv__is_rounded(y) ? GROUP_Y : 0) |
                                             (qkv__is_rounded(in[0]) ? GROUP_X : 0));
    t->k->group_norm(&e, qkv__real(y), p->mean, p->rstd, qkv__real(in[0]), qkv__real(in[1]),
                     qkv__real(in[2]), &p->args);
}

/* The statistics are those of the first time. */
static void group_norm_again(qkv_tape *t, const qkv__node *n)
{
    group_norm_forward(t, n->params, n->out[0], n->in);
}

static const qkv_op group_norm_op = {.name = "group_norm", .backward = group_norm_backward,
                                     .again = group_norm_again};

qkv_tensor *qkv_group_norm(qkv_tape *t, qkv_tensor *x, qkv_tensor *weight, qkv_tensor *bias,
                           size_t groups, double eps, bool silu)
{
    qkv_tensor *in[] = {x, weight, bias};
    if (!qkv__ready_rounded(t, "group_norm", 3, in))
        return NULL;
    size_t C = qkv__channels(x);
    if (x->ndim < 2 || !qkv_count(x) || !groups || C % groups || !qkv__is_vector(weight, C) ||
        !qkv__is_vector(bias, C))
        return qkv__op_fail(t, "group_norm", "x %s, weight %s, bias %s and %zu groups of channels "
                            "do not fit", qkv__shape_text(t, x), qkv__shape_text(t, weight),
                            qkv__shape_text(t, bias), groups);
    size_t B = x->shape[0];
    group_params p = {.args = {.B = B, .N = qkv__rows(x) / B, .C = C, .G = groups, .eps = eps,
                               .silu = silu}};
    const qkv_dtype dtype = qkv__dtype_of_output(t, 3, in);
    qkv_tensor *y = dtype == QKV_REAL ? qkv__new_remade(t, x->ndim, x->shape, 3, in)
                                      : qkv__new(t, dtype, x->ndim, x->shape);
    p.mean = qkv__step_memory(t, B * groups * sizeof *p.mean);
    p.rstd = qkv__step_memory(t, B * groups * sizeof *p.rstd);
    if (t->status)
        return NULL;
    group_norm_forward(t, &p, y, in);
    return qkv__record(t, &group_norm_op, 3, in, 1, &y, &p, sizeof p);
}
