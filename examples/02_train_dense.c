/* 02_train_dense.c - a small network learns y = sin(3 x), the update written by hand.
 *
 * Parameters outlive steps; tensors live until qkv_tape_reset. Every step records
 * the forward pass, goes backward, and subtracts rate times gradient.             */
#include <math.h>
#include <stdio.h>

#include <qkv.h>

enum { N = 64, HIDDEN = 32, STEPS = 1000 };

typedef struct {
    qkv_param *w1, *b1, *w2, *b2;
} network;

static int create_network(network *net, qkv_params *ps)
{
    const size_t w1[2] = {HIDDEN, 1}, b1[1] = {HIDDEN}, w2[2] = {1, HIDDEN}, b2[1] = {1};
    net->w1 = qkv_param_create(ps, "first.weight", 2, w1);
    net->b1 = qkv_param_create(ps, "first.bias", 1, b1);
    net->w2 = qkv_param_create(ps, "second.weight", 2, w2);
    net->b2 = qkv_param_create(ps, "second.bias", 1, b2);
    if (!net->w1 || !net->b1 || !net->w2 || !net->b2) return 1;
    for (int i = 0; i < HIDDEN; i++) { /* spread over the inputs' range, in both directions */
        qkv_param_data(net->w1)[i] = (qkv_real)(3 * cos(i));
        qkv_param_data(net->b1)[i] = (qkv_real)(2 * sin(2 * i));
        qkv_param_data(net->w2)[i] = (qkv_real)(0.3 * cos(3 * i));
    }
    return 0;
}

/* x (N, 1) -> (N, 1) */
static qkv_tensor *forward(const network *net, qkv_tape *t, qkv_tensor *x)
{
    qkv_tensor *h = qkv_linear(t, x, qkv_use(t, net->w1), qkv_use(t, net->b1), QKV_ACT_TANH);
    return qkv_linear(t, h, qkv_use(t, net->w2), qkv_use(t, net->b2), QKV_ACT_NONE);
}

static void descend(qkv_params *ps, qkv_real rate)
{
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        const qkv_real *gradient = qkv_param_grad(p);
        if (!gradient) continue;
        for (size_t j = 0; j < qkv_param_count(p); j++)
            qkv_param_data(p)[j] -= rate * gradient[j];
        qkv_param_touch(p);
    }
    qkv_params_zero_grad(ps);
}

static int run(qkv_tape *t, qkv_params *ps)
{
    network net;
    qkv_real x_data[N], y_data[N];
    const size_t shape[2] = {N, 1};
    double loss = 0;
    if (create_network(&net, ps)) return 1;
    for (int i = 0; i < N; i++) {
        x_data[i] = (qkv_real)(-1.0 + 2.0 * i / (N - 1));
        y_data[i] = (qkv_real)sin(3 * (double)x_data[i]);
    }
    for (int step = 1; step <= STEPS; step++) {
        qkv_tape_reset(t);
        qkv_tensor *x = qkv_tensor_wrap(t, x_data, 2, shape);
        qkv_tensor *y = qkv_tensor_wrap(t, y_data, 2, shape);
        qkv_tensor *error = qkv_mse_loss(t, forward(&net, t, x), y);
        if (qkv_backward(t, error) != QKV_OK) return 1;
        loss = (double)qkv_item(t, error);
        descend(ps, 0.05f);
        if (step == 1 || step % 200 == 0) printf("step %4d  mean squared error %.6f\n", step, loss);
    }
    return loss <= 1e-3 ? 0 : 2;
}

int main(void)
{
    qkv_context *ctx = NULL;
    qkv_tape *t = NULL;
    qkv_params *ps = NULL;
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;
    int status = 1;
    if (qkv_tape_create(&t, ctx) == QKV_OK && qkv_params_create(&ps, ctx) == QKV_OK)
        status = run(t, ps);
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the network did not learn the sine\n");
    qkv_tape_destroy(t);
    qkv_params_destroy(ps);
    qkv_context_destroy(ctx);
    return status;
}
