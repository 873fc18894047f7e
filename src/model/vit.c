/* vit.c - the Vision Transformer, with patches or with convolutions before the trunk. */
#include "model/tables.h"
#include "qkv/vit.h"

#include <stdio.h>

#include "model/cct.h"
#include "nn/patches.h"
#include "tensor/make.h"

static const uint32_t TRUNK_DROPOUT_ID = 0xE0000000u; /* of dropouts that no block has */
static const double CCT_POSITION_STD = 0.2;

typedef struct {
    qkv_model *base;
    qkv_vit_config *c; /* base->config */
    qkv__patches trunk;
    qkv__cct compact; /* of a cct */
    qkv_linear_layer head;
} vit;

static bool is_headless(const qkv_model *m)
{
    return m->type == qkv_vit_encoder_type() || m->type == qkv_cct_encoder_type();
}

static bool is_compact(const qkv_model *m)
{
    return m->type == qkv_cct_type() || m->type == qkv_cct_encoder_type();
}

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status make_trunk(vit *m)
{
    qkv_model *base = m->base;
    qkv_vit_config *c = m->c;
    qkv__patches_kind kind = {.dropout_id = TRUNK_DROPOUT_ID, .no_prefix = is_headless(base)};
    qkv_status status = is_compact(base) ? qkv__cct_complete(base->ctx, c) : QKV_OK;
    if (!status)
        status = qkv__patches_complete(base->ctx, &c->trunk, base->type->name);
    if (!status && is_compact(base)) {
        kind.no_first = true;
        kind.no_positions = !c->positions;
        kind.side = qkv__cct_side(c, c->trunk.image);
        status = qkv__cct_make(&m->compact, base, c);
    }
    return status ? status : qkv__patches_make(&m->trunk, base->params, &c->trunk, kind);
}

static qkv_status vit_make(qkv_model *base)
{
    vit *m = base->self;
    m->base = base;
    qkv_vit_config *c = m->c = base->config;
    qkv_status status = make_trunk(m);
    if (status)
        return status;
    if (!is_headless(base)) {
        (void)qkv_linear_create(&m->head, base->params, "head", c->trunk.width, c->classes);
    } else if (!is_compact(base)) { /* the pooler */
        (void)qkv_linear_create(&m->head, base->params, "pooler", c->trunk.width, c->trunk.width);
        if (m->head.weight && m->head.bias) {
            qkv_param_freeze(m->head.weight, true);
            qkv_param_freeze(m->head.bias, true);
        }
    }
    return qkv__params_status(base->params);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Files of ViTModel have a pooler, which is passed over. */
static qkv_status vit_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    vit *m = base->self;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    if (is_headless(base)) {
        qkv__visit_linear_layer(&v, "pooler.dense", &m->head, m->c->trunk.init_range);
        return v.status;
    }
    qkv__visit_linear_layer(&v, "classifier", &m->head, m->c->trunk.init_range);
    qkv__visit_kind(&v, "vit.pooler.dense.weight", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    qkv__visit_kind(&v, "vit.pooler.dense.bias", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    return v.status;
}

static qkv_status visit_compact(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    vit *m = base->self;
    const qkv_patches_config *c = &m->c->trunk;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__cct_visit(&m->compact, &v);
    if (m->trunk.positions)
        qkv__visit_positions(&v, "classifier.positional_emb", m->trunk.positions, 3,
                             CCT_POSITION_STD);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v.name, sizeof v.name, "classifier.blocks.%zu.", i);
        qkv__cct_visit_block(&v, m->trunk.stack.blocks[i], c->init_range);
    }
    v.name[0] = 0;
    qkv__visit_norm(&v, "classifier.norm", m->trunk.stack.norm_weight,
                    m->trunk.stack.norm_bias, c->width);
    if (!is_headless(base))
        qkv__visit_linear_layer(&v, "classifier.fc", &m->head, c->init_range);
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

/* The tokens of patches, (B, patches, width), and their grid. */
static qkv_tensor *vit_patches(const vit *m, qkv_tape *t, qkv_tensor *pixels, size_t *rows,
                              size_t *columns)
{
    bool compact = is_compact(m->base);
    qkv_tensor *x = compact ? qkv__cct_tokens(&m->compact, t, pixels)
                            : qkv__patches_embed(&m->trunk, t, pixels);
    if (!x)
        return NULL;
    *rows = compact ? qkv_dim(x, 1) : qkv_dim(pixels, 1) / m->c->trunk.patch;
    *columns = compact ? qkv_dim(x, 2) : qkv_dim(pixels, 2) / m->c->trunk.patch;
    size_t shape[] = {qkv_dim(x, 0), *rows * *columns, m->c->trunk.width};
    return qkv_reshape(t, x, 3, shape);
}

qkv_tensor *qkv_vit_embed(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    size_t rows, columns;
    vit *m = qkv__model_as(base, t, __func__, QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES);
    return m ? vit_patches(m, t, pixels, &rows, &columns) : NULL;
}

qkv_tensor *qkv_vit_hidden(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    size_t rows, columns;
    vit *m = qkv__model_as(base, t, __func__, QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES);
    qkv_tensor *x = m ? vit_patches(m, t, qkv_probe(t, "pixels", pixels), &rows, &columns) : NULL;
    return x ? qkv__patches_through(&m->trunk, t, x, rows, columns) : NULL;
}

/* One vector of all tokens. */
static qkv_tensor *vit_pool(const vit *m, qkv_tape *t, qkv_tensor *x)
{
    if (!x)
        return NULL;
    size_t shape[] = {qkv_dim(x, 0), m->c->trunk.width};
    return is_compact(m->base) ? qkv__cct_pool(&m->compact, t, x)
                               : qkv_reshape(t, qkv_slice(t, x, 1, 0, 1), 2, shape);
}

qkv_tensor *qkv_vit_vectors(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const vit *m = qkv__model_as(base, t, __func__, QKV_CAN_EMBED_IMAGES);
    return m ? vit_pool(m, t, qkv_vit_hidden(base, t, pixels)) : NULL;
}

qkv_tensor *qkv_vit_logits(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vit *m = qkv__model_as(base, t, __func__, QKV_CAN_CLASSIFY_IMAGES);
    qkv_tensor *x = m ? vit_pool(m, t, qkv_vit_hidden(base, t, pixels)) : NULL;
    return x ? qkv_linear_forward(&m->head, t, x, QKV_ACT_NONE) : NULL;
}

static double model_vit_flops(const qkv_model *base, const qkv_workload *w)
{
    const qkv_vit_config *c = base->config;
    size_t height = w->height ? w->height : c->trunk.image;
    size_t width = w->width ? w->width : c->trunk.image;
    int passes = qkv__passes(w->pass);
    size_t classes = is_headless(base) ? 0 : c->classes;
    double head = qkv__flops(w->pass, w->samples * (double)(c->trunk.width * classes), 0);
    if (is_compact(base)) {
        size_t tokens = qkv__cct_side(c, height) * qkv__cct_side(c, width);
        return qkv__cct_flops(c, w->pass, w->samples, height, width) +
               qkv__patches_stack_flops(&c->trunk, passes, w->samples, tokens) + head;
    }
    size_t patches = (height / c->trunk.patch) * (width / c->trunk.patch);
    return qkv__patches_embed_flops(&c->trunk, passes, w->samples * (double)patches) +
           qkv__patches_stack_flops(&c->trunk, passes, w->samples, 1 + patches) + head;
}

/* Without the head, which a file need not have. */
static double vit_parameter_count(const qkv_model_type *type, const void *config)
{
    (void)type;
    return qkv__patches_parameters(&((const qkv_vit_config *)config)->trunk);
}

/* Of the blocks. */
static double numbers_compact(const qkv_model_type *type, const void *config)
{
    const qkv_patches_config *c = &((const qkv_vit_config *)config)->trunk;
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 2 * d;
    (void)type;
    return d * (double)c->layers * (4 * d + 2 * ff);
}

static const qkv_builtin_type classifier = {.can = QKV_CAN_CLASSIFY_IMAGES};
static const qkv_builtin_type encoder = {.can = QKV_CAN_EMBED_IMAGES};

#define VIT(architecture_, builtin_)                                                           \
    .name = "vit", .architecture = architecture_, .prefix = "vit.", .config = &qkv__vit_config, \
    .config_size = sizeof(qkv_vit_config), .self_size = sizeof(vit), .make = vit_make,         \
    .flops = model_vit_flops, .preset = qkv__vit_preset, .builtin = builtin_,                  \
    .parameter_count = vit_parameter_count, .visit = vit_visit
#define CCT(architecture_, builtin_)                                                           \
    .name = "qkv_cct", .architecture = architecture_, .config = &qkv__cct_config,              \
    .config_size = sizeof(qkv_vit_config), .self_size = sizeof(vit), .make = vit_make,         \
    .flops = model_vit_flops, .preset = qkv__vit_preset, .builtin = builtin_,                  \
    .parameter_count = numbers_compact, .visit = visit_compact

static const qkv_model_type vit_type = {VIT("ViTForImageClassification", &classifier)};
static const qkv_model_type vit_encoder_type = {VIT("ViTModel", &encoder)};
static const qkv_model_type cct_type = {CCT("QkvCompactTransformer", &classifier)};
static const qkv_model_type cct_encoder_type = {CCT("QkvCompactEncoder", &encoder)};

const qkv_model_type *qkv_vit_type(void) { return &vit_type; }
const qkv_model_type *qkv_vit_encoder_type(void) { return &vit_encoder_type; }
const qkv_model_type *qkv_cct_type(void) { return &cct_type; }
const qkv_model_type *qkv_cct_encoder_type(void) { return &cct_encoder_type; }
