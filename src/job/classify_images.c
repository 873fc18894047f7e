/* classify_images.c - `qkv train classify` on images: they become a transformer that tells their
 * classes. */
#include <stdio.h>
#include <string.h>

#include "job/classify.h"
#include "job/sample.h"
#include "job/image_job.h"
#include "model/tables.h"
#include "qkv/vit.h"
#include "qkv/classify_images.h"

enum {
    COMPACT_BELOW = 64, MOST_SIDE = 224, MOST_SIZE = 4096, PATCH = 16, SMALL_PATCH = 4, SMALL = 96
};
static const double MOST_RATE = 1e-3; /* when none is given */
static const double TUNING = 0.25; /* a model that knows images learns in smaller steps */

enum { KIND_AUTO, KIND_CCT, KIND_VIT };
typedef struct {
    size_t size;
    int type, split; /* KIND_..; a qkv_held_out_by */
} settings;

static const char *const kinds[] = {"auto", "cct", "vit", NULL};
#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "size", .type = QKV_OPT_SIZE, .max = MOST_SIZE, FIELD(size), .initial = "0",
     .help = "side that images get, in pixels; 0: the first one's, at most 224"},
    {.flag = "type", .type = QKV_OPT_ENUM, FIELD(type), .names = kinds, .initial = "auto",
     .help = "convolutions or patches at first; auto: cct below 64 pixels"},
    {.flag = "split", .type = QKV_OPT_ENUM, FIELD(split), .names = qkv__image_splits,
     .initial = "auto",
     .help = "what --valid-last takes: the last, the last of each class, files whose names begin "
             "alike; auto: of each class where they lie sorted by it"},
};
static const qkv_option_table images_table = {"Images", rows, sizeof rows / sizeof *rows, 0};
#undef FIELD

/* The fields of either type; what --set gives goes into the chosen one's. */
#define CONFIG qkv_vit_config
#include "model/config_rows.h"
#include "image/augment_steps.h"
static const qkv_option model_rows[] = {
    {.key = "image_size", .type = QKV_OPT_SIZE, .max = MOST_SIZE, FIELD(trunk.image),
     .initial = "0", .help = "side of the images in pixels, as --size"},
    SIZE_ROW("patch_size", trunk.patch, 1, "16", "vit: side of a patch; below 96 pixels 4"),
    SIZE_ROW("num_conv_layers", convolutions, 1, "2", "cct: convolutions; each halves the image"),
    SIZE_ROW("conv_channels", conv_channels, 1, "64", "cct: channels of all of them but the last"),
    BOOL_ROW("use_positions", positions, "true", "cct: learn a vector for every place"),
    PATCHES_BLOCK_ROWS(trunk, "128", "4", "4", "4 times hidden_size, of cct twice", "true",
                       "; cct: false"),
};
static const qkv_option_table model_table = {"Model of images", model_rows,
                                               sizeof model_rows / sizeof *model_rows, 0};

typedef struct {
    qkv__image_job p; /* with options as in o and s */
    qkv__classify_options o;
    settings s;
    qkv_augment_options augment;
    qkv_vit_config given; /* what --set says */
    qkv_image_format format;
    const qkv_model_type *type; /* of the model to be made */
    qkv_vit_config config;
} job;

/* ---- the model ----------------------------------------------------------------------------- */

/* Puts what was given on the command line into the fields of the type's configuration. */
static qkv_status take_given(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    const qkv_option_table *table = qkv_model_type_config(j->type);
    qkv_options *o = NULL;
    char text[QKV_OPTION_TEXT];
    qkv_status status = qkv_options_create(&o, ctx);
    if (!status)
        status = qkv_options_bind(o, table, &j->config);
    if (!status && !qkv_model_type_preset(j->type, j->p.s.model, &j->config))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--model: %s has no size \"%.40s\"",
                          qkv_model_type_name(j->type), j->p.s.model);
    for (size_t i = 0; i < model_table.count && !status; i++) {
        const qkv_option *row = &model_table.rows[i];
        if (!qkv__run_given(&j->p.base, row->key))
            continue;
        qkv_option_text(row, &j->given, text);
        status = qkv_options_set(o, row->key, text);
    }
    qkv_options_destroy(o);
    return status;
}

/* A new model, but for its classes. */
static qkv_status classify_images_choose_model(job *j)
{
    size_t side = j->format.height;
    bool compact = j->s.type == KIND_AUTO ? side < COMPACT_BELOW : j->s.type == KIND_CCT;
    j->type = compact ? qkv_cct_type() : qkv_vit_type();
    qkv_status status = take_given(j);
    j->config.trunk.image = side;
    j->config.trunk.channels = j->format.channels;
    if (!compact && !qkv__run_given(&j->p.base, "patch_size"))
        j->config.trunk.patch = side < SMALL ? SMALL_PATCH : PATCH;
    return status;
}

/* One that begins with what the one of --init has, but for its classes. */
static void choose_as(job *j, const qkv_model *old)
{
    j->type = qkv_model_can(old, QKV_CAN_CLASSIFY_IMAGES) ? qkv_model_type_of(old) : qkv_vit_type();
    qkv_option_defaults(qkv_model_type_config(j->type), &j->config);
    if (qkv_model_can(old, QKV_CAN_CLASSIFY_IMAGES))
        j->config = *(const qkv_vit_config *)qkv_model_config(old);
    j->config.trunk = *qkv__image_trunk_of(old);
    if (j->p.s.size)
        j->config.trunk.image = j->p.s.size;
}

/* old: the one of --init, or NULL. */
static qkv_status classify_images_make_model(job *j, qkv_model *old)
{
    qkv__run *base = &j->p.base;
    j->config.classes = qkv_pixels_classes(j->p.all.images);
    qkv_status status = qkv__run_create(base, j->type, &j->config);
    if (status)
        return status;
    if (old)
        qkv_model_copy(base->model, old);
    if (!old || !qkv_model_image_format(old))
        qkv__image_measure(&j->p, &j->format);
    qkv_model_set_image_format(base->model, &j->format);
    return qkv__image_label(&j->p);
}

/* ---- images ------------------------------------------------------------------------------ */

/* The format that the model of --init wants, or that of the data. */
static qkv_status choose_format(job *j, const qkv_model *old)
{
    qkv_context *ctx = j->p.base.ctx;
    const qkv_image_format *had = old ? qkv_model_image_format(old) : NULL;
    size_t most = j->p.s.size ? j->p.s.size : MOST_SIDE;
    qkv_status status = qkv__images_format(&j->format, ctx, j->p.s.images, most);
    if (status)
        return status;
    if (had)
        j->format = *had;
    if (old && !had) {
        j->format.channels = qkv__image_trunk_of(old)->channels;
        j->format.height = j->format.width = qkv__image_trunk_of(old)->image;
    }
    if (j->p.s.size)
        j->format.height = j->format.width = j->p.s.size;
    size_t side = j->format.height, step = side < COMPACT_BELOW ? 1 : PATCH;
    if (!old && !j->p.s.size && side > step)
        j->format.height = j->format.width = side - side % step;
    return QKV_OK;
}

static qkv_status classify_images_read_images(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_status status = qkv__images_load(&j->p.all.images, ctx, j->p.s.images, &j->format);
    size_t without = 0;
    for (size_t i = 0; !status && i < qkv_pixels_count(j->p.all.images); i++)
        without += qkv_pixels_class(j->p.all.images, i) < 0;
    if (without && without < qkv_pixels_count(j->p.all.images))
        qkv__note(ctx, "%zu of %zu images have no class and are left out",
                 without, qkv_pixels_count(j->p.all.images));
    return status ? status : qkv__image_split(&j->p);
}

/* Before anything is written: its classes must be the model's. */
static qkv_status read_valid(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_pixels *read = NULL;
    qkv_status status = qkv__images_load(&read, ctx, j->p.s.valid, &j->format);
    if (!status)
        status = qkv__pixels_copy(&j->p.held.images, ctx, NULL, read, NULL,
                                  qkv_pixels_count(read), j->p.base.model, j->p.s.valid);
    qkv_pixels_close(read);
    return status;
}

static qkv_status classify_images_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_model *old = NULL;
    qkv_status status = base->o.init ? qkv__run_load(base, &old) : QKV_OK;
    if (!status && old && !qkv__image_trunk_of(old))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--init: a model of images expected, %s holds a "
                          "%s", base->o.init, qkv_model_type_name(qkv_model_type_of(old)));
    if (!status)
        status = choose_format(j, old);
    if (!status && !old)
        status = classify_images_choose_model(j);
    if (!status && old)
        choose_as(j, old);
    if (!status)
        status = classify_images_read_images(j);
    if (!status)
        status = classify_images_make_model(j, old);
    if (!status && j->p.s.valid)
        status = read_valid(j);
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
    double rate = qkv_training_rate(config->trunk.width);
    rate = rate < MOST_RATE ? rate : MOST_RATE;
    qkv__run_rate(base, config->trunk.width, base->o.init ? TUNING * rate : rate);
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
    j->p.s = (qkv__image_options){.images = j->o.data, .valid = j->o.valid, .model = j->o.model,
                                  .valid_last = j->o.valid_last, .split = j->s.split,
                                  .size = j->s.size};
    if (!qkv__run_given(base, "image_size"))
        return QKV_OK;
    qkv_status status = qkv__image_side(&j->p, "image_size", &j->given.trunk.image);
    j->p.s.size = j->given.trunk.image;
    return status;
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
    {"bf16", "true", "whichever is faster"},
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__classify_table, offsetof(job, o)},
    {&images_table, offsetof(job, s)},
    {&qkv__augment_table, offsetof(job, augment)},
    {&qkv__mix_table, offsetof(job, augment)},
    QKV__RUN_TABLES,
    {&model_table, offsetof(job, given)},
    {NULL, 0}};

const qkv__job_kind qkv__classify_images = {
    .name = "classify", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = "data", .variant = qkv__job_classify_variant, .check = take_common,
    .can = QKV_CAN_CLASSIFY_IMAGES, .read = classify_images_read_data, .write = qkv__image_write,
    .open = qkv__image_open, .begin = classify_images_begin, .close = qkv__image_close,
    .sample = classify_images_sample,
    .fixed = fixed, .task_tables = task_tables,
    .about = "images", .sizes = {qkv_cct_type, qkv_vit_type}};
