/* views.c - vectors of images, learnt from two random views of each. */
#include <math.h>
#include <string.h>

#include "qkv/embed.h"
#include "qkv/random.h"
#include "qkv/vit.h"
#include "task/common.h"
#include "task/parts.h"
#include "task/vectors.h"

enum {
    VIEWS = 2,
    LAYERS = 2,           /* of the projection */
    EVAL_BATCH = 128,     /* images whose views are told apart */
    NEIGHBOURS = 10
};
static const double EPS = 1e-12;
static const uint64_t EVAL_SEED = 0x7669657773ull; /* all models get the same views */

typedef struct {
    qkv__image_task base;
    qkv_embed_images_options o;
    qkv_linear_layer projection[LAYERS];
    qkv_batches *held; /* of valid */
} views;

qkv_embed_images_options qkv_embed_images_defaults(void)
{
    qkv_embed_images_options o = {.temperature = 0.5, .projection = 128,
                                  .augment = qkv_augment_defaults()};
    o.augment.crop_scale = 0.2;
    o.augment.flip = true;
    o.augment.jitter = 0.5;
    o.augment.grey = 0.2;
    return o;
}

/* ---- the projection ---------------------------------------------------------------------- */

static qkv_status fill_normal(qkv_param *p, double std, uint64_t seed)
{
    qkv_rng r;
    qkv_real *x = qkv_param_data(p);
    if (!x)
        return QKV_E_MEMORY;
    qkv_rng_init(&r, seed, qkv_hash64("projection", 10));
    for (size_t i = 0; i < qkv_param_count(p); i++)
        x[i] = (qkv_real)(std * qkv_rng_normal(&r));
    qkv_param_touch(p);
    return QKV_OK;
}

/* A layer; that which an earlier task has made is used again. */
static qkv_status make_layer(views *s, int i, size_t outputs, double std)
{
    static const char *const names[LAYERS][3] = {
        {"projection.0", "projection.0.weight", "projection.0.bias"},
        {"projection.1", "projection.1.weight", "projection.1.bias"}};
    qkv_params *ps = qkv_model_params(s->base.model);
    qkv_linear_layer *l = &s->projection[i];
    *l = (qkv_linear_layer){qkv_params_find(ps, names[i][1]), qkv_params_find(ps, names[i][2])};
    if (l->weight && l->bias && qkv_param_dim(l->weight, 0) == outputs)
        return QKV_OK;
    if (l->weight)
        return qkv_fail(s->base.ctx, QKV_E_ARGUMENT, "the model has a projection of %zu numbers, "
                        "%zu are asked for", qkv_param_dim(l->weight, 0), outputs);
    if (!qkv_linear_create(l, ps, names[i][0], qkv__vector_width(s->base.model), outputs))
        return QKV_E_MEMORY;
    return fill_normal(l->weight, std, s->base.seed + (uint64_t)i);
}

static qkv_status make_projection(views *s)
{
    double in = (double)qkv__vector_width(s->base.model);
    qkv_status status = make_layer(s, 0, qkv__vector_width(s->base.model), sqrt(2 / in));
    return status ? status : make_layer(s, 1, s->o.projection, sqrt(1 / in));
}

/* ---- training ---------------------------------------------------------------------------- */

/* The loss of n images, from the batches' sample `first` on. */
static qkv_tensor *views_of(views *s, qkv_tape *t, qkv_batches *b, uint64_t first, size_t n,
                            double *seconds)
{
    double begun = qkv_now();
    qkv_tensor *x = qkv__images_tensor(t, s->base.train, VIEWS * n);
    if (!x || qkv_batches_get(b, VIEWS * first, VIEWS * n, qkv_tensor_fill(x), NULL, NULL))
        return NULL;
    *seconds = qkv_now() - begun;
    qkv_tensor *y = qkv_vit_vectors(s->base.model, t, x);
    y = qkv_linear_forward(&s->projection[0], t, y, QKV_ACT_RELU);
    y = qkv_linear_forward(&s->projection[1], t, y, QKV_ACT_NONE);
    const size_t pairs[] = {n, VIEWS, s->o.projection}, rows[] = {n, s->o.projection};
    y = qkv_reshape(t, y, 3, pairs);
    qkv_tensor *one = qkv_reshape(t, qkv_slice(t, y, 1, 0, 1), 2, rows);
    qkv_tensor *other = qkv_reshape(t, qkv_slice(t, y, 1, 1, 2), 2, rows);
    return qkv_ntxent_loss(t, one, other, s->o.temperature);
}

static qkv_tensor *views_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    views *s = self;
    double seconds = 0;
    qkv_tensor *y = views_of(s, t, s->base.batches, qkv__first_sample(part), part->count,
                             &seconds);
    if (part->data_seconds)
        *part->data_seconds += seconds;
    return qkv__share_of_batch(t, y, part);
}

/* ---- without training -------------------------------------------------------------------- */

static qkv_status embed_some(qkv_model *m, qkv_tape *t, const qkv_pixels *p, const size_t *images,
                             size_t n, bool unit, qkv_real *out)
{
    qkv_tensor *y = qkv__image_vectors(m, t, qkv__images_values(m, t, p, images, n));
    const qkv_real *from = qkv_data(t, unit ? qkv_l2_normalize(t, y, EPS) : y);
    if (from)
        memcpy(out, from, n * qkv__vector_width(m) * sizeof *out);
    return qkv_tape_status(t);
}

/* Images embedded at once. */
static size_t embed_batch(const qkv_pixels *p)
{
    size_t batch = qkv__images_batch(p);
    return batch < EVAL_BATCH ? batch : EVAL_BATCH;
}

/* Images [from, to) of those with these numbers (NULL: 0 ..), into their rows of out. */
static qkv_status embed_range(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                              const size_t *images, size_t from, size_t to, bool unit,
                              qkv_real *out)
{
    size_t numbers[EVAL_BATCH], batch = embed_batch(pixels);
    qkv_status status = qkv__images_check(m, qkv__vector_trunk(m), pixels, "given");
    for (size_t i = from; i < to && !status; i += batch) {
        size_t some = to - i < batch ? to - i : batch;
        for (size_t k = 0; k < some; k++)
            numbers[k] = images ? images[i + k] : i + k;
        status = embed_some(m, t, pixels, numbers, some, unit, out + i * qkv__vector_width(m));
    }
    qkv_tape_reset(t);
    return status;
}

qkv_status qkv_embed_images(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                            const size_t *images, size_t n, bool unit, qkv_real *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_EMBED_IMAGES | QKV_CAN_EMBED_BOTH))
        return QKV_E_ARGUMENT;
    return embed_range(m, t, pixels, images, 0, n, unit, out);
}

qkv_status qkv__image_set_vectors(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                  const size_t *images, size_t n, bool unit, qkv_real *out)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t batch = embed_batch(pixels), from, to;
    qkv__own_stretch(ctx, (n + batch - 1) / batch, &from, &to);
    from *= batch;
    to = to * batch < n ? to * batch : n;
    qkv_status status = embed_range(m, t, pixels, images, from, to, unit, out);
    return qkv__share_rows(ctx, status, out, from, to, qkv__vector_width(m) * sizeof *out);
}

/* ---- evaluation -------------------------------------------------------------------------- */

/* Of `count` held-out images, evenly spaced, among each other. */
static qkv_status views_knn(views *s, qkv_tape *t, size_t count, double *accuracy)
{
    const qkv_pixels *p = s->base.valid;
    qkv_context *ctx = s->base.ctx;
    size_t width = qkv__vector_width(s->base.model);
    size_t *images = qkv_calloc(ctx, count, sizeof *images);
    int32_t *classes = qkv_calloc(ctx, count, sizeof *classes);
    qkv_real *x = qkv_calloc(ctx, count, width * sizeof *x);
    qkv_status status = images && classes && x ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        images[i] = qkv__evenly(i, count, qkv_pixels_count(p));
        classes[i] = qkv_pixels_class(p, images[i]);
    }
    if (!status)
        status = qkv__image_set_vectors(s->base.model, t, p, images, count, true, x);
    if (!status)
        status = qkv_knn_accuracy(t, x, classes, count, NULL, NULL, 0, width, NEIGHBOURS, accuracy);
    qkv_free(ctx, images);
    qkv_free(ctx, classes);
    qkv_free(ctx, x);
    return status;
}

typedef struct {
    views *s;
    qkv_tape *t;
    size_t count;
} held_views;

/* The part's share of the loss of all. */
static qkv_status held_part(void *user, size_t part, double *loss)
{
    const held_views *h = user;
    size_t from = part * EVAL_BATCH, left = h->count - from;
    size_t n = left < EVAL_BATCH ? left : EVAL_BATCH;
    double seconds;
    qkv__begin_inference(h->t);
    double y = (double)qkv_item(h->t, views_of(h->s, h->t, h->s->held, from, n, &seconds));
    *loss = y * (double)n / (double)h->count;
    return qkv_tape_status(h->t);
}

static qkv_status views_held_loss(views *s, qkv_tape *t, size_t count, double *loss)
{
    held_views h = {s, t, count};
    qkv_status status = qkv__dist_map_sum(s->base.ctx, (count + EVAL_BATCH - 1) / EVAL_BATCH, 1,
                                          held_part, &h, loss);
    qkv_tape_reset(t);
    return status;
}

static qkv_status views_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    views *s = self;
    size_t all = qkv_pixels_count(s->base.valid), count = qkv__limited(limit, all);
    bool labelled = qkv_pixels_labelled(s->base.valid);
    double knn = 0, loss = 0;
    qkv_status status = labelled ? views_knn(s, t, count, &knn) : QKV_OK;
    if (!status)
        status = views_held_loss(s, t, count, &loss);
    /* Neighbours among few images are no reason to keep an earlier model: the last one's probe was
     * better. */
    *out = (qkv_metrics){.more_is_better = labelled, .newest = true, .scored = count,
                         .units = all};
    if (labelled)
        qkv_metrics_add(out, "knn", knn);
    qkv_metrics_add(out, "loss", loss);
    return status;
}

/* ---- the task ---------------------------------------------------------------------------- */

static double views_flops(void *self)
{
    return VIEWS * qkv__image_task_flops(self);
}

static void views_destroy(void *self)
{
    views *s = self;
    qkv_batches_destroy(s->held);
    qkv__image_task_destroy(self);
}

static const qkv_task_type views_type = {.name = "embed_images", .unit = "images", .phases = 1,
                                         .loss = views_loss, .evaluate = views_evaluate,
                                         .flops = views_flops, .destroy = views_destroy};

static qkv_status views_check_options(qkv_context *ctx, const qkv_embed_images_options *o)
{
    if (qkv__temperature_check(ctx, o->temperature))
        return QKV_E_ARGUMENT;
    if (!o->projection || qkv_augment_mixes(&o->augment))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "a projection of 1 number or more, and neither mixup "
                        "nor cutmix, expected");
    return QKV_OK;
}

/* The held-out images in views that are the same in every evaluation. */
static qkv_status hold_views(views *s, qkv_batches_options b)
{
    const qkv_image_format *f = qkv_model_image_format(s->base.model);
    b.count = qkv_pixels_count(s->base.valid);
    b.seed = EVAL_SEED;
    memcpy(b.mean, f->mean, sizeof b.mean);
    memcpy(b.std, f->std, sizeof b.std);
    return qkv_batches_create(&s->held, s->base.ctx, s->base.valid, &b);
}

qkv_status qkv_task_embed_images(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                 const qkv_pixels *valid, const qkv_embed_images_options *options,
                                 uint64_t seed)
{
    qkv_embed_images_options o = options ? *options : qkv_embed_images_defaults();
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_EMBED_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_status status = views_check_options(ctx, &o);
    if (!status)
        status = qkv__images_check(model, qkv__vector_trunk(model), train, "training");
    if (!status && valid)
        status = qkv__images_check(model, qkv__vector_trunk(model), valid, "held-out");
    views *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    const qkv_batches_options b = {.augment = o.augment, .views = VIEWS};
    status = qkv__image_task_init(&s->base, model, train, valid, seed, b,
                                  qkv_model_image_format(model));
    s->o = o;
    if (!status && valid)
        status = hold_views(s, b);
    if (!status)
        status = make_projection(s);
    return qkv__task_finish(out, status, (qkv_task){&views_type, s, model, seed, valid != NULL});
}
