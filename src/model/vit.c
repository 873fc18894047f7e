/* vit.c - the Vision Transformer, with patches or with convolutions before the trunk. */
#include "model/vit_config.h"

#include <stdio.h>

#include "model/cct.h"
#include "nn/patches.h"
#include "tensor/make.h"

static const uint32_t TRUNK_SITE = 0xE0000000u; /* of dropouts that no block has */
static const double CCT_POSITION_STD = 0.2;

typedef struct {
    qkv_model base;
    qkv_vit_config *c; /* base.config */
    qkv__patches trunk;
    qkv__cct compact; /* of a cct */
    qkv_param *head_weight, *head_bias;
} vit;

static bool is_compact(const qkv_model *m) { return m->type == &qkv_cct_type; }

bool qkv_model_is_vit(const qkv_model *m) { return m->type == &qkv_vit_type || is_compact(m); }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status make_trunk(vit *m)
{
    qkv_model *base = &m->base;
    qkv_vit_config *c = m->c;
    qkv__patches_kind kind = {.site = TRUNK_SITE};
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

static qkv_status make(qkv_model *base)
{
    vit *m = (vit *)base;
    qkv_vit_config *c = m->c = base->config;
    if (!c->classes)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: no classes", base->type->name);
    qkv_status status = make_trunk(m);
    if (status)
        return status;
    m->head_weight = qkv__matrix(base->params, "head.weight", c->classes, c->trunk.width);
    m->head_bias = qkv__vector(base->params, "head.bias", c->classes);
    return qkv__params_status(base->params);
}

/* ---- rows --------------------------------------------------------------------------------- */

static void visit_head(const vit *m, qkv__visit *v, const char *name)
{
    const qkv_vit_config *c = m->c;
    qkv__visit_dense(v, name, m->head_weight, m->head_bias, 0, c->classes, c->trunk.width,
                     c->trunk.init_range);
}

/* Files of ViTModel have a pooler, which is passed over. */
static qkv_status visit(qkv_model *base, qkv_row_fn *fn, void *user)
{
    vit *m = (vit *)base;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    visit_head(m, &v, "classifier");
    qkv__visit_kind(&v, "vit.pooler.dense.weight", NULL, QKV_ROW_IGNORED, QKV_INIT_KEEP, 0);
    qkv__visit_kind(&v, "vit.pooler.dense.bias", NULL, QKV_ROW_IGNORED, QKV_INIT_KEEP, 0);
    return v.status;
}

static qkv_status visit_compact(qkv_model *base, qkv_row_fn *fn, void *user)
{
    vit *m = (vit *)base;
    const qkv_patches_config *c = &m->c->trunk;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__cct_visit(&m->compact, &v);
    if (m->trunk.positions)
        qkv__visit_positions(&v, "classifier.positional_emb", m->trunk.positions, 3,
                             CCT_POSITION_STD);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v.name, sizeof v.name, "classifier.blocks.%zu.", i);
        qkv__cct_visit_block(&v, m->trunk.blocks[i], c->init_range);
    }
    v.name[0] = 0;
    qkv__visit_norm(&v, "classifier.norm", m->trunk.norm_weight, m->trunk.norm_bias, c->width);
    visit_head(m, &v, "classifier.fc");
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

qkv_tensor *qkv_vit_hidden(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vit *m = (vit *)base;
    if (!is_compact(base))
        return qkv__patches_forward(&m->trunk, t, pixels);
    qkv_tensor *x = qkv__cct_tokens(&m->compact, t, pixels);
    if (!x)
        return NULL;
    size_t rows = qkv_dim(x, 1), columns = qkv_dim(x, 2);
    size_t shape[] = {qkv_dim(x, 0), rows * columns, qkv_dim(x, 3)};
    return qkv__patches_through(&m->trunk, t, qkv_reshape(t, x, 3, shape), rows, columns);
}

qkv_tensor *qkv_vit_logits(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vit *m = (vit *)base;
    qkv_tensor *x = qkv_vit_hidden(base, t, pixels);
    if (!x)
        return NULL;
    size_t shape[] = {qkv_dim(x, 0), m->c->trunk.width};
    x = is_compact(base) ? qkv__cct_pool(&m->compact, t, x)
                         : qkv_reshape(t, qkv_slice(t, x, 1, 0, 1), 2, shape);
    return qkv_linear(t, x, qkv_use(t, m->head_weight), qkv_use(t, m->head_bias), QKV_ACT_NONE);
}

double qkv_vit_flops(const qkv_model *base, size_t pictures, size_t height, size_t width)
{
    const qkv_vit_config *c = base->config;
    double head = 6 * (double)pictures * (double)c->trunk.width * (double)c->classes;
    if (is_compact(base)) {
        size_t tokens = qkv__cct_side(c, height) * qkv__cct_side(c, width);
        return qkv__cct_flops(c, pictures, height, width) +
               qkv__patches_stack_flops(&c->trunk, pictures * tokens, tokens) + head;
    }
    size_t patches = (height / c->trunk.patch) * (width / c->trunk.patch), length = 1 + patches;
    return qkv__patches_embed_flops(&c->trunk, pictures * patches) +
           qkv__patches_stack_flops(&c->trunk, pictures * length, length) + head;
}

/* Without the head, which a file need not have. */
static double numbers(const qkv_model_type *type, const void *config)
{
    (void)type;
    return qkv__patches_numbers(&((const qkv_vit_config *)config)->trunk);
}

/* Of the blocks. */
static double numbers_compact(const qkv_model_type *type, const void *config)
{
    const qkv_patches_config *c = &((const qkv_vit_config *)config)->trunk;
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 2 * d;
    (void)type;
    return d * (double)c->layers * (4 * d + 2 * ff);
}

const qkv_model_type qkv_vit_type = {
    "vit", "ViTForImageClassification", "vit.", &qkv__vit_config, sizeof(qkv_vit_config),
    sizeof(vit), numbers, make, visit, NULL};
const qkv_model_type qkv_cct_type = {
    "qkv_cct", "QkvCompactTransformer", "", &qkv__cct_config, sizeof(qkv_vit_config), sizeof(vit),
    numbers_compact, make, visit_compact, NULL};
