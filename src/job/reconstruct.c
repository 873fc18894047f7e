/* reconstruct.c - `qkv train reconstruct`: images become a masked autoencoder, which
 * fills in what it does not see. */
#include <string.h>

#include "job/image_job.h"
#include "job/sample.h"
#include "model/tables.h"
#include "qkv/mae.h"
#include "qkv/reconstruct.h"
#include "image/augment_steps.h"

typedef struct {
    qkv__image_job p;
    qkv_augment_options augment;
    qkv_mae_config config;
} job;

static qkv_status reconstruct_choose_model(job *j)
{
    qkv_status status = qkv__run_preset(&j->p.base, qkv_mae_type(), j->p.s.model, &qkv__mae_config,
                                        &j->config);
    return status ? status : qkv__image_trunk(&j->p, &j->config.trunk);
}

static qkv_status reconstruct_load_model(job *j)
{
    qkv__run *base = &j->p.base;
    qkv_status status = qkv__run_load_able(base, QKV_CAN_RECONSTRUCT, "vit_mae");
    if (!status)
        j->config = *(const qkv_mae_config *)qkv_model_config(base->model);
    return status;
}

static qkv_status reconstruct_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_status status = base->o.init ? reconstruct_load_model(j) : reconstruct_choose_model(j);
    size_t side = j->config.trunk.image, channels = j->config.trunk.channels;
    if (!status && channels != 1 && channels != 3)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "num_channels: 1 or 3 expected, found %zu",
                          channels);
    if (!status)
        status = qkv__image_read(&j->p, side, channels, NULL);
    if (!status && !base->o.init)
        status = qkv__run_create(base, qkv_mae_type(), &j->config);
    if (!status && !qkv_model_image_format(base->model)) {
        qkv_image_format f = qkv__images_square(side, channels);
        qkv__image_measure(&j->p, &f);
        qkv_model_set_image_format(base->model, &f);
    }
    return status;
}

static qkv_status reconstruct_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_status status = qkv_task_reconstruct(&base->task, base->model, j->p.train.images,
                                             j->p.valid.images, &j->augment, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, base->o.out);
    const qkv_mae_config *config = qkv_model_config(base->model);
    const qkv_patches_config *t = &config->trunk;
    qkv__run_rate(base, t->width, qkv_training_rate(t->width));
    qkv__image_tell(&j->p, "images of %zu x %zu in patches of %zu, %g %% of them hidden",
                     t->image, t->image, t->patch, 100 * config->mask_ratio);
    return QKV_OK;
}

/* The image with patches hidden, filled in, and as it is. */
static qkv_status reconstruct_sample_rows(const qkv__image_job *p, qkv_tape *t, size_t image,
                                          uint8_t *const *painted)
{
    const qkv_pixels *images = qkv__sample_set(p)->images;
    const qkv_mae_config *c = qkv_model_config(p->base.model);
    const uint8_t *data = qkv_pixels_data(images, image);
    memcpy(painted[2], data, qkv_pixels_height(images) * qkv_pixels_width(images) *
                              qkv_pixels_channels(images));
    return qkv_reconstruct(p->base.model, t, data, c->mask_ratio, image, true, painted[0],
                           painted[1]);
}

static qkv_status reconstruct_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    static const qkv__sample_images_kind kind = {"filled-in", 3, reconstruct_sample_rows};
    return qkv__sample_images(user, t, &kind, out);
}

static const qkv_option_table *const task_tables[] = {&qkv__augment_table, NULL};
static const qkv_preset presets[] = {
    QKV__IMAGE_SIZE,
    {"batch", "64", NULL},
    {"weight-decay", "0.05", NULL},
    {"beta2", "0.95", NULL},
    {"crop-scale", "0.5", NULL},
    {"flip", "true", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__image_table, offsetof(job, p.s)},
    {&qkv__augment_table, offsetof(job, augment)},
    QKV__RUN_TABLES,
    {&qkv__mae_config, offsetof(job, config)},
    {NULL, 0}};

const qkv__job_kind qkv__job_reconstruct = {
    .name = "reconstruct", .size = sizeof(job), .tables = tables, .presets = presets,
    .can = QKV_CAN_RECONSTRUCT, .read = reconstruct_read_data,
    .write = qkv__image_write, .open = qkv__image_open, .begin = reconstruct_begin,
    .sample = reconstruct_sample,
    .close = qkv__image_close, .fixed = qkv__image_fixed, .task_tables = task_tables,
    .sizes = {qkv_mae_type}};
