/* 02_train_mlp.c - a network, an activation and a loss of one's own learn y = sin(3 x).
 *
 * Tensors live until the tape's next step, parameters as long as the model. An op is a forward and
 * a backward function; its gradient is checked against differences before anything is trained. The
 * library's loop does the rest.                                                                  */
#include <math.h>
#include <stdio.h>

#include <qkv.h>

enum { N = 64, HIDDEN = 32, STEPS = 4000 };

typedef struct { qkv_linear_layer first, second; } network;

static qkv_status make(qkv_model *m)
{
    network *n = (network *)qkv_model_self(m);
    (void)qkv_linear_create(&n->first, qkv_model_params(m), "first", 1, HIDDEN);
    (void)qkv_linear_create(&n->second, qkv_model_params(m), "second", HIDDEN, 1);
    return QKV_OK;
}

/* y = x exp(-x^2), so dy/dx = (1 - 2 x^2) exp(-x^2). */
static void forward_bump(const qkv_op_call *c)
{
    const qkv_real *x = c->in[0];
    for (size_t i = 0; i < c->count; i++) c->out[i] = x[i] * expf(-x[i] * x[i]);
}

static void backward_bump(const qkv_op_call *c)
{
    const qkv_real *x = c->in[0];
    for (size_t i = 0; i < c->count; i++)
        c->grad_in[0][i] = c->grad_out[i] * (1 - 2 * x[i] * x[i]) * expf(-x[i] * x[i]);
}

static const qkv_op_type bump = {"bump", NULL, forward_bump, backward_bump};

/* The mean squared error at N points between -1 and 1. */
static qkv_tensor *error(void *self, qkv_tape *t)
{
    const network *n = (const network *)self;
    const size_t shape[2] = {N, 1};
    qkv_real x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (qkv_real)(-1.0 + 2.0 * i / (N - 1));
    for (int i = 0; i < N; i++) y[i] = sinf(3 * x[i]);
    qkv_tensor *h = qkv_tensor_from(t, x, 2, shape);
    h = qkv_linear_forward(&n->first, t, h, QKV_ACT_NONE);
    h = qkv_linear_forward(&n->second, t, qkv_apply(t, &bump, 1, &h, NULL, 0), QKV_ACT_NONE);
    return qkv_mse_loss(t, h, qkv_tensor_from(t, y, 2, shape));
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    return part->count ? error(self, t) : NULL; /* all points are in every batch */
}

int main(void)
{
    const qkv_model_type type = qkv_model_type_defaults("bumps", make, sizeof(network));
    const qkv_task_type sine = qkv_task_type_defaults("sine", loss);
    qkv_train_options o = qkv_train_defaults();
    qkv_context *ctx;
    qkv_task task = {&sine, NULL, NULL, 1, false};
    qkv_train_result result;
    o.steps = STEPS;
    if (qkv_context_create(&ctx, NULL) || qkv_model_create(&task.model, ctx, &type, NULL)) return 1;
    task.self = qkv_model_self(task.model);
    if (qkv_model_init(task.model, 1) ||
        qkv_gradient_check(qkv_model_params(task.model), error, task.self, NULL, NULL) ||
        qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, &result))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    printf("after %d steps the mean squared error is %.6f\n", STEPS, result.train_loss);
    qkv_model_destroy(task.model);
    qkv_context_destroy(ctx);
    return result.train_loss > 1e-3;
}
