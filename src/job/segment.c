/* segment.c - `qkv train segment`: images and masks become a model that tells the class
 * of every pixel. */
#include "pipeline/masks.h"
#include <string.h>

#include "job/image_job.h"
#include "job/sample.h"
#include "qkv/painting.h"
#include "model/tables.h"
#include "qkv/pixelwise.h"
#include "qkv/segment.h"
#include "image/augment_steps.h"
#include "task/tables.h"

#define FIELD(member) .offset = offsetof(qkv__image_options, member)
static const qkv_option rows[] = {
    {.flag = "masks", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(masks),
     .value = "D", .help = "an image of the same name and size for each of them, whose colours "
                           "or levels of grey are the classes"},
    {.flag = "valid-masks", .type = QKV_OPT_STRING, FIELD(valid_masks), .value = "D",
     .help = "those of --valid"},
};
static const qkv_option_table table = {"Masks", rows, sizeof rows / sizeof *rows, 0};

enum { CHANNELS = 3 };

typedef struct {
    qkv__image_job p;
    qkv_segment_options o;
    qkv_pixelwise_config config;
    qkv_model *old; /* what the one to be made begins with, or NULL */
} job;

static qkv_status job_segment_make_model(job *j, const qkv_mask_palette *palette)
{
    qkv_model **m = &j->p.base.model;
    size_t side = j->config.trunk.image;
    qkv_status status =
        qkv__image_given(&j->p.base, "num_channels", &j->config.trunk.channels, CHANNELS);
    if (!status)
        status = qkv__image_given(&j->p.base, "num_labels", &j->config.outputs, palette->count);
    if (!status)
        status = qkv__run_create(&j->p.base, qkv_segmenter_type(), &j->config);
    if (!status)
        status = qkv__masks_label(*m, palette);
    const qkv_image_format f = {.height = side, .width = side, .channels = CHANNELS,
                                .resample = 2, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (status)
        return status;
    const qkv_image_format *old = j->old ? qkv_model_image_format(j->old) : NULL;
    qkv_model_set_image_format(*m, old ? old : &f);
    if (j->old)
        qkv_model_copy(*m, j->old);
    qkv_model_destroy(j->old);
    j->old = NULL;
    return QKV_OK;
}

/* A segmenter, or one to begin with: what cuts images into patches, under a new head. */
static qkv_status segment_load_model(job *j, qkv_mask_palette *palette)
{
    qkv__run *base = &j->p.base;
    qkv_status status = qkv__run_load(base, &j->old);
    if (status)
        return status;
    const qkv_patches_config *trunk = qkv__image_trunk_of(j->old);
    if (qkv_model_type_of(j->old) == qkv_segmenter_type()) {
        base->model = j->old;
        j->old = NULL;
        j->config = *(const qkv_pixelwise_config *)qkv_model_config(base->model);
        return qkv__masks_of_model(palette, base->model);
    }
    const char *name = qkv_model_type_name(qkv_model_type_of(j->old));
    bool patches = strcmp(name, "vit") == 0 || strcmp(name, "deit") == 0 ||
                   strcmp(name, "vit_mae") == 0; /* DINOv2's blocks have factors */
    if (!patches || trunk->channels != CHANNELS)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "--init: a qkv_segmenter, vit, deit or vit_mae "
                        "model of images in colour expected, %s holds a %s", base->o.init, name);
    j->config.trunk = *trunk;
    return QKV_OK;
}

/* The classes of a model to be made. */
static qkv_status find_classes(const job *j, qkv_mask_palette *palette)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_status status = qkv__masks_palette(palette, ctx, j->p.s.masks);
    if (!status && palette->count < 2)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: masks of at least 2 colours expected, found "
                          "%zu", j->p.s.masks, palette->count);
    return status;
}

static qkv_status segment_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_mask_palette palette = {0};
    if (!j->p.s.valid != !j->p.s.valid_masks)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "--valid and --valid-masks: both expected, "
                        "found one of them");
    qkv_status status = base->o.init ? segment_load_model(j, &palette)
                                     : qkv__image_pixelwise(&j->p, &j->config.trunk);
    if (!status && !base->model)
        status = find_classes(j, &palette);
    if (!status)
        status = qkv__image_read(&j->p, j->config.trunk.image, CHANNELS, &palette);
    return status || base->model ? status : job_segment_make_model(j, &palette);
}

static qkv_status segment_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    const qkv_segment_data train = {j->p.train.images, j->p.train.classes};
    const qkv_segment_data valid = {j->p.valid.images, j->p.valid.classes};
    qkv_status status = qkv_task_segment(&base->task, base->model, &train,
                                         valid.images ? &valid : NULL, &j->o, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, base->o.out);
    const qkv_pixelwise_config *config = qkv_model_config(base->model);
    const qkv_patches_config *t = &config->trunk;
    qkv__run_rate(base, t->width, qkv_training_rate(t->width));
    qkv__image_tell(&j->p, "%zu classes, images of %zu x %zu in patches of %zu",
                     config->outputs, t->image, t->image, t->patch);
    return QKV_OK;
}

static void segment_close_job(qkv__run *base)
{
    qkv_model_destroy(((job *)base)->old);
    qkv__image_close(base);
}

/* The image, its classes, and those that the model says. */
static qkv_status segment_sample_rows(const qkv__image_job *p, qkv_tape *t, size_t image,
                                uint8_t *const *painted)
{
    const qkv__image_set *set = qkv__sample_set(p);
    const uint8_t *data = qkv_pixels_data(set->images, image);
    const uint8_t *truth = qkv_pixels_data(set->classes, image);
    size_t height = qkv_pixels_height(set->images), width = qkv_pixels_width(set->images);
    size_t n = height * width;
    const qkv_image in = {.width = width, .height = height, .channels = CHANNELS,
                          .data = (uint8_t *)(uintptr_t)data}; /* is read only */
    memcpy(painted[0], data, n * CHANNELS);
    for (size_t i = 0; i < n; i++)
        qkv_class_color(truth[i], painted[1] + CHANNELS * i);
    uint8_t *said = qkv_malloc(p->base.ctx, n);
    qkv_status status = said ? qkv_segment(said, p->base.model, t, &in) : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        qkv_class_color(said[i], painted[2] + CHANNELS * i);
    qkv_free(p->base.ctx, said);
    return status;
}

static qkv_status segment_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    static const qkv__sample_images_kind kind = {"classes", 3, segment_sample_rows};
    return qkv__sample_images(user, t, &kind, out);
}

static const qkv_option_table *const task_tables[] =
    {&qkv__segment_table, &qkv__augment_table, NULL};
static const qkv_preset presets[] = {
    QKV__IMAGE_SIZE,
    {"batch", "32", NULL},
    {"weight-decay", "0.05", NULL},
    {"num_conv_layers", "2", NULL},
    {"crop-pad", "4", NULL},
    {"flip", "true", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__image_table, offsetof(job, p.s)},
    {&table, offsetof(job, p.s)},
    {&qkv__segment_table, offsetof(job, o)},
    {&qkv__augment_table, offsetof(job, o.augment)},
    QKV__RUN_TABLES,
    {&qkv__segmenter_config, offsetof(job, config)},
    {NULL, 0}};

const qkv__job_kind qkv__job_segment = {
    .name = "segment", .size = sizeof(job), .tables = tables, .presets = presets,
    .can = QKV_CAN_SEGMENT, .read = segment_read_data, .write = qkv__image_write,
    .open = qkv__image_open, .begin = segment_begin, .close = segment_close_job,
    .sample = segment_sample,
    .fixed = qkv__image_fixed, .task_tables = task_tables,
    .sizes = {qkv_vit_type}};
