/* 13_own_network.c - a network and a loss of one's own, trained by the library's loop, stopped in
 * the middle, resumed to the same bits, saved and loaded.
 *
 * Two linear layers learn y = sin(3 x). A model type needs a name and make, a task a name and loss.
 * In exchange the loop, checkpoints, averaged weights and model directories work as they do for the
 * library's own models.                                                                         */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { HIDDEN = 32, BYTES = HIDDEN * sizeof(qkv_real), POINTS = 64, STEPS = 400, STOP = 150 };

typedef struct { qkv_linear_layer first, second; } network;

static qkv_status make(qkv_model *m)
{
    network *n = (network *)qkv_model_self(m);
    (void)qkv_linear_create(&n->first, qkv_model_params(m), "first", 1, HIDDEN);
    (void)qkv_linear_create(&n->second, qkv_model_params(m), "second", HIDDEN, 1);
    return QKV_OK; /* a parameter that could not be made fails the model anyway */
}

/* The batch is a function of the step, as everything here: that is what resuming needs. */
static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    const network *n = (const network *)self;
    const size_t shape[2] = {POINTS, 1};
    qkv_real x[POINTS], y[POINTS];
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = (qkv_real)sin((double)(part->step * POINTS + i));
        y[i] = (qkv_real)sin(3 * (double)x[i]);
    }
    qkv_tensor *h = qkv_linear_forward(&n->first, t, qkv_tensor_from(t, x, 2, shape), QKV_ACT_TANH);
    h = qkv_linear_forward(&n->second, t, h, QKV_ACT_NONE);
    return qkv_mse_loss(t, h, qkv_tensor_from(t, y, 2, shape));
}

static bool until(void *user, const qkv_train_event *e) /* false: save and stop */
{
    return e->kind != QKV_TRAIN_STEP || e->step < *(const uint64_t *)user;
}

/* A new model, trained up to a step: from scratch, or from where dir's last run stopped. */
static qkv_status train(qkv_model **m, qkv_context *ctx, const char *dir, bool resume, uint64_t to)
{
    const qkv_task_type type = qkv_task_type_defaults("sine", loss);
    qkv_train_options o = qkv_train_defaults();
    o.steps = STEPS;
    o.ema = 0.98; /* averaged weights are what is saved */
    if (qkv_model_create(m, ctx, qkv_model_type_find(ctx, "mine", NULL), NULL) ||
        qkv_model_init(*m, 1)) return qkv_context_status(ctx);
    qkv_task task = {&type, qkv_model_self(*m), *m, 1, false};
    return qkv_train(&task, &o, NULL, NULL, dir, resume, until, &to, NULL);
}

int main(void)
{
    const qkv_model_type type = qkv_model_type_defaults("mine", make, sizeof(network));
    qkv_context *ctx = NULL;
    qkv_model *m[4] = {NULL, NULL, NULL, NULL};
    const qkv_real *w[4];
    if (qkv_context_create(&ctx, NULL)) return 1;
    if (qkv_model_type_register(ctx, &type) || train(&m[0], ctx, "straight", false, STEPS) ||
        train(&m[1], ctx, "stopped", false, STOP) || train(&m[2], ctx, "stopped", true, STEPS) ||
        qkv_hub_load(&m[3], ctx, "stopped")) /* config.json says whose it is */
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    for (int i = 0; i < 4; i++) w[i] = qkv_param_data(qkv_params_at(qkv_model_params(m[i]), 0));
    const int same = !memcmp(w[0], w[2], BYTES) && !memcmp(w[0], w[3], BYTES) &&
                     memcmp(w[0], w[1], BYTES); /* what was stopped is not there yet */
    puts(same ? "straight, resumed and loaded: the same bits" : "not the same");
    for (int i = 0; i < 4; i++) qkv_model_destroy(m[i]);
    qkv_context_destroy(ctx);
    return !same;
}
