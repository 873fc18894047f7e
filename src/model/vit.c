/* vit.c - the Vision Transformer: the trunk of patches and a dense layer on the first token. */
#include "model/vit.h"

#include "model/patches.h"
#include "tensor/param.h"
#include "tensor/tape.h"

typedef struct {
    qkv_model base;
    qkv_vit_config *c; /* base.config */
    qkv__patches trunk;
    qkv_param *head_weight, *head_bias;
} vit;

static qkv_status make(qkv_model *base)
{
    vit *m = (vit *)base;
    qkv_vit_config *c = m->c = base->config;
    static const qkv__patches_kind kind = {.site = 0xE0000000u};
    qkv_status status = qkv__patches_complete(base->ctx, &c->trunk, "vit");
    if (!status && !c->classes)
        status = qkv__fail(base->ctx, QKV_E_ARGUMENT, "vit: no classes");
    if (!status)
        status = qkv__patches_make(&m->trunk, base, &c->trunk, kind);
    if (status)
        return status;
    m->head_weight = qkv__matrix(base->params, "head.weight", c->classes, c->trunk.width);
    m->head_bias = qkv__vector(base->params, "head.bias", c->classes);
    return qkv__params_status(base->params);
}

/* Files of ViTModel have a pooler, which is passed over. */
static qkv_status visit(qkv_model *base, qkv_row_fn *fn, void *user)
{
    vit *m = (vit *)base;
    const qkv_vit_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    qkv__visit_dense(&v, "classifier", m->head_weight, m->head_bias, 0, c->classes, c->trunk.width,
                     c->trunk.init_range);
    qkv__visit_kind(&v, "vit.pooler.dense.weight", NULL, QKV_ROW_IGNORED, QKV_INIT_KEEP, 0);
    qkv__visit_kind(&v, "vit.pooler.dense.bias", NULL, QKV_ROW_IGNORED, QKV_INIT_KEEP, 0);
    return v.status;
}

qkv_tensor *qkv_vit_hidden(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    return qkv__patches_forward(&((vit *)base)->trunk, t, pixels);
}

qkv_tensor *qkv_vit_logits(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vit *m = (vit *)base;
    qkv_tensor *x = qkv_vit_hidden(base, t, pixels);
    if (!x)
        return NULL;
    size_t shape[] = {qkv_dim(x, 0), m->c->trunk.width};
    x = qkv_reshape(t, qkv_slice(t, x, 1, 0, 1), 2, shape);
    return qkv_linear(t, x, qkv_use(t, m->head_weight), qkv_use(t, m->head_bias), QKV_ACT_NONE);
}

double qkv_vit_flops(const qkv_model *base, size_t pictures, size_t height, size_t width)
{
    const qkv_vit_config *c = base->config;
    size_t patches = (height / c->trunk.patch) * (width / c->trunk.patch), length = 1 + patches;
    return qkv__patches_embed_flops(&c->trunk, pictures * patches) +
           qkv__patches_stack_flops(&c->trunk, pictures * length, length) +
           6 * (double)pictures * (double)c->trunk.width * (double)c->classes;
}

/* Without the head, which a file need not have. */
static double numbers(const qkv_model_type *type, const void *config)
{
    (void)type;
    return qkv__patches_numbers(&((const qkv_vit_config *)config)->trunk);
}

const qkv_model_type qkv_vit_type = {
    "vit", "ViTForImageClassification", "vit.", &qkv__vit_config, sizeof(qkv_vit_config),
    sizeof(vit), numbers, make, visit, NULL};
