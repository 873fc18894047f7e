/* classify_images.c - `qkv train classify` on images: they become a transformer that tells their
 * classes. */
#include <stdio.h>
#include <string.h>

#include "job/classify.h"
#include "job/image_model.h"
#include "job/sample.h"
#include "image/augment_steps.h"
#include "qkv/classify_images.h"

static const double MOST_RATE = 1e-3; /* when none is given */

typedef struct {
    size_t size;
    int type, split; /* QKV__KIND_..; a qkv_held_out_by */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    QKV__IMAGE_SIZE_ROW,
    {.flag = "type", .type = QKV_OPT_ENUM, FIELD(type), .names = qkv__image_kinds,
     .initial = "auto", .help = "convolutions or patches at first; auto: cct below 64 pixels"},
    QKV__IMAGE_SPLIT_ROW,
};
static const qkv_option_table images_table = {"Images", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__image_job p; /* with options as in o and s */
    qkv__classify_options o;
    settings s;
    qkv_augment_options augment;
    qkv__image_model m;
} job;

/* ---- data ---------------------------------------------------------------------------------- */

static qkv_status classify_images_read_images(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_status status = qkv__images_load(&j->p.all.images, ctx, j->p.s.images, &j->m.format);
    size_t without = 0;
    for (size_t i = 0; !status && i < qkv_pixels_count(j->p.all.images); i++)
        without += qkv_pixels_class(j->p.all.images, i) < 0;
    if (without && without < qkv_pixels_count(j->p.all.images))
        qkv__note(ctx, "%zu of %zu images have no class and are left out",
                 without, qkv_pixels_count(j->p.all.images));
    return status ? status : qkv__image_split(&j->p);
}

static qkv_status classify_images_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_model *old;
    j->m.kind = j->s.type;
    qkv_status status = qkv__image_model_init(&j->p, &old);
    if (!status)
        status = qkv__image_model_choose(&j->p, &j->m, old);
    if (!status)
        status = classify_images_read_images(j);
    if (!status) {
        j->m.config.classes = qkv_pixels_classes(j->p.all.images);
        status = qkv__image_model_make(&j->p, &j->m, old);
    }
    if (!status)
        status = qkv__image_label(&j->p);
    if (!status && j->p.s.valid) /* before anything is written: its classes must be the model's */
        status = qkv__pixels_load(&j->p.held.images, base->ctx, j->p.s.valid, &j->m.format,
                                  base->model);
    qkv_model_destroy(old);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------- */

static qkv_status classify_images_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_classify_images_options o = {.smoothing = j->o.smoothing, .augment = j->augment};
    qkv_status status = qkv_task_classify_images(&base->task, base->model, j->p.train.images,
                                                 j->p.valid.images, &o, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, j->p.s.images);
    const qkv_vit_config *config = qkv_model_config(base->model);
    qkv__run_tuned_rate(base, config->trunk.width, MOST_RATE);
    qkv__image_tell(&j->p, "images of %zu x %zu, %zu classes",
                     qkv_pixels_width(j->p.train.images), qkv_pixels_height(j->p.train.images),
                     config->classes);
    return QKV_OK;
}

/* What is common to all jobs on images, from settings of this one's. */
static qkv_status take_common(qkv__run *base)
{
    job *j = (job *)base;
    j->p.labelled = true;
    j->p.s = QKV__IMAGE_OPTIONS(j->o, j->s);
    return qkv__image_model_side(&j->p, &j->m);
}

static qkv_status classify_images_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    return qkv__sample_image_labels(user, t, out);
}

static const qkv_option_table *const task_tables[] = {&qkv__classify_table, &qkv__augment_table,
                                                      &qkv__mix_table, NULL};
static const char *const fixed[] = {"model", "type", NULL};
static const qkv_preset presets[] = {
    {"model", "micro", NULL},
    {"batch", "128", NULL},
    {"weight-decay", "0.05", NULL},
    {"warmup", "200", NULL},
    {"crop-pad", "4", NULL},
    {"flip", "true", NULL},
    {"cutmix", "1", NULL},
    {"mix", "0.5", NULL},
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__classify_table, offsetof(job, o)},
    {&images_table, offsetof(job, s)},
    {&qkv__augment_table, offsetof(job, augment)},
    {&qkv__mix_table, offsetof(job, augment)},
    QKV__RUN_TABLES,
    {&qkv__image_model_table, offsetof(job, m.given)},
    {NULL, 0}};

const qkv__job_kind qkv__classify_images = {
    .name = "classify", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = qkv__classify_decides, .variant = qkv__job_classify_variant, .check = take_common,
    .can = QKV_CAN_CLASSIFY_IMAGES, .read = classify_images_read_data, .write = qkv__image_write,
    .open = qkv__image_open, .begin = classify_images_begin, .close = qkv__image_close,
    .sample = classify_images_sample,
    .fixed = fixed, .task_tables = task_tables,
    .about = "images", .sizes = {qkv_cct_type, qkv_vit_type},
    .other = &qkv__classify_series_kind};
