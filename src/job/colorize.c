/* colorize.c - `qkv train colorize`: colour images become a model that colours grey
 * ones. */
#include <string.h>

#include "job/image_job.h"
#include "job/sample.h"
#include "model/tables.h"
#include "qkv/pixelwise.h"
#include "qkv/colorize.h"
#include "image/augment_steps.h"
#include "task/tables.h"

enum { CHANNELS = 3 };

typedef struct {
    qkv__image_job p;
    qkv_colorize_options o;
    qkv_pixelwise_config config;
} job;

static qkv_status job_colorize_make_model(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    const qkv_held_out *s = &j->p.split;
    double mean[2];
    qkv_status status =
        qkv_colorize_mean(ctx, j->p.all.images, s->train, s->train_count, mean);
    if (status)
        return status;
    if (!qkv__run_given(&j->p.base, "mean_a"))
        j->config.mean_a = mean[0];
    if (!qkv__run_given(&j->p.base, "mean_b"))
        j->config.mean_b = mean[1];
    if (!qkv__run_given(&j->p.base, "num_channels"))
        j->config.trunk.channels = QKV_COLORIZER_INPUTS;
    return qkv__run_create(&j->p.base, qkv_colorizer_type(), &j->config);
}

static qkv_status colorize_load_model(job *j)
{
    qkv__run *base = &j->p.base;
    qkv_status status = qkv__run_load(base, &base->model);
    if (!status && qkv_model_type_of(base->model) != qkv_colorizer_type())
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: a %s model does not colour images",
                        base->o.init, qkv_model_type_name(qkv_model_type_of(base->model)));
    if (!status)
        j->config = *(const qkv_pixelwise_config *)qkv_model_config(base->model);
    return status;
}

static qkv_status colorize_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = base->o.init ? colorize_load_model(j)
                                     : qkv__image_pixelwise(&j->p, &j->config.trunk);
    if (!status)
        status = qkv__image_read(&j->p, j->config.trunk.image, CHANNELS, NULL);
    return status || base->o.init ? status : job_colorize_make_model(j);
}

static qkv_status colorize_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_status status = qkv_task_colorize(&base->task, base->model, j->p.train.images,
                                          j->p.valid.images, &j->o, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, base->o.out);
    const qkv_pixelwise_config *config = qkv_model_config(base->model);
    const qkv_patches_config *t = &config->trunk;
    qkv__run_rate(base, t->width, qkv_training_rate(t->width));
    qkv__image_tell(&j->p, "images of %zu x %zu in patches of %zu, hints of %zu", t->image,
                     t->image, t->patch, config->cell);
    return QKV_OK;
}

/* The image in grey, coloured, and as it is. */
static qkv_status colorize_sample_rows(const qkv__image_job *p, qkv_tape *t, size_t image,
                                 uint8_t *const *painted)
{
    const qkv_pixels *images = qkv__sample_set(p)->images;
    const uint8_t *data = qkv_pixels_data(images, image);
    size_t height = qkv_pixels_height(images), width = qkv_pixels_width(images);
    size_t n = height * width;
    const qkv_image in = {.width = width, .height = height, .channels = CHANNELS,
                          .data = (uint8_t *)(uintptr_t)data}; /* is read only */
    for (size_t i = 0; i < n; i++) {
        const uint8_t *rgb = data + CHANNELS * i;
        double grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
        memset(painted[0] + CHANNELS * i, (int)(grey + 0.5), CHANNELS);
    }
    memcpy(painted[2], data, n * CHANNELS);
    qkv_image colored;
    qkv_status status = qkv_colorize(&colored, p->base.model, t, &in, NULL, NULL, 0);
    if (!status)
        memcpy(painted[1], colored.data, n * CHANNELS);
    qkv_image_free(&colored, p->base.ctx);
    return status;
}

static qkv_status colorize_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    static const qkv__sample_images_kind kind = {"coloured", 3, colorize_sample_rows};
    return qkv__sample_images(user, t, &kind, out);
}

static const qkv_option_table *const task_tables[] =
    {&qkv__colorize_table, &qkv__augment_table, NULL};
static const qkv_preset presets[] = {
    QKV__IMAGE_SIZE,
    {"batch", "64", NULL},
    {"weight-decay", "0.05", NULL},
    {"flip", "true", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size"},
    {"num_channels", "4", NULL},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__image_table, offsetof(job, p.s)},
    {&qkv__colorize_table, offsetof(job, o)},
    {&qkv__augment_table, offsetof(job, o.augment)},
    QKV__RUN_TABLES,
    {&qkv__colorizer_config, offsetof(job, config)},
    {NULL, 0}};

const qkv__job_kind qkv__job_colorize = {
    .name = "colorize", .size = sizeof(job), .tables = tables, .presets = presets,
    .can = QKV_CAN_COLORIZE, .read = colorize_read_data, .write = qkv__image_write,
    .open = qkv__image_open, .begin = colorize_begin, .close = qkv__image_close,
    .sample = colorize_sample,
    .fixed = qkv__image_fixed, .task_tables = task_tables,
    .sizes = {qkv_vit_type}};
