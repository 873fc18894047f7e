/* dense.c - models of every pixel: the trunk of patches, and a dense layer that makes of each token
 * the numbers of its patch's pixels. It knows nothing of what they mean. */
#include "model/dense.h"

#include "model/patches.h"
#include "tensor/param.h"
#include "tensor/tape.h"

typedef struct {
    qkv_model base;
    qkv_dense_config *c; /* base.config */
    qkv__patches trunk;
    qkv_param *head_weight, *head_bias; /* rows: row in the patch, column, output */
} dense;

enum { COLORS = 2, CELLS = 16 }; /* a and b; hints that fit side by side */

/* Of the initial deviation: first guesses near nothing. */
static const double HEAD_SHARE = 0.1;

static size_t head_rows(const qkv_dense_config *c)
{
    return c->trunk.patch * c->trunk.patch * c->outputs;
}

static qkv_status check(const qkv_model *base, qkv_dense_config *c)
{
    const char *name = base->type->name;
    if (base->type == &qkv_colorizer_type) {
        c->outputs = COLORS;
        if (c->trunk.channels != QKV_COLORIZER_INPUTS)
            return qkv__fail(base->ctx, QKV_E_ARGUMENT, "%s: num_channels: %d expected (lightness, "
                             "a, b, whether they are known), found %zu", name,
                             (int)QKV_COLORIZER_INPUTS, c->trunk.channels);
        if (!c->cell)
            c->cell = c->trunk.image < CELLS ? 1 : c->trunk.image / CELLS;
        if (c->trunk.image % c->cell)
            return qkv__fail(base->ctx, QKV_E_ARGUMENT, "%s: hint_size %zu does not divide "
                             "image_size %zu", name, c->cell, c->trunk.image);
    } else {
        c->tanh = false; /* its table has no such field, so nobody has set it */
    }
    return c->outputs ? QKV_OK : qkv__fail(base->ctx, QKV_E_ARGUMENT, "%s: no classes", name);
}

static qkv_status make(qkv_model *base)
{
    dense *m = (dense *)base;
    qkv_dense_config *c = m->c = base->config;
    static const qkv__patches_kind kind = {.no_first = true, .site = 0xE0000000u};
    qkv_status status = check(base, c);
    if (!status)
        status = qkv__patches_complete(base->ctx, &c->trunk, base->type->name);
    if (!status)
        status = qkv__patches_make(&m->trunk, base, &c->trunk, kind);
    if (status)
        return status;
    m->head_weight = qkv__matrix(base->params, "head.weight", head_rows(c), c->trunk.width);
    m->head_bias = qkv__vector(base->params, "head.bias", head_rows(c));
    return qkv__params_status(base->params);
}

static qkv_status visit(qkv_model *base, qkv_row_fn *fn, void *user)
{
    dense *m = (dense *)base;
    const qkv_dense_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    qkv__visit_dense(&v, "head", m->head_weight, m->head_bias, 0, head_rows(c), c->trunk.width,
                     HEAD_SHARE * c->trunk.init_range);
    return v.status;
}

qkv_tensor *qkv_dense_forward(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    dense *m = (dense *)base;
    const qkv_dense_config *c = m->c;
    qkv_tensor *x = qkv__patches_forward(&m->trunk, t, pixels);
    if (!x)
        return NULL;
    x = qkv_linear(t, x, qkv_use(t, m->head_weight), qkv_use(t, m->head_bias),
                   c->tanh ? QKV_ACT_TANH : QKV_ACT_NONE);
    size_t p = c->trunk.patch;
    return qkv_unpatchify(t, x, p, qkv_dim(pixels, 1) / p, qkv_dim(pixels, 2) / p);
}

double qkv_dense_flops(const qkv_model *base, size_t pictures)
{
    const qkv_dense_config *c = base->config;
    size_t side = c->trunk.image / c->trunk.patch, tokens = side * side;
    return qkv__patches_embed_flops(&c->trunk, pictures * tokens) +
           qkv__patches_stack_flops(&c->trunk, pictures * tokens, tokens) +
           6 * (double)(pictures * tokens) * (double)c->trunk.width * (double)head_rows(c);
}

static double numbers(const qkv_model_type *type, const void *config)
{
    const qkv_dense_config *c = config;
    double patch = (double)c->trunk.patch, of_pixel = (double)c->outputs;
    if (type == &qkv_colorizer_type)
        of_pixel = COLORS;
    return qkv__patches_numbers(&c->trunk) + patch * patch * of_pixel * (double)c->trunk.width;
}

const qkv_model_type qkv_segmenter_type = {
    "qkv_segmenter", "QkvSegmenter", "", &qkv__segmenter_config, sizeof(qkv_dense_config),
    sizeof(dense), numbers, make, visit, NULL};
const qkv_model_type qkv_colorizer_type = {
    "qkv_colorizer", "QkvColorizer", "", &qkv__colorizer_config, sizeof(qkv_dense_config),
    sizeof(dense), numbers, make, visit, NULL};
