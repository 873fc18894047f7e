/* 11_paint_attention.c - where a classifier looks, painted over the image.
 *
 *     11_paint_attention DIR IMAGE [OUT.png [LAYER]]     layers count from 1; the last one
 *
 * DIR holds a Vision Transformer. Its class is read off a first token, so the row of weights with
 * which that token attends to the patches says what the class was read from: patches stay as bright
 * as the mean of all heads has them. Without arguments a model learns which colour a bright spot
 * among dark blocks of all colours has, which it can only know by looking at the spot, and
 * ./spot-attention.png shows that it does.                                                   */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

enum { SIDE = 32, PATCH = 4, NONE = 3, CLASSES, SPOT = 6, BATCH = 24, STEPS = 300, LARGE = 256 };
#define DIR "spotter"

/* ---- a model that has to look ----------------------------------------------------------- */

static double uniform(uint32_t *random) /* [0, 1) */
{
    *random = *random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
    return (double)(*random >> 8) / 16777216;
}

/* A bright red, green or blue spot whose left upper corner is at (x, y), or none, on dark blocks of
 * any color: all of them together say little of the spot's, and what is not seen is none. */
static int32_t draw(uint8_t *rgb, size_t *x, size_t *y, uint32_t *random)
{
    const int color = (int)(CLASSES * uniform(random));
    double dark[SIDE / PATCH * SIDE / PATCH][3];
    for (size_t i = 0; i < sizeof dark / sizeof *dark; i++)
        for (int k = 0; k < 3; k++) dark[i][k] = 150 * uniform(random);
    *x = (size_t)((SIDE - SPOT) * uniform(random));
    *y = (size_t)((SIDE - SPOT) * uniform(random));
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) {
        /* differences below 0 wrap to large ones */
        const int on = i % SIDE - *x < SPOT && i / SIDE - *y < SPOT && color < NONE;
        const double *block = dark[i / SIDE / PATCH * (SIDE / PATCH) + i % SIDE / PATCH];
        for (size_t k = 0; k < 3; k++)
            rgb[3 * i + k] = (uint8_t)(on ? (int)k == color ? 255 : 60 : block[k]);
    }
    return color;
}

static qkv_status learn(qkv_model *m, qkv_tape *t, qkv_optimizer *o, uint32_t *random)
{
    static qkv_real pixels[BATCH * SIDE * SIDE * 3];
    const size_t shape[4] = {BATCH, SIDE, SIDE, 3};
    uint8_t rgb[SIDE * SIDE * 3];
    int32_t classes[BATCH];
    for (int step = 1; step <= STEPS; step++) {
        const qkv_optimizer_step_args args = {step < 20 ? 1e-4 * step : 2e-3, 0, 1};
        size_t x, y;
        for (int b = 0; b < BATCH; b++) {
            classes[b] = draw(rgb, &x, &y, random);
            for (size_t i = 0; i < sizeof rgb; i++)
                pixels[(size_t)b * sizeof rgb + i] = (qkv_real)(rgb[i] / 127.5 - 1);
        }
        qkv_tape_reset(t);
        qkv_tensor *logits = qkv_vit_logits(m, t, qkv_tensor_wrap(t, pixels, 4, shape));
        qkv_tensor *loss =
            qkv_cross_entropy(t, logits, qkv_tensor_ids(t, classes, 1, shape), NULL);
        qkv_status status = qkv_backward(t, loss);
        if (!status) status = qkv_optimizer_step(o, &args, NULL);
        if (status) return status;
        if (step % 50 == 0)
            printf("step %3d  loss %.4f nats\n", step, (double)qkv_item(t, loss));
        qkv_params_zero_grad(qkv_model_params(m));
    }
    return QKV_OK;
}

/* ./spotter, and ./spot.png with a spot at (x, y). */
static qkv_status make(qkv_context *ctx, size_t *x, size_t *y)
{
    static const char *const names[CLASSES] = {"red", "green", "blue", "none"};
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    uint32_t random = 1;
    qkv_vit_config c;
    qkv_image_format format = {SIDE, SIDE, 3, false, 2, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
    qkv_model *m = NULL;
    qkv_tape *t = NULL;
    qkv_optimizer *o = NULL;
    qkv_image image;
    qkv_option_defaults(qkv_model_type_config(&qkv_vit_type), &c);
    c.trunk.image = SIDE;
    c.trunk.patch = PATCH;
    c.trunk.width = c.trunk.ff_width = 32;
    c.trunk.layers = 1;
    c.trunk.heads = 2;
    c.classes = CLASSES;
    qkv_status status = qkv_tape_create(&t, ctx);
    if (!status) status = qkv_model_create(&m, ctx, &qkv_vit_type, &c);
    if (!status) status = qkv_model_init(m, 1);
    if (!status) status = qkv_model_set_labels(m, names, CLASSES);
    if (!status) qkv_model_set_image_format(m, &format);
    if (!status) status = qkv_optimizer_create(&o, qkv_model_params(m), &adamw, NULL, 0);
    if (!status) status = learn(m, t, o, &random);
    if (!status) status = qkv_hub_save(m, DIR, NULL);
    if (!status) status = qkv_image_create(&image, ctx, SIDE, SIDE, 3);
    if (!status) {
        while (draw(image.data, x, y, &random) == NONE) continue;
        status = qkv_image_write(&image, ctx, "spot.png");
        qkv_image_free(&image, ctx);
    }
    qkv_optimizer_destroy(o);
    qkv_model_destroy(m);
    qkv_tape_destroy(t);
    return status;
}

/* ---- looking ---------------------------------------------------------------------------- */

typedef struct {
    double *weights; /* (rows, columns) of patches, summed over heads */
    size_t rows, columns;
} map;

static void add_head(void *user, const char *name, int sequence, int head, size_t row, size_t rows,
                     size_t S, const qkv_real *weights)
{
    map *a = (map *)user;
    (void)name, (void)sequence, (void)head, (void)row, (void)rows;
    for (size_t i = 1; i < S && i <= a->rows * a->columns; i++) /* 0: the first token itself */
        a->weights[i - 1] += (double)weights[i];
}

/* The image, of the model's size, through the network; its likeliest class. */
static qkv_status look(qkv_model *m, qkv_tape *t, const qkv_image *image, int layer, map *a)
{
    const qkv_image_format *f = qkv_model_image_format(m);
    const size_t shape[4] = {1, image->height, image->width, image->channels};
    const size_t numbers = shape[1] * shape[2] * shape[3];
    char name[32];
    qkv_attention_probe probe;
    qkv_real *pixels = (qkv_real *)calloc(numbers, sizeof *pixels);
    if (!pixels) return QKV_E_MEMORY;
    for (size_t i = 0; i < numbers; i++) {
        const size_t k = i % image->channels;
        pixels[i] = (qkv_real)((image->data[i] / 255.0 - f->mean[k]) / f->std[k]);
    }
    snprintf(name, sizeof name, "layer.%d.attn", layer - 1);
    memset(&probe, 0, sizeof probe);
    probe.name = name;
    probe.head = -1;
    probe.rows = 1; /* row 0: the first token's */
    probe.fn = add_head;
    probe.user = a;
    qkv_status status = qkv_attention_probe_add(t, &probe);
    qkv_tape_mode(t, false, false);
    qkv_tensor *logits = qkv_vit_logits(m, t, qkv_tensor_wrap(t, pixels, 4, shape));
    const qkv_real *x = qkv_data(t, logits);
    if (!status) status = qkv_tape_status(t);
    size_t best = 0;
    for (size_t i = 1; !status && i < qkv_dim(logits, -1); i++)
        if (x[i] > x[best]) best = i;
    const char *label = qkv_model_label(m, best);
    if (!status) printf("class %zu, %s\n", best, label ? label : "without a name");
    free(pixels);
    return status;
}

/* Large enough to see; patches as bright as they were looked at, the brightest in full. */
static qkv_status paint(qkv_context *ctx, const qkv_image *image, const map *a, const char *path)
{
    const size_t shorter = image->width < image->height ? image->width : image->height;
    const size_t n = shorter < LARGE ? LARGE / shorter : 1, C = image->channels;
    double most = 0;
    qkv_image large;
    for (size_t i = 0; i < a->rows * a->columns; i++)
        if (a->weights[i] > most) most = a->weights[i];
    qkv_status status = qkv_image_create(&large, ctx, n * image->width, n * image->height, C);
    if (status) return status;
    for (size_t y = 0; y < large.height; y++) {
        for (size_t x = 0; x < large.width; x++) {
            const size_t patch = y * a->rows / large.height * a->columns +
                                 x * a->columns / large.width;
            const double share = 0.1 + 0.9 * (most > 0 ? a->weights[patch] / most : 0);
            for (size_t k = 0; k < C; k++)
                large.data[(y * large.width + x) * C + k] = (uint8_t)(
                    share * image->data[(y / n * image->width + x / n) * C + k] + 0.5);
        }
    }
    status = qkv_image_write(&large, ctx, path);
    qkv_image_free(&large, ctx);
    return status;
}

static qkv_status paint_image(qkv_context *ctx, qkv_model *m, const char *from, const char *to,
                              int layer, map *a)
{
    const qkv_patches_config *c = &((const qkv_vit_config *)qkv_model_config(m))->trunk;
    const qkv_image_format *f = qkv_model_image_format(m);
    qkv_pixels_options fit = qkv_pixels_defaults();
    qkv_image image;
    qkv_tape *t = NULL;
    fit.height = f->height;
    fit.width = f->width;
    fit.channels = c->channels;
    fit.fit = f->crop ? QKV_FIT_CROP : QKV_FIT_SQUASH;
    a->rows = f->height / c->patch;
    a->columns = f->width / c->patch;
    a->weights = (double *)calloc(a->rows * a->columns + 1, sizeof *a->weights);
    if (!a->weights) return QKV_E_MEMORY;
    qkv_status status = qkv_image_read(&image, ctx, from, NULL);
    if (!status) status = qkv_image_fit(&image, ctx, &fit);
    if (!status) status = qkv_tape_create(&t, ctx);
    if (!status) status = look(m, t, &image, layer > 0 ? layer : (int)c->layers, a);
    if (!status) status = paint(ctx, &image, a, to);
    qkv_image_free(&image, ctx);
    qkv_tape_destroy(t);
    return status;
}

static size_t layers_of(const qkv_model *m)
{
    return ((const qkv_vit_config *)qkv_model_config(m))->trunk.layers;
}

/* How much of the attention to patches goes to those that the spot touches. */
static double share_of_spot(const map *a, size_t x, size_t y)
{
    double all = 0, spot = 0;
    for (size_t i = 0; i < a->rows * a->columns; i++) {
        const size_t left = i % a->columns * PATCH, top = i / a->columns * PATCH;
        const int touches = left < x + SPOT && x < left + PATCH && top < y + SPOT &&
                            y < top + PATCH;
        all += a->weights[i];
        spot += touches ? a->weights[i] : 0;
    }
    return spot / all;
}

int main(int argc, char **argv)
{
    qkv_context *ctx = NULL;
    qkv_context_options options = qkv_context_defaults();
    qkv_model *m = NULL;
    const int own = argc == 1;
    const char *to = own ? "spot-attention.png" : argc > 3 ? argv[3] : "attention.png";
    size_t x = 0, y = 0;
    map a = {NULL, 0, 0};
    if (argc == 2 || argc > 5)
        return fprintf(stderr, "usage: %s [DIR IMAGE [OUT.png [LAYER]]]\n", argv[0]), 2;
    if (own) options.threads = 1; /* so little work is not worth sharing */
    if (qkv_context_create(&ctx, &options) != QKV_OK) return 1;
    qkv_status status = own ? make(ctx, &x, &y) : QKV_OK;
    if (!status) status = qkv_hub_load(&m, ctx, own ? DIR : argv[1]);
    if (!status && (qkv_model_type_of(m) != &qkv_vit_type || !qkv_model_image_format(m))) {
        fprintf(stderr, "%s: no vit with a preprocessor_config.json\n", argv[1]);
        status = QKV_E_ARGUMENT;
    }
    if (!status && argc > 4 && (size_t)atoi(argv[4]) - 1 >= layers_of(m)) {
        fprintf(stderr, "%s: a layer from 1 to %zu expected\n", argv[4], layers_of(m));
        status = QKV_E_ARGUMENT;
    }
    if (!status)
        status = paint_image(ctx, m, own ? "spot.png" : argv[2], to,
                             argc > 4 ? atoi(argv[4]) : 0, &a);
    if (qkv_context_status(ctx)) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    const double share = own && !status ? share_of_spot(&a, x, y) : 1;
    if (!status) printf("%s\n", to);
    if (own && !status) printf("%.0f %% of the attention is on the spot\n", 100 * share);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    free(a.weights);
    return status ? 1 : share > 0.3 ? 0 : 2; /* of the area it has 6 % */
}
