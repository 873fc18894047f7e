/* 09_picture_network.c - convolution, batch norm, pooling, a residual branch, dropout and dense
 * layers, put together by hand, learn to tell drawn shapes apart.
 *
 *     picture 16 x 16 -> convolution, batch norm, ReLU -> pool 8 x 8 -> x + branch(x), where the
 *     branch is convolution, batch norm, ReLU, convolution, batch norm -> ReLU -> pool 4 x 4
 *     -> dense, ReLU -> dropout -> dense -> one number for each class
 *
 * Batch norm and dropout do one thing in training and another afterwards: the tape's mode says
 * which. Pictures that the network never saw judge it in the end.                           */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { SIDE = 16, CLASSES = 4, CHANNELS = 16, HIDDEN = 32 };
enum { TRAIN = 1920, HELD = 400, BATCH = 32, EPOCHS = 8 };

typedef struct {
    qkv_param *weight; /* (CHANNELS, 3, 3, input channels); its bias would be the norm's */
    qkv_batch_norm_layer norm;
} convolution;

typedef struct {
    convolution first, branch1, branch2;
    qkv_param *w1, *b1, *w2, *b2; /* of the dense layers */
} network;

typedef struct {
    qkv_real pixels[SIDE * SIDE];
    int32_t class_;
} picture;

static picture train[TRAIN], held[HELD];

/* ---- pictures --------------------------------------------------------------------------- */

static double uniform(uint32_t *random) /* [0, 1) */
{
    *random = *random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
    return (double)(*random >> 8) / 16777216;
}

/* A disc, a frame, a plus or a diagonal cross of some size somewhere, bright on dark or dark on
 * bright, under noise: neither any one pixel nor the sum of all says which. */
static void draw(picture *p, uint32_t *random)
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

/* Normal with variance 2 / inputs, which ReLU then halves (He et al. 2015). */
static qkv_param *draw_weight(qkv_params *ps, const char *name, int ndim, const size_t *shape)
{
    qkv_row row;
    qkv_param *p = qkv_param_create(ps, name, ndim, shape);
    if (!p) return NULL;
    memset(&row, 0, sizeof row);
    row.name = name;
    row.param = p;
    row.ndim = ndim;
    row.init = QKV_INIT_NORMAL;
    for (int i = 0; i < ndim; i++) {
        row.shape[i] = shape[i];
        row.perm[i] = i;
    }
    row.scale = sqrt(2.0 * (double)shape[0] / (double)qkv_param_count(p));
    qkv_row_init(&row, 1);
    return p;
}

static int create_convolution(convolution *c, qkv_params *ps, const char *name, size_t inputs)
{
    const size_t shape[4] = {CHANNELS, 3, 3, inputs};
    char norm[32];
    snprintf(norm, sizeof norm, "%s.norm", name);
    c->weight = draw_weight(ps, name, 4, shape);
    return c->weight && qkv_batch_norm_create(&c->norm, ps, norm, CHANNELS);
}

static int create_network(network *n, qkv_params *ps)
{
    const size_t w1[2] = {HIDDEN, SIDE / 4 * SIDE / 4 * CHANNELS}, w2[2] = {CLASSES, HIDDEN};
    if (!create_convolution(&n->first, ps, "first", 1) ||
        !create_convolution(&n->branch1, ps, "branch1", CHANNELS) ||
        !create_convolution(&n->branch2, ps, "branch2", CHANNELS))
        return 0;
    n->w1 = draw_weight(ps, "dense1.weight", 2, w1);
    n->b1 = qkv_param_create(ps, "dense1.bias", 1, &w1[0]);
    n->w2 = draw_weight(ps, "dense2.weight", 2, w2);
    n->b2 = qkv_param_create(ps, "dense2.bias", 1, &w2[0]);
    return n->w1 && n->b1 && n->w2 && n->b2;
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
    x = qkv_linear(t, x, qkv_use(t, n->w1), qkv_use(t, n->b1), QKV_ACT_RELU);
    x = qkv_dropout(t, x, 0.2, 0);
    return qkv_linear(t, x, qkv_use(t, n->w2), qkv_use(t, n->b2), QKV_ACT_NONE);
}

/* ---- learning and judging --------------------------------------------------------------- */

/* Logits of BATCH pictures from that one on, or of as many as are left; their classes. */
static qkv_tensor *read_batch(const network *n, qkv_tape *t, const picture *pictures, size_t from,
                              size_t count, int32_t classes[BATCH])
{
    static qkv_real pixels[BATCH * SIDE * SIDE]; /* lives as long as the step */
    const size_t left = count - from, B = left < BATCH ? left : (size_t)BATCH;
    const size_t shape[4] = {B, SIDE, SIDE, 1};
    for (size_t i = 0; i < B; i++) {
        memcpy(pixels + i * SIDE * SIDE, pictures[from + i].pixels, sizeof pictures->pixels);
        classes[i] = pictures[from + i].class_;
    }
    return forward(n, t, qkv_tensor_wrap(t, pixels, 4, shape));
}

/* The share of the pictures whose class gets the largest number; negative on failure. */
static double judge(const network *n, qkv_tape *t, const picture *pictures, size_t count)
{
    int32_t classes[BATCH];
    size_t right = 0;
    for (size_t from = 0; from < count; from += BATCH) {
        qkv_tape_reset(t);
        qkv_tape_mode(t, false, false);
        qkv_tensor *logits = read_batch(n, t, pictures, from, count, classes);
        const qkv_real *x = qkv_data(t, logits);
        if (!x) return -1;
        for (size_t i = 0; i < qkv_dim(logits, 0); i++, x += CLASSES) {
            int best = 0;
            for (int k = 1; k < CLASSES; k++)
                if (x[k] > x[best]) best = k;
            right += best == classes[i] ? 1 : 0;
        }
    }
    return (double)right / (double)count;
}

static int learn(const network *n, qkv_tape *t, qkv_params *ps, qkv_optimizer *o)
{
    const qkv_optimizer_step_args args = {3e-3, 0, 1};
    qkv_randomness random;
    memset(&random, 0, sizeof random);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        double sum = 0;
        for (size_t from = 0; from < TRAIN; from += BATCH, random.step++) {
            const size_t shape[1] = {BATCH};
            int32_t classes[BATCH];
            qkv_tape_reset(t);
            qkv_tape_mode(t, true, true);
            qkv_tape_randomness(t, &random);
            qkv_tensor *logits = read_batch(n, t, train, from, TRAIN, classes);
            qkv_tensor *loss =
                qkv_cross_entropy(t, logits, qkv_tensor_ids(t, classes, 1, shape), NULL);
            if (qkv_backward(t, loss) != QKV_OK) return 0;
            sum += (double)qkv_item(t, loss);
            if (qkv_optimizer_step(o, &args, NULL) != QKV_OK) return 0;
            qkv_params_zero_grad(ps);
        }
        printf("epoch %d  loss %.3f nats\n", epoch, sum * BATCH / TRAIN);
    }
    return 1;
}

static int run(qkv_tape *t, qkv_params *ps)
{
    network n;
    qkv_optimizer *o = NULL;
    uint32_t random = 1;
    double accuracy = -1;
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    for (int i = 0; i < TRAIN; i++) draw(&train[i], &random);
    for (int i = 0; i < HELD; i++) draw(&held[i], &random);
    if (create_network(&n, ps) &&
        qkv_optimizer_create(&o, ps, &adamw, qkv_optimizer_decay_matrices(), 1) == QKV_OK &&
        learn(&n, t, ps, o))
        accuracy = judge(&n, t, held, HELD);
    qkv_optimizer_destroy(o);
    if (accuracy < 0) return 1;
    printf("%zu numbers; %.1f %% of %d pictures held out are right\n", qkv_params_elements(ps),
           100 * accuracy, (int)HELD);
    return accuracy >= 0.95 ? 0 : 2;
}

int main(void)
{
    qkv_context *ctx = NULL;
    qkv_tape *t = NULL;
    qkv_params *ps = NULL;
    qkv_context_options options = qkv_context_defaults();
    options.threads = 1; /* so little work is not worth sharing */
    if (qkv_context_create(&ctx, &options) != QKV_OK) return 1;
    int status = 1;
    if (qkv_tape_create(&t, ctx) == QKV_OK && qkv_params_create(&ps, ctx) == QKV_OK)
        status = run(t, ps);
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the network did not learn the shapes\n");
    qkv_tape_destroy(t);
    qkv_params_destroy(ps);
    qkv_context_destroy(ctx);
    return status;
}
