/* vit.c - the Vision Transformer, with patches or with convolutions before the trunk. */
#include "model/tables.h"
#include "qkv/vit.h"

#include <stdio.h>

#include "model/cct.h"
#include "nn/patches.h"
#include "tensor/make.h"

static const uint32_t TRUNK_DROPOUT_ID = 0xE0000000u; /* of dropouts that no block has */
static const double CCT_POSITION_STD = 0.2;

/* What is made of the outputs. */
typedef enum {
    HEAD_CLASS,   /* a linear layer from the class token */
    HEAD_TEACHER, /* another from the second token, and the mean of both */
    HEAD_MEAN,    /* one from the class token and the mean of the patches */
    HEAD_NONE,    /* nothing */
    HEAD_POOLER   /* nothing, but files have a pooler */
} vit_head;

/* What a type is, beside what all models have. */
typedef struct {
    qkv_builtin_type builtin;
    const qkv__patches_family *family; /* NULL: cct */
    const char *prefix;                /* of the types with a head */
    vit_head head;
} kind;

typedef struct {
    qkv_model *base;
    qkv_vit_config *c; /* base->config */
    const kind *is;
    qkv__patches trunk;
    qkv__cct compact; /* of a cct */
    qkv_linear_layer head, second; /* second: of HEAD_TEACHER */
} vit;

static const kind *vit_kind_of(const qkv_model_type *type)
{
    return (const kind *)(const void *)type->builtin; /* its first member */
}

static bool has_head(const vit *m) { return m->is->head < HEAD_NONE; }
static bool is_compact(const vit *m) { return !m->is->family; }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status make_trunk(vit *m)
{
    qkv_model *base = m->base;
    qkv_vit_config *c = m->c;
    qkv__patches_kind trunk = {.family = m->is->family, .dropout_id = TRUNK_DROPOUT_ID,
                               .prefix = has_head(m) ? m->is->prefix : ""};
    qkv_status status = is_compact(m) ? qkv__cct_complete(base->ctx, c) : QKV_OK;
    if (!status)
        status = qkv__patches_complete(base->ctx, &c->trunk, base->type->name);
    if (!status && is_compact(m)) {
        trunk.no_first = true;
        trunk.no_positions = !c->positions;
        trunk.side = qkv__cct_side(c, c->trunk.image);
        status = qkv__cct_make(&m->compact, base, c);
    }
    return status ? status : qkv__patches_make(&m->trunk, base->params, &c->trunk, trunk);
}

static void vit_make_pooler(vit *m)
{
    size_t d = m->c->trunk.width;
    m->c->pooled = m->c->pooled ? m->c->pooled : d;
    if (!qkv_linear_create(&m->head, m->base->params, "pooler", d, m->c->pooled))
        return;
    qkv_param_freeze(m->head.weight, true);
    qkv_param_freeze(m->head.bias, true);
}

static qkv_status vit_make(qkv_model *base)
{
    vit *m = base->self;
    m->base = base;
    m->is = vit_kind_of(base->type);
    const qkv_vit_config *c = m->c = base->config;
    qkv_status status = make_trunk(m);
    if (status)
        return status;
    size_t d = c->trunk.width, in = m->is->head == HEAD_MEAN ? 2 * d : d;
    if (has_head(m))
        (void)qkv_linear_create(&m->head, base->params, "head", in, c->classes);
    if (m->is->head == HEAD_TEACHER)
        (void)qkv_linear_create(&m->second, base->params, "second_head", d, c->classes);
    if (m->is->head == HEAD_POOLER)
        vit_make_pooler(m);
    return qkv__params_status(base->params);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Files of an encoder may have a pooler, those of a classifier the encoder's, which is passed
 * over. */
static qkv_status vit_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    static const char *const pooler[] = {"pooler.dense.weight", "pooler.dense.bias"};
    vit *m = base->self;
    double std = m->c->trunk.init_range;
    bool teacher = m->is->head == HEAD_TEACHER;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    v.optional = m->is->head == HEAD_POOLER;
    if (v.optional)
        qkv__visit_linear_layer(&v, "pooler.dense", &m->head, std);
    v.optional = false;
    if (has_head(m))
        qkv__visit_linear_layer(&v, teacher ? "cls_classifier" : "classifier", &m->head, std);
    if (teacher)
        qkv__visit_linear_layer(&v, "distillation_classifier", &m->second, std);
    snprintf(v.name, sizeof v.name, "%s", m->is->prefix);
    for (size_t i = 0; has_head(m) && i < sizeof pooler / sizeof *pooler; i++)
        qkv__visit_kind(&v, pooler[i], NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
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
    if (has_head(m))
        qkv__visit_linear_layer(&v, "classifier.fc", &m->head, c->init_range);
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

/* The tokens of patches, (B, patches, width), and their grid. */
static qkv_tensor *vit_patches(const vit *m, qkv_tape *t, qkv_tensor *pixels, size_t *rows,
                              size_t *columns)
{
    bool compact = is_compact(m);
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

size_t qkv_vit_leads(const qkv_model *base)
{
    const vit *m = qkv__model_as(base, NULL, __func__,
                                 QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES);
    return m ? m->trunk.leads : 0;
}

/* The output of one token of x (B, tokens, width), (B, width). */
static qkv_tensor *vit_token(const vit *m, qkv_tape *t, qkv_tensor *x, size_t at)
{
    size_t shape[] = {qkv_dim(x, 0), m->c->trunk.width};
    return qkv_reshape(t, qkv_slice(t, x, 1, at, at + 1), 2, shape);
}

/* One vector of all tokens. */
static qkv_tensor *vit_pool(const vit *m, qkv_tape *t, qkv_tensor *x)
{
    if (!x)
        return NULL;
    if (is_compact(m))
        return qkv__cct_pool(&m->compact, t, x);
    if (m->is->head != HEAD_MEAN)
        return vit_token(m, t, x, 0);
    qkv_tensor *patches = qkv_slice(t, x, 1, m->trunk.leads, qkv_dim(x, 1));
    qkv_tensor *parts[] = {vit_token(m, t, x, 0), qkv_mean_axis(t, patches, 1)};
    return qkv_concat(t, 1, 2, parts);
}

qkv_tensor *qkv_vit_vectors(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const vit *m = qkv__model_as(base, t, __func__, QKV_CAN_EMBED_IMAGES);
    return m ? vit_pool(m, t, qkv_vit_hidden(base, t, pixels)) : NULL;
}

qkv_tensor *qkv_vit_logits(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vit *m = qkv__model_as(base, t, __func__, QKV_CAN_CLASSIFY_IMAGES);
    qkv_tensor *x = m ? qkv_vit_hidden(base, t, pixels) : NULL;
    if (!x)
        return NULL;
    qkv_tensor *y = qkv_linear_forward(&m->head, t, vit_pool(m, t, x), QKV_ACT_NONE);
    if (m->is->head != HEAD_TEACHER)
        return y;
    x = qkv_linear_forward(&m->second, t, vit_token(m, t, x, 1), QKV_ACT_NONE);
    return qkv_scale(t, qkv_add(t, y, x), 0.5);
}

static double model_vit_flops(const qkv_model *base, const qkv_workload *w)
{
    const vit *m = base->self;
    const qkv_vit_config *c = base->config;
    size_t height = w->height ? w->height : c->trunk.image;
    size_t width = w->width ? w->width : c->trunk.image;
    int passes = qkv__passes(w->pass);
    size_t heads = !has_head(m) ? 0 : m->is->head == HEAD_CLASS || is_compact(m) ? 1 : 2;
    double head = qkv__flops(w->pass, w->samples * (double)(c->trunk.width * c->classes * heads),
                             0);
    if (is_compact(m)) {
        size_t tokens = qkv__cct_side(c, height) * qkv__cct_side(c, width);
        return qkv__cct_flops(c, w->pass, w->samples, height, width) +
               qkv__patches_stack_flops(&c->trunk, passes, w->samples, tokens) + head;
    }
    size_t patches = (height / c->trunk.patch) * (width / c->trunk.patch);
    return qkv__patches_embed_flops(&c->trunk, passes, w->samples * (double)patches) +
           qkv__patches_stack_flops(&c->trunk, passes, w->samples, m->trunk.leads + patches) +
           head;
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

/* ---- families ----------------------------------------------------------------------------- */

static const qkv__patches_family deit_family = {
    .norm1 = "layernorm_before", .norm2 = "layernorm_after", .up = "intermediate.dense",
    .down = "output.dense", .distilled = true};
#define DINOV2_BLOCK                                                                           \
    .norm1 = "norm1", .norm2 = "norm2", .up = "mlp.fc1", .down = "mlp.fc2",                    \
    .gated_up = "mlp.weights_in", .gated_down = "mlp.weights_out",                             \
    .scale1 = "layer_scale1.lambda1", .scale2 = "layer_scale2.lambda1"
static const qkv__patches_family dinov2_family = {DINOV2_BLOCK};
/* Hugging Face's interpolates positions in another way than that without registers. */
static const qkv__patches_family dinov2_registers_family = {DINOV2_BLOCK, .masked = true,
                                                            .antialiased = true};

/* A type: table and count are of its configuration, visit_ of its rows. */
#define TYPE(id, name_, own_prefix, architecture_, can_, head_, family_, table, count, visit_)  \
    static const kind id##_kind = {{.can = can_}, family_, own_prefix, head_};                  \
    static const qkv_model_type id##_type = {                                                   \
        .name = name_, .architecture = architecture_, .prefix = own_prefix, .config = table,    \
        .config_size = sizeof(qkv_vit_config), .self_size = sizeof(vit), .make = vit_make,      \
        .flops = model_vit_flops, .preset = qkv__vit_preset, .builtin = &id##_kind.builtin,     \
        .parameter_count = count, .visit = visit_};
#define CLASSIFIER(id, name_, architecture_, head_, family_, table)                             \
    TYPE(id, name_, name_ ".", architecture_, QKV_CAN_CLASSIFY_IMAGES, head_, family_, table,   \
         vit_parameter_count, vit_visit)
#define ENCODER(id, name_, architecture_, head_, family_, table)                                \
    TYPE(id, name_, name_ ".", architecture_, QKV_CAN_EMBED_IMAGES, head_, family_, table,      \
         vit_parameter_count, vit_visit)
#define CCT(id, architecture_, can_, head_)                                                     \
    TYPE(id, "qkv_cct", NULL, architecture_, can_, head_, NULL, &qkv__cct_config,               \
         numbers_compact, visit_compact)

CLASSIFIER(vit, "vit", "ViTForImageClassification", HEAD_CLASS, &qkv__vit_family,
           &qkv__vit_config)
ENCODER(vit_encoder, "vit", "ViTModel", HEAD_POOLER, &qkv__vit_family, &qkv__vit_config)
CLASSIFIER(deit, "deit", "DeiTForImageClassification", HEAD_CLASS, &deit_family,
           &qkv__vit_config)
CLASSIFIER(deit_teacher, "deit", "DeiTForImageClassificationWithTeacher", HEAD_TEACHER,
           &deit_family, &qkv__vit_config)
ENCODER(deit_encoder, "deit", "DeiTModel", HEAD_POOLER, &deit_family, &qkv__vit_config)
ENCODER(dinov2_encoder, "dinov2", "Dinov2Model", HEAD_NONE, &dinov2_family, &qkv__dinov2_config)
CLASSIFIER(dinov2, "dinov2", "Dinov2ForImageClassification", HEAD_MEAN, &dinov2_family,
           &qkv__dinov2_config)
ENCODER(dinov2_registers_encoder, "dinov2_with_registers", "Dinov2WithRegistersModel", HEAD_NONE,
        &dinov2_registers_family, &qkv__dinov2_registers_config)
CLASSIFIER(dinov2_registers, "dinov2_with_registers", "Dinov2WithRegistersForImageClassification",
           HEAD_MEAN, &dinov2_registers_family, &qkv__dinov2_registers_config)
CCT(cct, "QkvCompactTransformer", QKV_CAN_CLASSIFY_IMAGES, HEAD_CLASS)
CCT(cct_encoder, "QkvCompactEncoder", QKV_CAN_EMBED_IMAGES, HEAD_NONE)

/* The first of a name is that of an architecture that is not listed: of Dinov2Backbone, which has
 * the encoder's tensors. */
const qkv_model_type *qkv_vit_type(void) { return &vit_type; }
const qkv_model_type *qkv_vit_encoder_type(void) { return &vit_encoder_type; }
const qkv_model_type *qkv_deit_type(void) { return &deit_type; }
const qkv_model_type *qkv_deit_teacher_type(void) { return &deit_teacher_type; }
const qkv_model_type *qkv_deit_encoder_type(void) { return &deit_encoder_type; }
const qkv_model_type *qkv_dinov2_encoder_type(void) { return &dinov2_encoder_type; }
const qkv_model_type *qkv_dinov2_type(void) { return &dinov2_type; }
const qkv_model_type *qkv_dinov2_registers_encoder_type(void)
{
    return &dinov2_registers_encoder_type;
}
const qkv_model_type *qkv_dinov2_registers_type(void) { return &dinov2_registers_type; }
const qkv_model_type *qkv_cct_type(void) { return &cct_type; }
const qkv_model_type *qkv_cct_encoder_type(void) { return &cct_encoder_type; }

const qkv_model_type *qkv_vit_with_head(const qkv_model *of, bool encoder)
{
    if (!qkv__model_as(of, NULL, __func__, QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES))
        return NULL;
    if (qkv_model_can(of, QKV_CAN_EMBED_IMAGES) == encoder)
        return of->type;
    const qkv_model_type *type;
    for (size_t i = 0; (type = qkv_model_type_at(NULL, i)); i++)
        if (type->make == vit_make &&
            vit_kind_of(type)->family == vit_kind_of(of->type)->family &&
            (vit_kind_of(type)->builtin.can == QKV_CAN_EMBED_IMAGES) == encoder)
            return type;
    return NULL;
}
