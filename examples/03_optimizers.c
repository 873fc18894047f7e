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
    double momentum, lr;
} walker;

/* From (-4, 1), which is 20.5 high, down the valley for STEPS steps: is the end far below? */
static bool walk(qkv_context *ctx, qkv_tape *t, const walker *w)
{
    const size_t shape[1] = {2};
    const qkv_real steepness[2] = {1, 25};
    double height = 0;
    qkv_params *ps;
    qkv_optimizer *o;
    qkv_optimizer_options options = qkv_optimizer_defaults(w->kind);
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    options.momentum = w->momentum;
    schedule.lr = w->lr;
    schedule.steps = STEPS;
    if (qkv_params_create(&ps, ctx)) return false;
    qkv_param *x = qkv_param_create(ps, "x", 1, shape);
    if (!x || qkv_optimizer_create(&o, ps, &options, NULL, 0)) return false;
    qkv_param_data(x)[0] = -4;
    qkv_param_data(x)[1] = 1;
    for (uint64_t step = 0; step < STEPS; step++) {
        const qkv_optimizer_step_args args = {qkv_schedule_lr(&schedule, step), 0, 0};
        qkv_tape_reset(t);
        qkv_tensor *here = qkv_use(t, x), *c = qkv_tensor_from(t, steepness, 1, shape);
        qkv_tensor *f = qkv_scale(t, qkv_sum(t, qkv_mul(t, c, qkv_mul(t, here, here))), 0.5);
        if (qkv_backward(t, f) || qkv_optimizer_step(o, &args, NULL)) return false;
        qkv_params_zero_grad(ps);
        height = (double)qkv_item(t, f);
    }
    printf("%-18s rate %-5g ends at (%8.4f, %8.4f), height %.5f\n", w->name, w->lr,
           (double)qkv_param_data(x)[0], (double)qkv_param_data(x)[1], height);
    qkv_optimizer_destroy(o);
    qkv_params_destroy(ps);
    return height < 20.5 / 4;
}

int main(void)
{
    const walker walkers[4] = {
        {"gradient descent", QKV_OPTIMIZER_SGD, 0, 0.04},
        {"SGD with momentum", QKV_OPTIMIZER_SGD, 0.8, 0.04},
        {"RMSprop", QKV_OPTIMIZER_RMSPROP, 0, 0.2},
        {"Adam", QKV_OPTIMIZER_ADAM, 0, 0.3},
    };
    qkv_context *ctx;
    qkv_tape *t;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx)) return 1;
    for (int i = 0; i < 4; i++)
        if (!walk(ctx, t, &walkers[i]))
            return fprintf(stderr, "%s: %s\n", walkers[i].name, qkv_context_message(ctx)), 1;
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return 0;
}
