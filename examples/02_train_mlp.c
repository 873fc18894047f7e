/* 02_train_mlp.c - a network, an activation and a loss of one's own learn y = sin(3 x).
 *
 * Tensors live until the tape's next step, parameters as long as the model. An op is a forward and
 * a backward function; its gradient is checked against differences before anything is trained. The
 * library's loop does the rest.                                                                  */
#include <math.h>
#include <stdio.h>

#include <qkv.h>

enum { N = 64, HIDDEN = 32, STEPS = 600 };

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
    for (size_t i = 0; i < c->count; i++)
        c->out[i] = c->in[0][i] * (qkv_real)exp(-(double)(c->in[0][i] * c->in[0][i]));
}

static void backward_bump(const qkv_op_call *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const qkv_real square = c->in[0][i] * c->in[0][i];
        c->grad_in[0][i] = c->grad_out[i] * (1 - 2 * square) * (qkv_real)exp(-(double)square);
    }
}

static const qkv_op_type bump = {"bump", NULL, forward_bump, backward_bump};

/* The mean squared error at N points between -1 and 1. */
static qkv_tensor *error(void *self, qkv_tape *t)
{
    const network *n = (const network *)self;
    const size_t shape[2] = {N, 1};
    qkv_real x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (qkv_real)(-1.0 + 2.0 * i / (N - 1));
        y[i] = (qkv_real)sin(3 * (double)x[i]);
    }
    qkv_tensor *h = qkv_tensor_from(t, x, 2, shape);
    h = qkv_linear_forward(&n->first, t, h, QKV_ACT_NONE);
    h = qkv_linear_forward(&n->second, t, qkv_apply(t, &bump, 1, &h, NULL, 0), QKV_ACT_NONE);
    return qkv_mse_loss(t, h, qkv_tensor_from(t, y, 2, shape));
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    return part->count ? error(self, t) : NULL; /* all points are in every batch */
}

static qkv_status train(qkv_model *m, qkv_train_result *result)
{
    const qkv_task_type sine = qkv_task_type_defaults("sine", loss);
    qkv_task task = {&sine, qkv_model_self(m), m, 1, false};
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    qkv_train_options o = qkv_train_defaults();
    schedule.lr = 0.02;
    o.steps = STEPS;
    return qkv_train(&task, &o, NULL, &schedule, NULL, false, NULL, NULL, result);
}

int main(void)
{
    const qkv_model_type type = qkv_model_type_defaults("bumps", make, sizeof(network));
    qkv_context *ctx = NULL;
    qkv_model *m = NULL;
    qkv_train_result result;
    if (qkv_context_create(&ctx, NULL)) return 1;
    if (qkv_model_create(&m, ctx, &type, NULL) || qkv_model_init(m, 1) ||
        qkv_gradient_check(qkv_model_params(m), error, qkv_model_self(m), NULL, NULL) ||
        train(m, &result))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    printf("after %d steps the mean squared error is %.6f\n", STEPS, result.train_loss);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return result.train_loss > 1e-3;
}
