/* embed_images.c - `qkv train embed` on images: two random views of an image get alike vectors. */
#include "image/augment_steps.h"
#include "job/embed.h"
#include "job/image_model.h"
#include "qkv/embed.h"

static const double MOST_RATE = 1e-3; /* when none is given */

typedef struct {
    size_t size, projection;
    int type, split; /* QKV__KIND_..; a qkv_held_out_by */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    QKV__IMAGE_SIZE_ROW,
    {.flag = "type", .type = QKV_OPT_ENUM, FIELD(type), .names = qkv__image_kinds,
     .initial = "auto", .help = "convolutions or patches at first; auto: cct below 64 pixels"},
    QKV__IMAGE_SPLIT_ROW,
    {.flag = "projection", .key = "projection", .type = QKV_OPT_SIZE, .min = 1, .max = 65536,
     FIELD(projection), .initial = "128",
     .help = "numbers that the loss compares, made of a vector by two layers"},
};
static const qkv_option_table table = {"Images", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__image_job p; /* with options as in o and s */
    qkv__embed_options o;
    settings s;
    qkv_augment_options augment;
    qkv__image_model m;
} job;

static qkv_status embed_images_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_model *old;
    j->m.kind = j->s.type;
    j->m.encoder = true;
    qkv_status status = qkv__image_model_init(&j->p, &old);
    if (!status)
        status = qkv__image_model_choose(&j->p, &j->m, old);
    if (!status)
        status = qkv__images_load(&j->p.all.images, base->ctx, j->p.s.images, &j->m.format);
    if (!status) {
        j->p.labelled = qkv_pixels_labelled(j->p.all.images); /* for the evaluation */
        status = qkv__image_split(&j->p);
    }
    if (!status)
        status = qkv__image_model_make(&j->p, &j->m, old);
    if (!status && j->p.labelled)
        status = qkv__image_label(&j->p);
    if (!status && j->p.s.valid)
        status = qkv__pixels_load(&j->p.held.images, base->ctx, j->p.s.valid, &j->m.format,
                                  j->p.labelled ? base->model : NULL);
    qkv_model_destroy(old);
    return status;
}

static qkv_status embed_images_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_embed_images_options o = {.temperature = j->o.temperature,
                                        .projection = j->s.projection, .augment = j->augment};
    qkv_status status = qkv_task_embed_images(&base->task, base->model, j->p.train.images,
                                              j->p.valid.images, &o, base->o.seed);
    if (status)
        return qkv_fail_prefix(base->ctx, j->p.s.images);
    const qkv_vit_config *config = qkv_model_config(base->model);
    qkv__run_tuned_rate(base, config->trunk.width, MOST_RATE);
    qkv__image_tell(&j->p, "images of %zu x %zu in two views%s",
                    qkv_pixels_width(j->p.train.images), qkv_pixels_height(j->p.train.images),
                    qkv_pixels_classes(j->p.train.images) ? ", classes kept for the evaluation"
                                                          : "");
    return QKV_OK;
}

/* What is common to all jobs on images, from settings of this one's. */
static qkv_status embed_images_take_common(qkv__run *base)
{
    job *j = (job *)base;
    j->p.s = QKV__IMAGE_OPTIONS(j->o, j->s);
    return qkv__image_model_side(&j->p, &j->m);
}

static const qkv_option_table *const task_tables[] = {&qkv__embed_table, &table,
                                                      &qkv__augment_table, NULL};
static const char *const fixed[] = {"model", "type", NULL};
static const qkv_preset presets[] = {
    {"model", "micro", NULL},
    {"temperature", "0.5", NULL},
    {"batch", "256", NULL},
    {"weight-decay", "0.01", NULL},
    {"warmup", "100", NULL},
    {"crop-scale", "0.2", NULL},
    {"crop-filter", "bilinear", NULL},
    {"flip", "true", NULL},
    {"jitter", "0.5", NULL},
    {"grey", "0.2", NULL},
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__embed_table, offsetof(job, o)},
    {&table, offsetof(job, s)},
    {&qkv__augment_table, offsetof(job, augment)},
    QKV__RUN_TABLES,
    {&qkv__image_model_table, offsetof(job, m.given)},
    {NULL, 0}};

const qkv__job_kind qkv__embed_images = {
    .name = "embed", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = qkv__embed_decides, .variant = qkv__embed_variant,
    .other = &qkv__embed_captions, .check = embed_images_take_common,
    .can = QKV_CAN_EMBED_IMAGES, .read = embed_images_read_data, .write = qkv__image_write,
    .open = qkv__image_open, .begin = embed_images_begin, .close = qkv__image_close,
    .fixed = fixed, .task_tables = task_tables,
    .about = "images", .sizes = {qkv_cct_encoder_type, qkv_vit_encoder_type}};
