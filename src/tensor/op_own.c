/* op_own.c - ops of a program's own: its functions see dense host memory and no more. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "qkv/extend.h"
#include "tensor/tape.h"

void *qkv_tape_fail(qkv_tape *t, const char *what, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bool first = t->status == QKV_OK;
    (void)qkv__op_fail(t, what, "%s", text);
    if (first)
        t->status = qkv_fail(t->ctx, QKV_E_ARGUMENT, "%s", qkv_context_message(t->ctx));
    return NULL;
}

typedef struct {
    const qkv_op_type *type;
    const void *params; /* in step memory */
    qkv_real *saved;    /* likewise, of the host */
    size_t scratch;
} own_params;

/* The values of the inputs, and what a call has beside what only one direction needs. */
typedef struct {
    qkv_op_call c;
    const qkv_real *in[QKV_OP_INPUTS];
    const int32_t *ids[QKV_OP_INPUTS];
} call;

static void begin_call(call *k, qkv_tape *t, const own_params *p, int n, qkv_tensor *const *x)
{
    *k = (call){.c = {.tape = t, .params = p->params, .inputs = n, .x = x, .saved = p->saved}};
    k->c.in = k->in;
    k->c.ids = k->ids;
    for (int i = 0; i < n; i++) {
        k->in[i] = x[i] ? qkv_data(t, x[i]) : NULL;
        k->ids[i] = x[i] ? qkv_data_ids(t, x[i]) : NULL;
    }
}

/* out: the output's numbers in the host's memory. */
static void set_output(call *k, const qkv_tensor *y, qkv_real *out)
{
    k->c.y = y;
    k->c.count = qkv_count(y);
    k->c.out = out;
}

/* n numbers of the host for the duration of the op. */
static qkv_real *host_scratch(qkv_tape *t, size_t n)
{
    return n ? qkv__draft(t, qkv__scratch(t, n), n) : NULL;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* The gradient that the op fills: where it goes to, or scratch when something is there. */
typedef struct {
    qkv_real *to, *made;
} share;

static void run_backward(qkv_tape *t, const qkv__node *n, const own_params *p)
{
    call k;
    share shares[QKV_OP_INPUTS] = {{NULL, NULL}};
    qkv_real *grads[QKV_OP_INPUTS] = {NULL};
    begin_call(&k, t, p, n->n_in, n->in);
    const qkv_real *out = qkv_data(t, n->out[0]), *dy = qkv__grad_out(t, n, 0);
    set_output(&k, n->out[0], (qkv_real *)(uintptr_t)out);
    k.c.grad_out = qkv__read(t, dy, k.c.count * sizeof *dy);
    for (int i = 0; i < n->n_in; i++) {
        bool acc = false;
        shares[i].to = qkv__wants(t, n->in[i]) ? qkv__grad(t, n->in[i], &acc) : NULL;
        size_t count = shares[i].to ? qkv_count(n->in[i]) : 0;
        shares[i].made = acc ? qkv__scratch(t, count) : NULL;
        grads[i] = qkv__draft(t, acc ? shares[i].made : shares[i].to, count);
    }
    k.c.grad_in = grads;
    k.c.scratch = host_scratch(t, p->scratch);
    if (t->status || qkv__context_meta(t->ctx))
        return;
    p->type->backward(&k.c);
    for (int i = 0; i < n->n_in; i++) {
        const share *s = &shares[i];
        if (s->to)
            qkv__bring(t, s->made ? s->made : s->to, grads[i], qkv_count(n->in[i]));
        if (s->made)
            t->k->axpy(&t->exec, s->to, s->made, 1, true, qkv_count(n->in[i]));
    }
}

static void own_backward(qkv_tape *t, const qkv__node *n)
{
    const own_params *p = n->params;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    if (qkv__grad_out(t, n, 0))
        run_backward(t, n, p);
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op own_op = {.name = "own", .backward = own_backward};

/* ---- forward -------------------------------------------------------------------------------- */

/* Dense inputs, their list in x. */
static bool take_inputs(qkv_tape *t, const qkv_op_type *op, int n, qkv_tensor *const *inputs,
                        qkv_tensor **x)
{
    if (t->status)
        return false;
    if (n < 1 || n > QKV_OP_INPUTS)
        return qkv_tape_fail(t, op->name, "%d inputs: 1 to %d expected", n, QKV_OP_INPUTS);
    if (!qkv__ready(t, op->name, 1, inputs))
        return false;
    for (int i = 0; i < n; i++) {
        x[i] = inputs[i];
        if (x[i] && x[i]->dtype == QKV_REAL)
            x[i] = qkv_contiguous(t, x[i]);
        else if (x[i] && !qkv__is_contiguous(x[i]))
            return qkv_tape_fail(t, op->name, "input %d: ids that are a strided view", i);
    }
    return !t->status;
}

static bool find_shape(qkv_tape *t, const own_params *p, call *k, qkv_op_shape *s)
{
    *s = (qkv_op_shape){.ndim = qkv_ndim(k->c.x[0])};
    for (int i = 0; i < s->ndim; i++)
        s->shape[i] = qkv_dim(k->c.x[0], i);
    if (p->type->shape && !p->type->shape(&k->c, s))
        return t->status ? false : qkv_tape_fail(t, p->type->name, "inputs refused");
    if (s->ndim < 0 || s->ndim > QKV_MAX_DIMS)
        return qkv_tape_fail(t, p->type->name, "%d dimensions: at most %d expected", s->ndim,
                             QKV_MAX_DIMS) != NULL;
    return !t->status;
}

qkv_tensor *qkv_apply(qkv_tape *t, const qkv_op_type *op, int n, qkv_tensor *const *inputs,
                      const void *params, size_t params_size)
{
    qkv_tensor *x[QKV_OP_INPUTS];
    own_params p = {.type = op};
    qkv_op_shape s;
    call k;
    if (!take_inputs(t, op, n, inputs, x))
        return NULL;
    void *copy = params_size ? qkv__step_alloc(t, params_size) : NULL;
    if (copy)
        memcpy(copy, params, params_size);
    p.params = copy;
    begin_call(&k, t, &p, n, x);
    if (!find_shape(t, &p, &k, &s))
        return NULL;
    qkv_tensor *y = qkv__new(t, QKV_REAL, s.ndim, s.shape);
    p.saved = y && s.saved ? qkv__step_alloc(t, s.saved * sizeof *p.saved) : NULL;
    p.scratch = s.scratch;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    k.c.saved = p.saved;
    k.c.scratch = y ? host_scratch(t, s.scratch) : NULL;
    qkv_real *out = y ? qkv__draft(t, qkv__real(y), qkv_count(y)) : NULL;
    if (!t->status) {
        set_output(&k, y, out);
        if (!qkv__context_meta(t->ctx))
            op->forward(&k.c);
        qkv__bring(t, qkv__real(y), out, k.c.count);
    }
    qkv__arena_release(t->exec.scratch, mark);
    if (t->status || !op->backward)
        return t->status ? NULL : y;
    return qkv__record(t, &own_op, n, x, 1, &y, &p, sizeof p);
}
