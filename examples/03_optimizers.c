/* 03_optimizers.c - the optimisers walk down one valley, each with its own rate.
 *
 * f(x) = (x0^2 + 25 x1^2) / 2 is 25 times steeper across than along: plain gradient descent
 * must take steps small enough for the steep direction and crawls along the flat one.    */
#include <stdio.h>

#include <qkv.h>

enum { STEPS = 60 };

typedef struct {
    const char *name;
    qkv_optimizer_kind kind;
    double momentum;
    double lr;
} walker;

/* From (-4, 1) down the valley for STEPS steps; the height at the end, or -1. */
static double walk(qkv_context *ctx, qkv_tape *t, const walker *w)
{
    const size_t shape[1] = {2};
    const qkv_real steepness[2] = {1, 25};
    qkv_params *ps = NULL;
    qkv_optimizer *o = NULL;
    double height = -1;
    qkv_optimizer_options options = qkv_optimizer_defaults(w->kind);
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    options.momentum = w->momentum;
    options.weight_decay = 0;
    schedule.lr = w->lr;
    schedule.steps = STEPS;

    if (qkv_params_create(&ps, ctx) != QKV_OK) return -1;
    qkv_param *x = qkv_param_create(ps, "x", 1, shape);
    if (!x) goto done;
    qkv_param_data(x)[0] = -4;
    qkv_param_data(x)[1] = 1;
    if (qkv_optimizer_create(&o, ps, &options, NULL, 0) != QKV_OK) goto done;

    for (uint64_t step = 0; step < STEPS; step++) {
        qkv_optimizer_step_args args = {0, 0, 0};
        args.lr = qkv_schedule_lr(&schedule, step);
        qkv_tape_reset(t);
        qkv_tensor *here = qkv_use(t, x);
        qkv_tensor *c = qkv_tensor_from(t, steepness, 1, shape);
        qkv_tensor *f = qkv_scale(t, qkv_sum(t, qkv_mul(t, c, qkv_mul(t, here, here))), 0.5);
        if (qkv_backward(t, f) != QKV_OK || qkv_optimizer_step(o, &args, NULL) != QKV_OK)
            goto done;
        qkv_params_zero_grad(ps);
    }
    {
        double x0 = (double)qkv_param_data(x)[0], x1 = (double)qkv_param_data(x)[1];
        height = (x0 * x0 + 25 * x1 * x1) / 2;
        printf("%-18s rate %-5g ends at (%8.4f, %8.4f), height %.5f\n", w->name, w->lr, x0, x1,
               height);
    }
done:
    qkv_optimizer_destroy(o);
    qkv_params_destroy(ps);
    return height;
}

int main(void)
{
    const walker walkers[4] = {
        {"gradient descent", QKV_OPTIMIZER_SGD, 0, 0.04},
        {"SGD with momentum", QKV_OPTIMIZER_SGD, 0.8, 0.04},
        {"RMSprop", QKV_OPTIMIZER_RMSPROP, 0, 0.2},
        {"Adam", QKV_OPTIMIZER_ADAM, 0, 0.3},
    };
    qkv_context *ctx = NULL;
    qkv_tape *t = NULL;
    int status = 0;
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;
    if (qkv_tape_create(&t, ctx) != QKV_OK) status = 1;
    for (int i = 0; i < 4 && !status; i++) {
        double height = walk(ctx, t, &walkers[i]);
        if (!(height >= 0)) status = 1;
        else if (!(height < 20.5 / 4)) status = 2; /* the start is 20.5 high */
    }
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "an optimiser did not come down\n");
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return status;
}
