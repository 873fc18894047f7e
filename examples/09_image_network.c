/* 09_image_network.c - convolution, batch norm, pooling, a residual branch, dropout and dense
 * layers, put together by hand, learn to tell drawn shapes apart.
 *
 *     image 16 x 16 -> convolution, batch norm, ReLU -> pool 8 x 8 -> x + branch(x), where the
 *     branch is convolution, batch norm, ReLU, convolution, batch norm -> ReLU -> pool 4 x 4
 *     -> dense, ReLU -> dropout -> dense -> one number for each class
 *
 * Batch norm and dropout do one thing in training and another afterwards: the tape's mode says
 * which. Images that the network never saw evaluate it in the end. The network, its data and its
 * loss are this program's own; weights to begin with, batches and updates are the library's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { SIDE = 16, CLASSES = 4, CHANNELS = 16, HIDDEN = 32 };
enum { TRAIN = 1920, HELD = 400, BATCH = 32, STEPS = 480 };

typedef struct {
    qkv_param *weight; /* (CHANNELS, 3, 3, input channels); its bias would be the norm's */
    qkv_batch_norm_layer norm;
} convolution;

typedef struct {
    convolution first, branch1, branch2;
    qkv_linear_layer dense1, dense2;
} network;

typedef struct {
    qkv_real pixels[SIDE * SIDE];
    int32_t class_;
} image;

static image train[TRAIN], held[HELD];

/* ---- images --------------------------------------------------------------------------- */

static double uniform(uint32_t *random) /* [0, 1) */
{
    *random = *random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
    return (double)(*random >> 8) / 16777216;
}

/* A disc, a frame, a plus or a diagonal cross of some size somewhere, bright on dark or dark on
 * bright, under noise: neither any one pixel nor the sum of all says which. */
static void draw(image *p, uint32_t *random)
{
    const double r = 3 + 3 * uniform(random), sign = uniform(random) < 0.5 ? -1 : 1;
    const double cx = r + (SIDE - 1 - 2 * r) * uniform(random);
    const double cy = r + (SIDE - 1 - 2 * r) * uniform(random);
    p->class_ = (int32_t)(CLASSES * uniform(random));
    for (int i = 0; i < SIDE * SIDE; i++) {
        const double dx = fabs(i % SIDE - cx), dy = fabs(i / SIDE - cy);
        const double far = dx > dy ? dx : dy, near = dx > dy ? dy : dx;
        int on = 0;
        if (p->class_ == 0) on = dx * dx + dy * dy < r * r;
        if (p->class_ == 1) on = far < r && far > r - 1.5;
        if (p->class_ == 2) on = far < r && near < 1;
        if (p->class_ == 3) on = far < r && far - near < 1;
        p->pixels[i] = (qkv_real)(sign * (on ? 1 : -0.3) + 0.8 * (uniform(random) - 0.5));
    }
}

/* ---- the network ------------------------------------------------------------------------ */

static void create_convolution(convolution *c, qkv_params *ps, const char *name, size_t inputs)
{
    const size_t shape[4] = {CHANNELS, 3, 3, inputs};
    char norm[32];
    snprintf(norm, sizeof norm, "%s.norm", name);
    c->weight = qkv_param_create(ps, name, 4, shape);
    (void)qkv_batch_norm_create(&c->norm, ps, norm, CHANNELS);
}

/* What cannot be made fails the model. */
static qkv_status make(qkv_model *m)
{
    network *n = (network *)qkv_model_self(m);
    qkv_params *ps = qkv_model_params(m);
    create_convolution(&n->first, ps, "first", 1);
    create_convolution(&n->branch1, ps, "branch1", CHANNELS);
    create_convolution(&n->branch2, ps, "branch2", CHANNELS);
    (void)qkv_linear_create(&n->dense1, ps, "dense1", SIDE / 4 * SIDE / 4 * CHANNELS, HIDDEN);
    (void)qkv_linear_create(&n->dense2, ps, "dense2", HIDDEN, CLASSES);
    return QKV_OK;
}

/* x (B, H, W, inputs) -> (B, H, W, CHANNELS) */
static qkv_tensor *convolve(const convolution *c, qkv_tape *t, qkv_tensor *x)
{
    const qkv_conv_options around = {1, 1, 1, 1, 1}; /* stride; zeros on four sides */
    return qkv_batch_norm_forward(&c->norm, t,
                                  qkv_conv2d(t, x, qkv_use(t, c->weight), NULL, &around));
}

/* x (B, SIDE, SIDE, 1) -> (B, CLASSES) */
static qkv_tensor *forward(const network *n, qkv_tape *t, qkv_tensor *x)
{
    const size_t flat[2] = {x ? qkv_dim(x, 0) : 1, SIDE / 4 * SIDE / 4 * CHANNELS};
    x = qkv_activate(t, convolve(&n->first, t, x), QKV_ACT_RELU);
    x = qkv_max_pool2d(t, x, 2, NULL);
    qkv_tensor *branch = qkv_activate(t, convolve(&n->branch1, t, x), QKV_ACT_RELU);
    x = qkv_activate(t, qkv_add(t, x, convolve(&n->branch2, t, branch)), QKV_ACT_RELU);
    x = qkv_reshape(t, qkv_max_pool2d(t, x, 2, NULL), 2, flat);
    x = qkv_dropout(t, qkv_linear_forward(&n->dense1, t, x, QKV_ACT_RELU), 0.2, 0);
    return qkv_linear_forward(&n->dense2, t, x, QKV_ACT_NONE);
}

/* ---- learning and evaluating --------------------------------------------------------------- */

/* Logits of images from that one on, count of them and at most BATCH; their classes. */
static qkv_tensor *read_batch(const network *n, qkv_tape *t, const image *images, size_t count,
                              int32_t classes[BATCH])
{
    const size_t shape[4] = {count, SIDE, SIDE, 1};
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    for (size_t i = 0; x && i < count; i++) {
        memcpy(qkv_tensor_fill(x) + i * SIDE * SIDE, images[i].pixels, sizeof images->pixels);
        classes[i] = images[i].class_;
    }
    return forward(n, t, x);
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    const size_t from = (size_t)part->step * BATCH % TRAIN, shape[1] = {BATCH};
    int32_t classes[BATCH];
    qkv_tensor *logits = read_batch((const network *)self, t, train + from, BATCH, classes);
    return qkv_cross_entropy(t, logits, qkv_tensor_ids(t, classes, 1, shape), NULL);
}

/* The share of the images whose class gets the largest number. */
static qkv_status evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    int32_t classes[BATCH];
    size_t right = 0;
    (void)limit; /* so few are evaluated whole */
    for (size_t from = 0; from < HELD; from += BATCH) {
        qkv_tape_reset(t);
        qkv_tape_mode(t, false, false);
        const size_t B = HELD - from < BATCH ? HELD - from : (size_t)BATCH;
        qkv_tensor *logits = read_batch((const network *)self, t, held + from, B, classes);
        const qkv_real *x = qkv_data(t, logits);
        if (!x) return qkv_tape_status(t);
        for (size_t i = 0; i < B; i++, x += CLASSES) {
            int best = 0;
            for (int k = 1; k < CLASSES; k++)
                if (x[k] > x[best]) best = k;
            right += best == classes[i] ? 1 : 0;
        }
    }
    qkv_metrics_add(out, "accuracy", (double)right / HELD);
    out->more_is_better = true;
    return QKV_OK;
}

static bool tell(void *user, const qkv_train_event *e)
{
    (void)user;
    if (e->kind == QKV_TRAIN_EVAL)
        printf("step %3d  loss %.3f nats, %.1f %% of the images held out are right\n",
               (int)e->step, e->loss, 100 * e->metrics->item[0].value);
    return true;
}

static qkv_status learn(qkv_model *m, qkv_train_result *result)
{
    qkv_task_type shapes = qkv_task_type_defaults("shapes", loss);
    qkv_task task = {&shapes, qkv_model_self(m), m, 1, true};
    qkv_schedule constant = qkv_schedule_defaults(QKV_SCHEDULE_CONSTANT);
    qkv_train_options o = qkv_train_defaults();
    shapes.evaluate = evaluate;
    constant.lr = 3e-3;
    o.steps = STEPS;
    o.batch = BATCH;
    o.eval_every = STEPS / 4;
    return qkv_train(&task, &o, NULL, &constant, NULL, false, tell, NULL, result);
}

int main(void)
{
    const qkv_model_type type = qkv_model_type_defaults("shapes", make, sizeof(network));
    qkv_context *ctx = NULL;
    qkv_model *m = NULL;
    qkv_train_result result;
    qkv_context_options options = qkv_context_defaults();
    uint32_t random = 1;
    options.threads = 1; /* so little work is not worth sharing */
    for (int i = 0; i < TRAIN; i++) draw(&train[i], &random);
    for (int i = 0; i < HELD; i++) draw(&held[i], &random);
    if (qkv_context_create(&ctx, &options)) return 1;
    if (qkv_model_create(&m, ctx, &type, NULL) || qkv_model_init(m, 1) || learn(m, &result))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    printf("%d numbers\n", (int)qkv_params_elements(qkv_model_params(m)));
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return result.metrics.item[0].value < 0.95;
}
