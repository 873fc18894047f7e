/* 09_image_network.c - convolutions, batch norm, pooling, a residual branch, dropout and a dense
 * layer, put together by hand, learn to tell rows from columns under noise.
 *
 *     image 16 x 16 -> convolution, pool 8 x 8 -> x + branch(x), where the branch is another
 *     convolution -> batch norm, ReLU -> pool 4 x 4 -> dropout -> dense -> a number for each class
 *
 * Batch norm and dropout do one thing in training and another afterwards: the tape's mode says
 * which. The network and its loss are this program's own, the rest is the library's. */
#include <stdio.h>

#include <qkv.h>

enum { SIDE = 16, CHANNELS = 8, FLAT = SIDE / 4 * SIDE / 4 * CHANNELS, BATCH = 8, STEPS = 400 };

typedef struct {
    qkv_param *first, *branch; /* (CHANNELS, 3, 3, input channels); a bias would be the norm's */
    qkv_batch_norm_layer norm;
    qkv_linear_layer out;
} network;

static qkv_status make(qkv_model *m)
{
    const size_t first[4] = {CHANNELS, 3, 3, 1}, branch[4] = {CHANNELS, 3, 3, CHANNELS};
    network *n = (network *)qkv_model_self(m);
    n->first = qkv_param_create(qkv_model_params(m), "first", 4, first);
    n->branch = qkv_param_create(qkv_model_params(m), "branch", 4, branch);
    (void)qkv_batch_norm_create(&n->norm, qkv_model_params(m), "norm", CHANNELS);
    return qkv_linear_create(&n->out, qkv_model_params(m), "out", FLAT, 2) ? QKV_OK : QKV_E_MEMORY;
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    static const int32_t classes[BATCH] = {0, 1, 0, 1, 0, 1, 0, 1}; /* columns, rows */
    const size_t shape[4] = {BATCH, SIDE, SIDE, 1}, flat[2] = {BATCH, FLAT};
    const qkv_conv_options around = {1, 1, 1, 1, 1}; /* stride; zeros on four sides */
    const network *n = (const network *)self;
    qkv_real pixels[BATCH * SIDE * SIDE];
    qkv_rng random;
    qkv_rng_init(&random, 1, part->step); /* each step has images of its own */
    for (int i = 0; i < BATCH * SIDE * SIDE; i++)
        pixels[i] = (qkv_real)(qkv_rng_normal(&random) +
                               (classes[i / SIDE / SIDE] ? i / SIDE : i) % SIDE / 2 % 2);
    qkv_tensor *x = qkv_tensor_from(t, pixels, 4, shape);
    x = qkv_max_pool2d(t, qkv_conv2d(t, x, qkv_use(t, n->first), NULL, &around), 2, NULL);
    x = qkv_add(t, x, qkv_conv2d(t, x, qkv_use(t, n->branch), NULL, &around));
    x = qkv_activate(t, qkv_batch_norm_forward(&n->norm, t, x), QKV_ACT_RELU);
    x = qkv_reshape(t, qkv_max_pool2d(t, x, 2, NULL), 2, flat);
    x = qkv_linear_forward(&n->out, t, qkv_dropout(t, x, 0.2, 0), QKV_ACT_NONE);
    return qkv_cross_entropy(t, x, qkv_tensor_ids(t, classes, 1, flat), NULL);
}

int main(void)
{
    const qkv_model_type type = qkv_model_type_defaults("stripes", make, sizeof(network));
    const qkv_task_type stripes = qkv_task_type_defaults("stripes", loss);
    const qkv_micro_batch unseen = {STEPS, 0, 0, BATCH, BATCH, NULL, NULL};
    qkv_train_options o = qkv_train_defaults();
    qkv_context *ctx;
    qkv_tape *t;
    qkv_task task = {&stripes, NULL, NULL, 1, false};
    o.steps = STEPS;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx)) return 1;
    if (qkv_model_create(&task.model, ctx, &type, NULL) || qkv_model_init(task.model, 1)) return 1;
    task.self = qkv_model_self(task.model);
    if (qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    qkv_tape_mode(t, false, false); /* nothing is recorded or dropped, the norm is a fixed one */
    const double nats = (double)qkv_item(t, loss(task.self, t, &unseen));
    printf("images never seen: %.3f nats\n", nats);
    qkv_tape_destroy(t);
    qkv_model_destroy(task.model);
    qkv_context_destroy(ctx);
    return !(nats < 0.1);
}
