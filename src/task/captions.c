/* captions.c - vectors of images and of texts in one space, learnt from images with captions. */
#include <math.h>

#include "qkv/clip.h"
#include "qkv/embed.h"
#include "qkv/random.h"
#include "task/common.h"
#include "task/vectors.h"

enum { CAPTION, NOTHING, IMAGE, FIELDS }; /* of a record */

typedef struct {
    qkv__image_task base;
    qkv_captioned train, valid; /* valid.images NULL: nothing is held out */
    size_t *begins;             /* (training images + 1): captions begins[i] .. are image i's */
    qkv__packed texts;          /* of the part at hand */
    size_t *numbers;            /* (room) the part's images */
    size_t room;
} captions;

qkv_captions_options qkv_captions_defaults(void)
{
    qkv_captions_options o = {.augment = qkv_augment_defaults()};
    o.augment.crop_scale = 0.5;
    return o;
}

/* ---- captions of images -------------------------------------------------------------------- */

static size_t caption_image(const qkv_records *r, size_t record)
{
    const int32_t *ids;
    return qkv_records_get(r, record, IMAGE, &ids) == 1 && *ids >= 0 ? (size_t)*ids : SIZE_MAX;
}

/* A list that is freed with qkv_free; NULL: memory is out. The captions are checked. */
static size_t *caption_begins(qkv_context *ctx, const qkv_captioned *d)
{
    size_t images = qkv_pixels_count(d->images), record = 0;
    size_t *begins = qkv_calloc(ctx, images + 1, sizeof *begins);
    for (size_t i = 0; i < images && begins; i++) {
        begins[i] = record;
        while (record < qkv_records_count(d->captions) && caption_image(d->captions, record) == i)
            record++;
    }
    if (begins)
        begins[images] = record;
    return begins;
}

/* ---- training ---------------------------------------------------------------------------- */

/* One of the image's captions, drawn for each sample. */
static size_t choose_caption(const captions *s, size_t image, uint64_t sample)
{
    qkv_rng r;
    size_t begin = s->begins[image], count = s->begins[image + 1] - begin;
    qkv_rng_init(&r, s->base.seed ^ qkv_hash64("caption", 7), sample);
    return begin + (count > 1 ? (size_t)qkv_rng_below(&r, (uint32_t)count) : 0);
}

static qkv_tensor *part_images(captions *s, qkv_tape *t, const qkv_micro_batch *part)
{
    double begun = qkv_now();
    size_t n = part->count;
    if (n > s->room) {
        qkv_free(s->base.ctx, s->numbers);
        s->room = 0;
        s->numbers = qkv_calloc(s->base.ctx, n, sizeof *s->numbers);
        if (!s->numbers)
            return NULL;
        s->room = n;
    }
    qkv_tensor *x = qkv__images_tensor(t, s->base.train, n);
    if (!x || qkv_batches_get(s->base.batches, qkv__first_sample(part), n, qkv_tensor_fill(x),
                              NULL, s->numbers))
        return NULL;
    qkv__add_data_time(part, begun);
    return x;
}

/* The scale is kept at QKV_CLIP_MOST_SCALE or below, as Radford et al. do. */
static void limit_scale(qkv_param *p)
{
    qkv_real *x = qkv_param_data(p);
    const qkv_real most = (qkv_real)log(QKV_CLIP_MOST_SCALE);
    if (!x || !(*x > most))
        return;
    *x = most;
    qkv_param_touch(p);
}

static qkv_tensor *captions_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    captions *s = self;
    qkv_model *m = s->base.model;
    qkv_param *log_scale = qkv_clip_log_scale(m);
    limit_scale(log_scale);
    qkv_tensor *pixels = part_images(s, t, part);
    qkv__packed_clear(&s->texts);
    for (size_t i = 0; i < part->count && pixels; i++)
        qkv__packed_field(&s->texts, s->train.captions,
                          choose_caption(s, s->numbers[i], qkv__first_sample(part) + i), CAPTION);
    if (!pixels || s->texts.failed)
        return NULL;
    qkv_tensor *images = qkv_clip_images(m, t, pixels);
    qkv_tensor *texts = qkv__text_vectors(&s->texts, m, t);
    if (part->terms && qkv_param_data(log_scale))
        qkv_term_mean(part, "scale", exp((double)*qkv_param_data(log_scale)));
    return qkv__share_of_batch(t, qkv_clip_loss(t, images, texts, qkv_use(t, log_scale)), part);
}

/* ---- evaluation -------------------------------------------------------------------------- */

/* Images that are evaluated, their captions, and the vectors of both. */
typedef struct {
    size_t *images, *records, *begins; /* (n), (m), (n + 1) into records */
    size_t n, m;
    qkv_real *x, *y; /* (n, width), (m, width) */
} selection;

static void selection_free(selection *e, qkv_context *ctx)
{
    qkv_free(ctx, e->images);
    qkv_free(ctx, e->records);
    qkv_free(ctx, e->begins);
    qkv_free(ctx, e->x);
    qkv_free(ctx, e->y);
}

/* n images, evenly spaced. */
static qkv_status selection_make(selection *e, qkv_context *ctx, const qkv_captioned *d, size_t n,
                                 size_t width)
{
    size_t all = qkv_pixels_count(d->images), total = qkv_records_count(d->captions);
    size_t *begins = caption_begins(ctx, d);
    *e = (selection){.n = n, .images = qkv_calloc(ctx, n, sizeof *e->images),
                     .records = qkv_calloc(ctx, total, sizeof *e->records),
                     .begins = qkv_calloc(ctx, n + 1, sizeof *e->begins),
                     .x = qkv_calloc(ctx, n, width * sizeof *e->x)};
    bool made = begins && e->images && e->records && e->begins && e->x;
    for (size_t i = 0; i < n && made; i++) {
        size_t image = e->images[i] = qkv__evenly(i, n, all);
        for (size_t r = begins[image]; r < begins[image + 1]; r++)
            e->records[e->m++] = r;
        e->begins[i + 1] = e->m;
    }
    qkv_free(ctx, begins);
    e->y = made ? qkv_calloc(ctx, e->m, width * sizeof *e->y) : NULL;
    return e->y ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status evaluate_captions(qkv_model *m, qkv_tape *t, const qkv_captioned *d,
                                    size_t limit, qkv_recall_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t width = qkv__vector_width(m);
    selection e;
    qkv_param *log_scale = qkv_clip_log_scale(m);
    limit_scale(log_scale);
    const qkv_real *scale = qkv_param_data(log_scale);
    qkv_status status = selection_make(&e, ctx, d, qkv__limited(limit, qkv_pixels_count(d->images)),
                                       width);
    if (!status)
        status = qkv__image_set_vectors(m, t, d->images, e.images, e.n, false, e.x);
    if (!status)
        status = qkv__field_vectors(m, t, d->captions, CAPTION, e.records, e.m, e.y);
    if (!status)
        status = qkv__recall_many(ctx, t, e.x, e.n, e.y, e.begins, width,
                                  exp(-(double)(scale ? *scale : 0)), out);
    selection_free(&e, ctx);
    return status;
}

static qkv_status captions_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    captions *s = self;
    qkv_recall_score score;
    qkv_status status = evaluate_captions(s->base.model, t, &s->valid, limit, &score);
    if (status)
        return status;
    size_t all = qkv_pixels_count(s->valid.images);
    *out = (qkv_metrics){.more_is_better = true, .scored = qkv__limited(limit, all), .units = all};
    qkv__recall_add(out, &score);
    qkv_metrics_add(out, "loss", score.loss);
    return QKV_OK;
}

/* ---- checks ------------------------------------------------------------------------------ */

/* Every image has captions that the model can read, in the order of images. */
static qkv_status captions_check(const qkv_model *m, const qkv_captioned *d, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_records *r = d->captions;
    size_t vocab, most, last = 0, images = qkv_pixels_count(d->images);
    qkv__vector_limits(m, &vocab, &most);
    qkv_status status = qkv__images_check(m, qkv__vector_trunk(m), d->images, what);
    if (status)
        return status;
    if (qkv_records_fields(r) != FIELDS || !qkv_records_count(r) || caption_image(r, 0) != 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data hold no captions of the first image",
                        what);
    if (qkv_records_max(r, CAPTION) >= (int64_t)vocab)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have token %d, the model only %zu",
                        what, (int)qkv_records_max(r, CAPTION), vocab);
    for (size_t i = 0; i < qkv_records_count(r); i++) {
        const int32_t *ids;
        size_t n = qkv_records_get(r, i, CAPTION, &ids), image = caption_image(r, i);
        if (image >= images || image < last || image > last + 1)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data: caption %zu is not of image %zu or "
                            "the next of %zu", what, i + 1, last, images);
        if (!n || n > most)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have a caption of %zu tokens: 1 to "
                            "the model's %zu positions expected", what, n, most);
        last = image;
    }
    return last + 1 == images ? QKV_OK
                              : qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data: images from %zu on "
                                         "have no caption", what, last + 1);
}

qkv_status qkv_captions_evaluate(qkv_model *m, qkv_tape *t, const qkv_captioned *data,
                                 size_t limit, qkv_recall_score *out)
{
    *out = (qkv_recall_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_EMBED_BOTH))
        return QKV_E_ARGUMENT;
    qkv_status status = captions_check(m, data, "held-out");
    return status ? status : evaluate_captions(m, t, data, limit, out);
}

/* ---- the task ---------------------------------------------------------------------------- */

static double captions_flops(void *self)
{
    captions *s = self;
    const qkv_records *r = s->train.captions;
    double length = (double)qkv_records_ids(r, CAPTION) / (double)qkv_records_count(r);
    return qkv_model_flops(s->base.model,
                           &(qkv_workload){.samples = 1, .length = length,
                                           .height = qkv_pixels_height(s->train.images),
                                           .width = qkv_pixels_width(s->train.images)});
}

static void captions_destroy(void *self)
{
    captions *s = self;
    qkv_free(s->base.ctx, s->begins);
    qkv_free(s->base.ctx, s->numbers);
    qkv__packed_free(&s->texts);
    qkv__image_task_destroy(self);
}

static const qkv_task_type captions_type = {.name = "captions", .unit = "images", .phases = 1,
                                            .loss = captions_loss, .evaluate = captions_evaluate,
                                            .flops = captions_flops, .destroy = captions_destroy};

qkv_status qkv_task_captions(qkv_task *out, qkv_model *model, const qkv_captioned *train,
                             const qkv_captioned *valid, const qkv_captions_options *options,
                             uint64_t seed)
{
    const qkv_captions_options o = options ? *options : qkv_captions_defaults();
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_EMBED_BOTH))
        return QKV_E_ARGUMENT;
    qkv_status status = captions_check(model, train, "training");
    if (!status && valid)
        status = captions_check(model, valid, "held-out");
    if (!status && qkv_augment_mixes(&o.augment))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "images with captions: neither mixup nor cutmix "
                          "expected");
    captions *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    const qkv_batches_options b = {.augment = o.augment};
    status = qkv__image_task_init(&s->base, model, train->images, valid ? valid->images : NULL,
                                  seed, b, qkv_model_image_format(model));
    s->train = *train;
    s->valid = valid ? *valid : (qkv_captioned){0};
    s->texts.ctx = ctx;
    if (!status) {
        s->begins = caption_begins(ctx, train);
        status = s->begins ? QKV_OK : QKV_E_MEMORY;
    }
    return qkv__task_finish(out, status, (qkv_task){&captions_type, s, model, seed, valid != NULL});
}
