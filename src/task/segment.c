/* segment.c - the class of every pixel. */
#include "qkv/segment.h"

#include <string.h>

#include "dist/map.h"
#include "image/augment_steps.h"
#include "task/common.h"
#include "task/tables.h"

enum { EVAL_IMAGES = 32, RGB = 3 };

#define FIELD(member) .offset = offsetof(qkv_segment_options, member)
static const qkv_option rows[] = {
    {.flag = "smoothing", .key = "smoothing", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(smoothing), .initial = "0", .help = "label smoothing"},
};
const qkv_option_table qkv__segment_table = {"Segmenting", rows, sizeof rows / sizeof *rows,
                                             sizeof(qkv_segment_options)};
const qkv_option_table *qkv_segment_table(void) { return &qkv__segment_table; }

qkv_segment_options qkv_segment_defaults(void)
{
    qkv_segment_options o;
    qkv_option_defaults(&qkv__segment_table, &o);
    o.augment = qkv_augment_defaults();
    return o;
}

typedef struct {
    qkv__image_task base;
    const qkv_pixels *masks; /* of base.valid */
    double smoothing;
} segment;

static size_t side_of(const qkv_model *m)
{
    return ((const qkv_pixelwise_config *)qkv_model_config(m))->trunk.image;
}

/* What the model gets for a byte of each channel. */
static qkv__values values_of(const qkv_model *m)
{
    static const qkv_image_format plain = {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    const qkv_image_format *f = qkv_model_image_format(m) ? qkv_model_image_format(m) : &plain;
    qkv__values v;
    qkv__values_make(&v, f->mean, f->std);
    return v;
}

/* ---- training ---------------------------------------------------------------------------- */

static qkv_tensor *segment_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    segment *s = self;
    qkv_model *model = s->base.model;
    size_t B = part->count, side = side_of(model), pixels = side * side;
    size_t shape[] = {B, side, side, RGB};
    double begun = qkv_now();
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    const uint8_t *rgb;
    const int32_t *targets;
    if (!x || qkv_batches_bytes(s->base.batches, qkv__first_sample(part), B, &rgb, &targets, NULL))
        return NULL;
    const qkv__values v = values_of(model);
    qkv_real *room = qkv_tensor_fill(x);
    int threads = qkv_context_threads(s->base.ctx);
#pragma omp parallel for num_threads(threads) default(none) shared(v, B, pixels, room, rgb)
    for (size_t i = 0; i < B; i++)
        qkv__values_put(room + i * pixels * RGB, rgb + i * pixels * RGB, pixels * RGB, RGB, &v);
    qkv__add_data_time(part, begun);
    qkv_cross_entropy_options o = {.smoothing = s->smoothing, .has_ignore = true,
                                   .ignore = QKV_BEYOND,
                                   .normalizer = (double)(part->total * pixels)};
    return qkv__part_cross_entropy(t, part, qkv_pixelwise_forward(model, t, x),
                                   qkv_tensor_ids(t, targets, 3, shape), &o);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* Sums over pixels: of each class (QKV_MASK_CLASSES), and of losses. */
typedef struct {
    double truth[QKV_MASK_CLASSES], guess[QKV_MASK_CLASSES], both[QKV_MASK_CLASSES], loss;
} sums;
enum { SUMS = sizeof(sums) / sizeof(double) };

static void count_pixels(sums *c, const int32_t *truth, const int32_t *guess, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        c->truth[truth[i]]++;
        c->guess[guess[i]]++;
        c->both[truth[i]] += truth[i] == guess[i];
    }
}

static double mean_iou(const sums *c)
{
    double sum = 0;
    size_t classes = 0;
    for (size_t k = 0; k < QKV_MASK_CLASSES; k++) {
        double either = c->truth[k] + c->guess[k] - c->both[k];
        if (either > 0) {
            sum += c->both[k] / either;
            classes++;
        }
    }
    return classes ? sum / (double)classes : 0;
}

/* An evaluation of `count` images evenly over all; memory for a part. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_segment_data *data;
    size_t count;
    qkv_real *x;            /* (EVAL_IMAGES, pixels, 3) */
    int32_t *truth, *guess; /* (EVAL_IMAGES, pixels) */
    sums part;
} evaluated;

static qkv_status segment_part(void *user, size_t part, double *out)
{
    evaluated *j = user;
    qkv_model *m = j->model;
    qkv_tape *t = j->tape;
    size_t from = part * EVAL_IMAGES, left = j->count - from;
    size_t B = left < EVAL_IMAGES ? left : EVAL_IMAGES;
    size_t side = side_of(m), pixels = side * side, shape[] = {B, side, side, RGB};
    const qkv__values v = values_of(m);
    for (size_t i = 0; i < B; i++) {
        size_t at = qkv__evenly(from + i, j->count, qkv_pixels_count(j->data->images));
        const uint8_t *classes = qkv_pixels_data(j->data->classes, at);
        qkv__values_put(j->x + i * pixels * RGB, qkv_pixels_data(j->data->images, at),
                        pixels * RGB, RGB, &v);
        for (size_t k = 0; k < pixels; k++)
            j->truth[i * pixels + k] = classes[k];
    }
    qkv__begin_inference(t);
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = j->guess};
    qkv_tensor *y = qkv_pixelwise_forward(m, t, qkv_tensor_wrap(t, j->x, 4, shape));
    y = qkv_cross_entropy(t, y, qkv_tensor_ids(t, j->truth, 3, shape), &o);
    j->part = (sums){.loss = (double)qkv_item(t, y)};
    if (qkv_tape_status(t))
        return qkv_tape_status(t);
    count_pixels(&j->part, j->truth, j->guess, B * pixels);
    memcpy(out, &j->part, sizeof j->part);
    return QKV_OK;
}

static qkv_status check_set(const qkv_model *m, const qkv_pixels *p, size_t channels,
                            const char *what)
{
    size_t side = side_of(m);
    if (qkv_pixels_height(p) == side && qkv_pixels_width(p) == side &&
        qkv_pixels_channels(p) == channels)
        return QKV_OK;
    return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the %s are %zu x %zu with %zu "
                    "channels, the model's %zu x %zu with %zu", what, qkv_pixels_width(p),
                    qkv_pixels_height(p), qkv_pixels_channels(p), side, side, channels);
}

static qkv_status segment_check_data(const qkv_model *m, const qkv_segment_data *data)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_pixelwise_config *c = qkv_model_config(m);
    if (c->outputs > QKV_MASK_CLASSES)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%zu classes: masks tell up to %d", c->outputs,
                        (int)QKV_MASK_CLASSES);
    qkv_status status = check_set(m, data->images, RGB, "images");
    if (!status)
        status = check_set(m, data->classes, 1, "masks");
    size_t count = qkv_pixels_count(data->images), side = side_of(m);
    if (!status && qkv_pixels_count(data->classes) != count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu images and %zu masks", count,
                        qkv_pixels_count(data->classes));
    for (size_t i = 0; i < count && !status; i++) {
        const uint8_t *classes = qkv_pixels_data(data->classes, i);
        for (size_t k = 0; k < side * side && !status; k++)
            if (classes[k] >= c->outputs)
                status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: class %d, the model has %zu",
                                  qkv_pixels_name(data->classes, i), classes[k], c->outputs);
    }
    return status;
}

static qkv_status segment_score_all(qkv_model *m, qkv_tape *t, const qkv_segment_data *data,
                                    size_t count, double all[SUMS])
{
    qkv_context *ctx = qkv_model_context(m);
    size_t room = EVAL_IMAGES * side_of(m) * side_of(m);
    evaluated j = {.model = m, .tape = t, .data = data, .count = count,
                   .x = qkv_malloc(ctx, room * RGB * sizeof *j.x),
                   .truth = qkv_malloc(ctx, room * sizeof *j.truth),
                   .guess = qkv_malloc(ctx, room * sizeof *j.guess)};
    qkv_status status = j.x && j.truth && j.guess ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map_sum(ctx, (count + EVAL_IMAGES - 1) / EVAL_IMAGES, SUMS,
                                   segment_part, &j, all);
    qkv_tape_reset(t);
    qkv_free(ctx, j.x);
    qkv_free(ctx, j.truth);
    qkv_free(ctx, j.guess);
    return status;
}

qkv_status qkv_segment_evaluate(qkv_model *m, qkv_tape *t, const qkv_segment_data *data,
                                size_t limit, qkv_segment_score *out)
{
    *out = (qkv_segment_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_SEGMENT))
        return QKV_E_ARGUMENT;
    qkv_status status = segment_check_data(m, data);
    if (status)
        return status;
    size_t count = qkv__limited(limit, qkv_pixels_count(data->images));
    double all[SUMS] = {0}, right = 0, n = (double)count * (double)(side_of(m) * side_of(m));
    sums c;
    status = segment_score_all(m, t, data, count, all);
    memcpy(&c, all, sizeof c);
    for (size_t k = 0; k < QKV_MASK_CLASSES; k++)
        right += c.both[k];
    *out = (qkv_segment_score){mean_iou(&c), right / n, c.loss / n, count};
    return status;
}

static qkv_status task_segment_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    segment *s = self;
    const qkv_segment_data valid = {s->base.valid, s->masks};
    qkv_segment_score score;
    qkv_status status = qkv_segment_evaluate(s->base.model, t, &valid, limit, &score);
    *out = (qkv_metrics){.item = {{"miou", score.miou}, {"accuracy", score.accuracy},
                                  {"loss", score.loss}},
                         .count = 3, .more_is_better = true, .scored = score.images,
                         .units = qkv_pixels_count(valid.images)};
    return status;
}

/* ---- telling ------------------------------------------------------------------------------- */

/* Of logits (n, C). */
static void segment_largest(uint8_t *out, const qkv_real *logits, size_t n, size_t C)
{
    for (size_t i = 0; i < n; i++) {
        size_t best = 0;
        for (size_t k = 1; k < C; k++)
            if (logits[i * C + k] > logits[i * C + best])
                best = k;
        out[i] = (uint8_t)best;
    }
}

qkv_status qkv_segment(uint8_t *classes, qkv_model *m, qkv_tape *t, const qkv_image *in)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_SEGMENT))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    const qkv_pixelwise_config *c = qkv_model_config(m);
    if (in->channels != RGB || c->outputs > QKV_MASK_CLASSES)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "a model of %zu classes, at most %d expected, for a "
                        "image of %zu channels, %d expected", c->outputs,
                        (int)QKV_MASK_CLASSES, in->channels, (int)RGB);
    size_t side = side_of(m), shape[] = {1, side, side, RGB};
    qkv_image small;
    qkv_status status =
        qkv_image_resize(&small, ctx, in, side, side, QKV_RESIZE_BILINEAR, NULL);
    uint8_t *guess = status ? NULL : qkv_malloc(ctx, side * side);
    qkv__begin_inference(t);
    qkv_tensor *x = guess ? qkv_tensor_from(t, NULL, 4, shape) : NULL;
    const qkv__values v = values_of(m);
    if (x)
        qkv__values_put(qkv_tensor_fill(x), small.data, side * side * RGB, RGB, &v);
    const qkv_real *logits = x ? qkv_data(t, qkv_pixelwise_forward(m, t, x)) : NULL;
    if (logits)
        segment_largest(guess, logits, side * side, c->outputs);
    for (size_t i = 0; i < in->width * in->height && logits; i++)
        classes[i] = guess[i / in->width * side / in->height * side +
                           i % in->width * side / in->width];
    if (!status && !logits)
        status = guess ? qkv_tape_status(t) : QKV_E_MEMORY;
    qkv_free(ctx, guess);
    qkv_image_free(&small, ctx);
    return status;
}

/* ---- the task ------------------------------------------------------------------------------ */

static const qkv_task_type segment_type = {.name = "segment", .unit = "images", .phases = 1,
                                           .loss = segment_loss, .evaluate = task_segment_evaluate,
                                           .flops = qkv__image_task_flops,
                                           .destroy = qkv__image_task_destroy};

qkv_status qkv_task_segment(qkv_task *out, qkv_model *model, const qkv_segment_data *train,
                            const qkv_segment_data *valid, const qkv_segment_options *options,
                            uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_SEGMENT))
        return QKV_E_ARGUMENT;
    qkv_status status = segment_check_data(model, train);
    if (!status && valid)
        status = segment_check_data(model, valid);
    segment *s = qkv__task_alloc(qkv_model_context(model), sizeof *s, &status);
    if (!s)
        return status;
    qkv_segment_options o = options ? *options : qkv_segment_defaults();
    const qkv_batches_options b = {.augment = o.augment, .masks = train->classes};
    status = qkv__image_task_init(&s->base, model, train->images, valid ? valid->images : NULL,
                                  seed, b, qkv_model_image_format(model));
    s->masks = valid ? valid->classes : NULL;
    s->smoothing = o.smoothing;
    return qkv__task_finish(out, status, (qkv_task){&segment_type, s, model, seed, valid != NULL});
}
