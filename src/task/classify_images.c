/* classify_images.c - choosing a class for an image. */
#include "qkv/classify_images.h"

#include <string.h>

#include "qkv/score.h"
#include "task/common.h"
#include "task/parts.h"

static const qkv_vit_config *classify_images_config_of(const qkv_model *m)
{
    return qkv_model_config(m);
}

/* ---- training ---------------------------------------------------------------------------- */

static qkv_tensor *classify_images_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    qkv__image_task *s = self;
    double begun = qkv_now();
    size_t shape[] = {part->count, classify_images_config_of(s->model)->classes};
    qkv_tensor *x = qkv__images_tensor(t, s->train, part->count);
    qkv_tensor *targets = qkv_tensor_from(t, NULL, 2, shape);
    if (!x || !targets ||
        qkv_batches_get(s->batches, qkv__first_sample(part), part->count, qkv_tensor_fill(x),
                        qkv_tensor_fill(targets), NULL))
        return NULL;
    qkv__add_data_time(part, begun);
    qkv_cross_entropy_options o = {.normalizer = (double)part->total};
    return qkv_cross_entropy(t, qkv_vit_logits(s->model, t, x), targets, &o);
}

/* ---- without training -------------------------------------------------------------------- */

/* An evaluation of images, a batch of them a part. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_pixels *pixels;
    size_t count, batch;
    size_t *images;            /* (count) */
    int32_t *labels, *guesses; /* (count); (batch) */
} scorer;

/* out: the loss, then the guesses. */
static qkv_status classify_images_part(void *user, size_t part, double *out)
{
    const scorer *s = user;
    size_t from = part * s->batch, left = s->count - from, n = left < s->batch ? left : s->batch;
    qkv_tape *t = s->tape;
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = s->guesses};
    qkv_tensor *x = qkv__images_values(s->model, t, s->pixels, s->images + from, n);
    qkv_tensor *labels = qkv_tensor_ids(t, s->labels + from, 1, &n);
    *out = (double)qkv_item(t, qkv_cross_entropy(t, qkv_vit_logits(s->model, t, x), labels, &o));
    for (size_t i = 0; i < n; i++)
        out[1 + i] = s->guesses[i];
    return qkv_tape_status(t);
}

static qkv_status classify_images_evaluate_all(qkv_model *m, qkv_tape *t, const qkv_pixels *p,
                                               size_t limit, qkv_classify_images_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t n = qkv_pixels_count(p);
    scorer s = {.model = m, .tape = t, .pixels = p, .count = qkv__limited(limit, n),
                .batch = qkv__images_batch(p)};
    size_t count = s.count, parts = (count + s.batch - 1) / s.batch;
    int32_t *guesses = qkv_calloc(ctx, count, sizeof *guesses);
    s.images = qkv_calloc(ctx, count, sizeof *s.images);
    s.labels = qkv_calloc(ctx, count, sizeof *s.labels);
    s.guesses = qkv_calloc(ctx, s.batch, sizeof *s.guesses);
    qkv_status status = guesses && s.images && s.labels && s.guesses ? QKV_OK : QKV_E_MEMORY;
    double sum = 0;
    *out = (qkv_classify_images_score){.images = count};
    for (size_t i = 0; i < count && !status; i++) {
        s.images[i] = qkv__evenly(i, count, n);
        s.labels[i] = qkv_pixels_class(p, s.images[i]);
    }
    if (!status)
        status = qkv__map_guesses(ctx, parts, s.batch, NULL, count, classify_images_part, &s,
                                  guesses, &sum);
    if (!status) {
        out->accuracy = qkv_accuracy(guesses, s.labels, count);
        out->loss = sum / (double)count;
    }
    qkv_tape_reset(t);
    qkv_free(ctx, s.guesses);
    qkv_free(ctx, s.labels);
    qkv_free(ctx, s.images);
    qkv_free(ctx, guesses);
    return status;
}

/* ---- the task ---------------------------------------------------------------------------- */

/* labelled: every image has one of the model's classes. */
static qkv_status classify_images_check(qkv_model *m, const qkv_pixels *p, const char *what,
                                        bool labelled)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_vit_config *c = classify_images_config_of(m);
    qkv_status status = qkv__images_check(m, &c->trunk, p, what);
    for (size_t i = 0; i < qkv_pixels_count(p) && labelled && !status; i++)
        if (qkv_pixels_class(p, i) < 0 || (size_t)qkv_pixels_class(p, i) >= c->classes)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: class %d, and the model has %zu",
                            qkv_pixels_name(p, i), (int)qkv_pixels_class(p, i), c->classes);
    return status;
}

qkv_status qkv_classify_images_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                        size_t limit, qkv_classify_images_score *out)
{
    *out = (qkv_classify_images_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_CLASSIFY_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_status status = classify_images_check(m, pixels, "held-out", true);
    return status ? status : classify_images_evaluate_all(m, t, pixels, limit, out);
}

qkv_status qkv_classify_images(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                               const size_t *images, size_t n, qkv_real *probs)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_CLASSIFY_IMAGES))
        return QKV_E_ARGUMENT;
    size_t batch = qkv__images_batch(pixels);
    qkv_status status = classify_images_check(m, pixels, "given", false);
    size_t classes = status ? 0 : classify_images_config_of(m)->classes;
    for (size_t i = 0; i < n && !status; i += batch) {
        size_t count = n - i < batch ? n - i : batch;
        qkv_tensor *x = qkv__images_values(m, t, pixels, images + i, count);
        const qkv_real *p = qkv_data(t, qkv_softmax(t, qkv_vit_logits(m, t, x)));
        status = qkv_tape_status(t);
        if (!status)
            memcpy(probs + i * classes, p, count * classes * sizeof *p);
    }
    qkv_tape_reset(t);
    return status;
}

static qkv_status classify_images_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    qkv__image_task *s = self;
    qkv_classify_images_score score;
    qkv_status status = classify_images_evaluate_all(s->model, t, s->valid, limit, &score);
    *out = (qkv_metrics){.item = {{"accuracy", score.accuracy}, {"loss", score.loss}}, .count = 2,
                         .more_is_better = true, .scored = score.images,
                         .units = qkv_pixels_count(s->valid)};
    return status;
}

static const qkv_task_type classify_images_type = {
    .name = "classify_images", .unit = "images", .phases = 1, .loss = classify_images_loss,
    .evaluate = classify_images_evaluate, .flops = qkv__image_task_flops,
    .destroy = qkv__image_task_destroy};

qkv_status qkv_task_classify_images(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                    const qkv_pixels *valid,
                                    const qkv_classify_images_options *options, uint64_t seed)
{
    qkv_classify_images_options o = options ? *options : (qkv_classify_images_options){0};
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_CLASSIFY_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_status status = classify_images_check(model, train, "training", true);
    if (!status && qkv_pixels_classes(train) != classify_images_config_of(model)->classes)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the training images have %zu classes, the model "
                          "%zu", qkv_pixels_classes(train),
                          classify_images_config_of(model)->classes);
    if (!status && valid)
        status = classify_images_check(model, valid, "held-out", true);
    qkv__image_task *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    const qkv_batches_options b = {.smoothing = o.smoothing, .augment = o.augment};
    status = qkv__image_task_init(s, model, train, valid, seed, b, qkv_model_image_format(model));
    return qkv__task_finish(out, status,
                            (qkv_task){&classify_images_type, s, model, seed, valid != NULL});
}
