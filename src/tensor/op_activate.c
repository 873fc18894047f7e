/* op_activate.c - elementwise activations, gated activations, softmax over the last axis. */
#include "tensor/tape.h"

_Static_assert((int)QKV_ACT_COUNT == (int)QKV_K_ACT_COUNT, "kernels know every activation");

/* ---- activate ---------------------------------------------------------------------------- */

/* Parameters of the kernels that hold bf16: all or none (qkv_exec). */
enum { ACT_ALL = 3, ACT_BWD_ALL = 7, GATED_ALL = 7, GATED_BWD_ALL = 31 };

static void activate_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_activation *act = n->params;
    const qkv_tensor *x = n->in[0];
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(x) ? ACT_BWD_ALL : 0);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->act_bwd(&e, dx, qkv__real(x), qkv__grad_out(t, n, 0), (qkv_k_act)*act, acc,
                      qkv_count(x));
}

static void activate_forward(qkv_tape *t, qkv_activation act, qkv_tensor *y, const qkv_tensor *x)
{
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(y) ? ACT_ALL : 0);
    t->k->act(&e, qkv__real(y), qkv__real(x), (qkv_k_act)act, qkv_count(x));
}

static void activate_again(qkv_tape *t, const qkv__node *n)
{
    const qkv_activation *act = n->params;
    activate_forward(t, *act, n->out[0], n->in[0]);
}

static const qkv_op activate_op = {.name = "activate", .backward = activate_backward,
                                   .again = activate_again};

bool qkv__known_act(qkv_tape *t, const char *op, qkv_activation act)
{
    return (unsigned)act < QKV_ACT_COUNT ||
           qkv__op_fail(t, op, "no activation has the number %d", (int)act) != NULL;
}

qkv_tensor *qkv_activate(qkv_tape *t, qkv_tensor *x, qkv_activation act)
{
    if (!t->rounding)
        x = qkv__widened(t, x);
    if (!(qkv__is_rounded(x) ? qkv__ready(t, "activate", 1, &x)
                             : qkv__ready_reals(t, "activate", 1, &x)) ||
        !qkv__known_act(t, "activate", act))
        return NULL;
    if (act == QKV_ACT_NONE)
        return x;
    if (!qkv__ready_rounded(t, "activate", 1, &x))
        return NULL;
    qkv_tensor *y = qkv__is_rounded(x) ? qkv__new(t, x->dtype, x->ndim, x->shape)
                                       : qkv__new_remade(t, x->ndim, x->shape, 1, &x);
    if (!y)
        return NULL;
    activate_forward(t, act, y, x);
    return qkv__record(t, &activate_op, 1, &x, 1, &y, &act, sizeof act);
}

/* ---- gated ------------------------------------------------------------------------------- */

typedef struct {
    qkv_activation act;
    size_t ldg, ldu; /* from one row to the next */
} gated_params;

static void gated_backward(qkv_tape *t, const qkv__node *n)
{
    const gated_params *p = n->params;
    qkv_tensor *gate = n->in[0], *up = n->in[1];
    const qkv_real *dy = qkv__grad_out(t, n, 0), *g = qkv__real(gate), *u = qkv__real(up);
    size_t N = qkv__rows(gate), C = qkv__channels(gate);
    bool acc_gate = false, acc_up = false;
    qkv_real *dgate = qkv__grad(t, gate, &acc_gate), *dup = qkv__grad(t, up, &acc_up);
    qkv_k_act act = (qkv_k_act)p->act;
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(n->out[0]) ? GATED_BWD_ALL : 0);
    if (dgate && gate->root == up->root && !(gate->part >= 0 && up->part >= 0)) {
        /* They may overlap, and the kernel's outputs must not. */
        t->k->gated_bwd(&e, dgate, p->ldg, acc_gate, NULL, 0, false, g, p->ldg, u, p->ldu,
                        dy, act, N, C);
        dgate = NULL;
    }
    if (dgate || dup)
        t->k->gated_bwd(&e, dgate, p->ldg, acc_gate, dup, p->ldu, acc_up, g, p->ldg, u,
                        p->ldu, dy, act, N, C);
}

static void gated_forward(qkv_tape *t, const gated_params *p, qkv_tensor *y, qkv_tensor *const *in)
{
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(y) ? GATED_ALL : 0);
    t->k->gated(&e, qkv__real(y), qkv__real(in[0]), p->ldg, qkv__real(in[1]), p->ldu,
                (qkv_k_act)p->act, qkv__rows(y), qkv__channels(y));
}

static void gated_again(qkv_tape *t, const qkv__node *n)
{
    gated_forward(t, n->params, n->out[0], n->in);
}

static const qkv_op gated_op = {.name = "gated", .backward = gated_backward, .again = gated_again};

qkv_tensor *qkv_gated(qkv_tape *t, qkv_tensor *gate, qkv_tensor *up, qkv_activation act)
{
    qkv_tensor *in[] = {gate, up};
    bool rounded = t->rounding && qkv__is_rounded(gate) && qkv__is_rounded(up);
    if (!rounded) {
        gate = in[0] = qkv__widened(t, gate);
        up = in[1] = qkv__widened(t, up);
    }
    if (!(rounded ? qkv__ready(t, "gated", 2, in) : qkv__ready_reals(t, "gated", 2, in)) ||
        !qkv__known_act(t, "gated", act))
        return NULL;
    if (!qkv__same_shape(gate, up))
        return qkv__op_fail(t, "gated", "gate is %s, up %s", qkv__shape_text(t, gate),
                            qkv__shape_text(t, up));
    gated_params p = {.act = act};
    if (!(in[0] = qkv__even_rows(t, gate, &p.ldg)) || !(in[1] = qkv__even_rows(t, up, &p.ldu)))
        return NULL;
    qkv_tensor *y = rounded ? qkv__new(t, gate->dtype, gate->ndim, gate->shape)
                            : qkv__new_remade(t, gate->ndim, gate->shape, 2, in);
    if (!y)
        return NULL;
    gated_forward(t, &p, y, in);
    return qkv__record(t, &gated_op, 2, in, 1, &y, &p, sizeof p);
}

/* ---- softmax ----------------------------------------------------------------------------- */

static void softmax_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_tensor *y = n->out[0];
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->softmax_bwd(&t->exec, dx, qkv__real(y), qkv__grad_out(t, n, 0), acc, qkv__rows(y),
                          qkv__channels(y));
}

static const qkv_op softmax_op = {.name = "softmax", .backward = softmax_backward};

qkv_tensor *qkv_softmax(qkv_tape *t, qkv_tensor *x)
{
    qkv_tensor *y = qkv__ready_map(t, "softmax", &x);
    if (!y)
        return NULL;
    t->k->softmax(&t->exec, qkv__real(y), qkv__real(x), qkv__rows(x), qkv__channels(x));
    return qkv__record(t, &softmax_op, 1, &x, 1, &y, NULL, 0);
}
