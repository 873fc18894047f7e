/* image_job.c - images to train on. */
#include "job/image_job.h"

#include <stdio.h>

#include "pipeline/masks.h"
#include "text/texts.h"
#include "io/file.h"
#include "qkv/mae.h"

enum { MOST_SIDE = 64, STEP = 8, WORDS = 160 };
static const double FLAT = 1e-3; /* a channel that varies less than this is not stretched */

/* Files of a part of the data in OUT. */
typedef struct {
    const char *images, *classes;
} file_names;
static const file_names TRAIN = {QKV__TRAIN_IMAGES, QKV__TRAIN_MASKS};
static const file_names VALID = {QKV__VALID_IMAGES, QKV__VALID_MASKS};

const char *const qkv__image_splits[] = {"auto", "last", "class", "name", NULL};
const char *const qkv__image_fixed[] = {"model", "size", NULL};
#define FIELD(member) .offset = offsetof(qkv__image_options, member)
static const qkv_option rows[] = {
    {.flag = "images", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(images),
     .value = "D", .help = "images: a folder, a tar or idx file"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "DATA",
     .help = "images to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: images or share held out"},
    {.flag = "split", .type = QKV_OPT_ENUM, FIELD(split), .names = qkv__image_splits,
     .initial = "auto",
     .help = "which: the last, the last of each class, files whose names begin alike"},
    {.flag = "size", .type = QKV_OPT_SIZE, .max = 4096, FIELD(size), .initial = "0",
     .help = "side of the images in pixels"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "micro",
     .help = "size of the model, by name"},
};
const qkv_option_table qkv__image_table = {"Images", rows, sizeof rows / sizeof *rows, 0};

qkv_status qkv__image_side(const qkv__image_job *p, const char *key, size_t *side)
{
    qkv_image_format f;
    if (qkv__run_given(&p->base, key) && qkv__run_given(&p->base, "size"))
        return qkv_fail(p->base.ctx, QKV_E_ARGUMENT, "--size and --set %s: one of them expected, "
                        "found both", key);
    if (qkv__run_given(&p->base, key))
        return QKV_OK;
    *side = p->s.size;
    if (*side)
        return QKV_OK;
    qkv_status status = qkv__images_format(&f, p->base.ctx, p->s.images, MOST_SIDE);
    *side = f.height > STEP ? f.height / STEP * STEP : STEP;
    return status;
}

/* The smallest that cuts the side into at most 8. */
static size_t patch_of(size_t side)
{
    size_t patch = 1;
    while (side % patch || side / patch > STEP)
        patch++;
    return patch;
}

qkv_status qkv__image_trunk(const qkv__image_job *p, qkv_patches_config *trunk)
{
    qkv_status status = qkv__image_side(p, "image_size", &trunk->image);
    if (!status && !qkv__run_given(&p->base, "patch_size"))
        trunk->patch = patch_of(trunk->image);
    return status;
}

qkv_status qkv__image_pixelwise(const qkv__image_job *p, qkv_patches_config *trunk)
{
    qkv_vit_config sizes = {0};
    if (!qkv_model_type_preset(qkv_vit_type(), p->s.model, &sizes))
        return qkv_fail(p->base.ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", p->s.model);
    if (!qkv__run_given(&p->base, "hidden_size"))
        trunk->width = sizes.trunk.width;
    if (!qkv__run_given(&p->base, "num_hidden_layers"))
        trunk->layers = sizes.trunk.layers;
    if (!qkv__run_given(&p->base, "num_attention_heads"))
        trunk->heads = sizes.trunk.heads;
    return qkv__image_trunk(p, trunk);
}

qkv_status qkv__image_label(const qkv__image_job *p)
{
    const qkv_pixels *all = p->all.images;
    return qkv_model_set_labels(p->base.model, qkv_pixels_class_names(all),
                                qkv_pixels_classes(all));
}

qkv_status qkv__image_given(const qkv__run *r, const char *key, size_t *field, size_t found)
{
    if (qkv__run_given(r, key) && *field != found)
        return qkv_fail(r->ctx, QKV_E_ARGUMENT, "--set %s: %zu expected, as the data say, found "
                        "%zu", key, found, *field);
    *field = found;
    return QKV_OK;
}

const qkv_patches_config *qkv__image_trunk_of(const qkv_model *m)
{
    if (qkv_model_can(m, QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES))
        return &((const qkv_vit_config *)qkv_model_config(m))->trunk;
    if (qkv_model_type_of(m) == qkv_mae_type())
        return &((const qkv_mae_config *)qkv_model_config(m))->trunk;
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------- */

static qkv_status read_set(qkv__image_set *out, qkv_context *ctx, const char *images,
                           const char *masks, const qkv_image_format *format,
                           const qkv_mask_palette *palette)
{
    return palette ? qkv__masks_load(out, ctx, images, masks, palette, format->height)
                   : qkv__images_load(&out->images, ctx, images, format);
}

qkv_status qkv__image_read(qkv__image_job *p, size_t side, size_t channels,
                            const qkv_mask_palette *palette)
{
    const qkv__image_options *s = &p->s;
    const qkv_image_format f = qkv__images_square(side, channels);
    qkv_status status = read_set(&p->all, p->base.ctx, s->images, s->masks, &f, palette);
    if (!status)
        status = qkv__image_split(p);
    if (!status && s->valid)
        status = read_set(&p->held, p->base.ctx, s->valid, s->valid_masks, &f, palette);
    return status;
}

qkv_status qkv__image_split(qkv__image_job *p)
{
    qkv_context *ctx = p->base.ctx;
    const qkv__image_options *s = &p->s;
    const qkv_pixels *all = p->all.images;
    size_t held = 0, count = qkv_pixels_count(all);
    p->split.ctx = ctx;
    if (p->labelled && qkv_pixels_classes(all) < 2)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: at least 2 classes (folders of images, or an "
                        "idx file's labels beside it) expected to learn from, found fewer",
                        s->images);
    qkv_status status =
        s->valid ? QKV_OK : qkv__held_out(ctx, s->valid_last, count, "images", &held);
    if (status)
        return status;
    if (held)
        return qkv_pixels_split(&p->split, ctx, all, held, (qkv_held_out_by)s->split,
                                p->labelled);
    p->split.train = qkv_calloc(ctx, count, sizeof *p->split.train);
    for (size_t i = 0; i < count && p->split.train; i++)
        if (!p->labelled || qkv_pixels_class(all, i) >= 0)
            p->split.train[p->split.train_count++] = i;
    return p->split.train ? QKV_OK : QKV_E_MEMORY;
}

void qkv__image_measure(const qkv__image_job *p, qkv_image_format *format)
{
    qkv_pixels_stats(p->all.images, p->split.train, p->split.train_count, format->mean,
                     format->std);
    for (size_t i = 0; i < 3; i++)
        format->std[i] = format->std[i] > FLAT ? format->std[i] : 1;
}

/* ---- OUT/train ----------------------------------------------------------------------------- */

static qkv_status image_job_write_file(const qkv__image_job *p, qkv_pixels **out, const char *name,
                                       const qkv_pixels *from, const size_t *numbers, size_t count)
{
    const qkv__run *j = &p->base;
    const char *where = from == p->held.images ? p->s.valid : p->s.images;
    return qkv__pixels_copy(out, j->ctx, qkv__run_path(j, name).text, from, numbers, count,
                            p->labelled ? j->model : NULL, where);
}

static qkv_status write_set(const qkv__image_job *p, qkv__image_set *out,
                            const file_names *names, const qkv__image_set *from,
                            const size_t *numbers, size_t count)
{
    qkv_status status = image_job_write_file(p, &out->images, names->images, from->images, numbers,
                                             count);
    if (!status && from->classes)
        status = image_job_write_file(p, &out->classes, names->classes, from->classes, numbers,
                                      count);
    return status;
}

qkv_status qkv__image_write(qkv__run *base)
{
    qkv__image_job *p = (qkv__image_job *)base;
    const qkv_held_out *s = &p->split;
    qkv_status status = write_set(p, &p->train, &TRAIN, &p->all, s->train, s->train_count);
    if (!status && s->valid_count)
        status = write_set(p, &p->valid, &VALID, &p->all, s->valid, s->valid_count);
    if (!status && p->held.images)
        status = write_set(p, &p->valid, &VALID, &p->held, NULL,
                           qkv_pixels_count(p->held.images));
    qkv__image_set_close(&p->all); /* training reads what was written */
    qkv__image_set_close(&p->held);
    return status;
}

/* *out stays NULL when there is no such file and it is not required. */
static qkv_status image_job_open_file(const qkv__run *j, qkv_pixels **out, const char *name,
                                      bool required)
{
    const qkv_path path = qkv__run_path(j, name);
    return required || qkv_file_exists(path.text) ? qkv_pixels_open(out, j->ctx, path.text)
                                                  : QKV_OK;
}

static qkv_status open_set(const qkv__image_job *p, qkv__image_set *out,
                           const file_names *names, bool required)
{
    qkv_status status = image_job_open_file(&p->base, &out->images, names->images, required);
    if (!status && out->images && p->s.masks)
        status = image_job_open_file(&p->base, &out->classes, names->classes, true);
    return status;
}

qkv_status qkv__image_open(qkv__run *base)
{
    qkv__image_job *p = (qkv__image_job *)base;
    qkv_status status = open_set(p, &p->train, &TRAIN, true);
    return status ? status : open_set(p, &p->valid, &VALID, false);
}

void qkv__image_close(qkv__run *base)
{
    qkv__image_job *p = (qkv__image_job *)base;
    qkv__image_set *const all[] = {&p->all, &p->held, &p->train, &p->valid};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv__image_set_close(all[i]);
    qkv_held_out_free(&p->split);
}

void qkv__image_tell(const qkv__image_job *p, const char *words, ...)
{
    qkv_model *m = p->base.model;
    char text[WORDS];
    va_list args;
    va_start(args, words);
    (void)vsnprintf(text, sizeof text, words, args);
    va_end(args);
    qkv__note(p->base.ctx, "%s, %zu parameters, %s; %zu images to learn from, %zu held out",
             qkv_model_type_name(qkv_model_type_of(m)), qkv_params_elements(qkv_model_params(m)),
             text, qkv_pixels_count(p->train.images),
             p->valid.images ? qkv_pixels_count(p->valid.images) : 0);
}
