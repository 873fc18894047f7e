/* image_model.c - which model a job on images makes. */
#include "job/image_model.h"

#include "model/tables.h"

enum {
    COMPACT_BELOW = 64, MOST_SIDE = 224, MOST_SIZE = 4096, PATCH = 16, SMALL_PATCH = 4, SMALL = 96
};

const char *const qkv__image_kinds[] = {"auto", "cct", "vit", NULL};

#define CONFIG qkv_vit_config
#include "model/config_rows.h"
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
const qkv_option_table qkv__image_model_table = {"Model of images", model_rows,
                                                sizeof model_rows / sizeof *model_rows, 0};

qkv_status qkv__image_model_side(qkv__image_job *p, qkv__image_model *m)
{
    if (!qkv__run_given(&p->base, "image_size"))
        return QKV_OK;
    qkv_status status = qkv__image_side(p, "image_size", &m->given.trunk.image);
    p->s.size = m->given.trunk.image;
    return status;
}

/* ---- type and configuration --------------------------------------------------------------- */

static const qkv_model_type *type_of(const qkv__image_model *m, bool compact)
{
    if (m->encoder)
        return compact ? qkv_cct_encoder_type() : qkv_vit_encoder_type();
    return compact ? qkv_cct_type() : qkv_vit_type();
}

/* Puts what was given on the command line into the fields of the type's configuration. */
static qkv_status take_given(const qkv__image_job *p, qkv__image_model *m)
{
    qkv_context *ctx = p->base.ctx;
    const qkv_option_table *table = qkv_model_type_config(m->type);
    qkv_options *o = NULL;
    char text[QKV_OPTION_TEXT];
    qkv_status status = qkv_options_create(&o, ctx);
    if (!status)
        status = qkv_options_bind(o, table, &m->config);
    if (!status && !qkv_model_type_preset(m->type, p->s.model, &m->config))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--model: %s has no size \"%.40s\"",
                          qkv_model_type_name(m->type), p->s.model);
    for (size_t i = 0; i < qkv__image_model_table.count && !status; i++) {
        const qkv_option *row = &qkv__image_model_table.rows[i];
        if (!qkv__run_given(&p->base, row->key))
            continue;
        qkv_option_text(row, &m->given, text);
        status = qkv_options_set(o, row->key, text);
    }
    qkv_options_destroy(o);
    return status;
}

/* A new model, but for its classes. */
static qkv_status choose_new(const qkv__image_job *p, qkv__image_model *m)
{
    size_t side = m->format.height;
    bool compact = m->kind == QKV__KIND_AUTO ? side < COMPACT_BELOW : m->kind == QKV__KIND_CCT;
    m->type = type_of(m, compact);
    qkv_status status = take_given(p, m);
    m->config.trunk.image = side;
    m->config.trunk.channels = m->format.channels;
    if (!compact && !qkv__run_given(&p->base, "patch_size"))
        m->config.trunk.patch = side < SMALL ? SMALL_PATCH : PATCH;
    return status;
}

/* One that begins with what the one of --init has, but for its classes. */
static void choose_as(const qkv__image_job *p, qkv__image_model *m, const qkv_model *old)
{
    bool same = qkv_model_can(old, QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES);
    m->type = same ? qkv_vit_with_head(old, m->encoder) : type_of(m, false);
    qkv_option_defaults(qkv_model_type_config(m->type), &m->config);
    if (same)
        m->config = *(const qkv_vit_config *)qkv_model_config(old);
    m->config.trunk = *qkv__image_trunk_of(old);
    if (p->s.size)
        m->config.trunk.image = p->s.size;
}

/* ---- format -------------------------------------------------------------------------------- */

/* The format that the model of --init wants, or that of the data. */
static qkv_status choose_format(const qkv__image_job *p, qkv__image_model *m,
                                const qkv_model *old)
{
    qkv_context *ctx = p->base.ctx;
    const qkv_image_format *had = old ? qkv_model_image_format(old) : NULL;
    size_t most = p->s.size ? p->s.size : MOST_SIDE;
    qkv_status status = qkv__images_format(&m->format, ctx, p->s.images, most);
    if (status)
        return status;
    if (had)
        m->format = *had;
    if (old && !had) {
        m->format.channels = qkv__image_trunk_of(old)->channels;
        m->format.height = m->format.width = qkv__image_trunk_of(old)->image;
    }
    if (p->s.size) {
        m->format.resize = m->format.resize * p->s.size / m->format.height;
        m->format.height = m->format.width = p->s.size;
    }
    size_t side = m->format.height, step = side < COMPACT_BELOW ? 1 : PATCH;
    if (!old && !p->s.size && side > step)
        m->format.height = m->format.width = side - side % step;
    if (!had && m->format.crop)
        m->format.resize = m->format.height;
    return QKV_OK;
}

/* ---- the model ----------------------------------------------------------------------------- */

qkv_status qkv__image_model_init(qkv__image_job *p, qkv_model **old)
{
    qkv__run *base = &p->base;
    *old = NULL;
    qkv_status status = base->o.init ? qkv__run_load(base, old) : QKV_OK;
    if (!status && *old && !qkv__image_trunk_of(*old))
        status = qkv_fail(base->ctx, QKV_E_ARGUMENT, "--init: a model of images expected, %s holds "
                          "a %s", base->o.init, qkv_model_type_name(qkv_model_type_of(*old)));
    return status;
}

qkv_status qkv__image_model_choose(const qkv__image_job *p, qkv__image_model *m,
                                   const qkv_model *old)
{
    qkv_status status = choose_format(p, m, old);
    if (!status && !old)
        status = choose_new(p, m);
    if (!status && old)
        choose_as(p, m, old);
    return status;
}

qkv_status qkv__image_model_make(qkv__image_job *p, qkv__image_model *m, qkv_model *old)
{
    qkv__run *base = &p->base;
    qkv_status status = qkv__run_create(base, m->type, &m->config);
    if (status)
        return status;
    if (old)
        qkv_model_copy(base->model, old);
    if (!old || !qkv_model_image_format(old))
        qkv__image_measure(p, &m->format);
    qkv_model_set_image_format(base->model, &m->format);
    return QKV_OK;
}
