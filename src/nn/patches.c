/* patches.c - the trunk of all models that cut images into patches. */
#include "nn/patches.h"

#include <stdio.h>

#include "base/base.h"
#include "tensor/make.h"

enum { INPUT_DROPOUT_ID, NORM_DROPOUT_ID }; /* counted from the kind's */

/* ---- making ------------------------------------------------------------------------------- */

qkv_status qkv__patches_complete(qkv_context *ctx, qkv_patches_config *c, const char *model)
{
    if (!c->image || !c->patch || !c->channels || !c->width || !c->layers || !c->heads ||
        c->width % c->heads)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: images of %zu pixels a side with %zu "
                        "channels, patches of %zu, %zu layers, width %zu: none may be 0, and the "
                        "heads (%zu) must divide the width", model, c->image, c->channels,
                        c->patch, c->layers, c->width, c->heads);
    if (c->image % c->patch)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: images of %zu pixels a side cannot be cut "
                        "into patches of %zu", model, c->image, c->patch);
    if (!c->ff_width)
        c->ff_width = 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1, c->width);
    return QKV_OK;
}

qkv_block_config qkv__patches_block(const qkv_patches_config *c)
{
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = c->heads;
    b.ff_width = c->ff_width;
    b.norm_eps = c->norm_eps;
    b.act = c->act;
    b.qkv_bias = c->qkv_bias;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    b.drop_path = c->drop_path;
    return b;
}

static size_t patches_patch_parameters(const qkv_patches_config *c)
{
    return c->patch * c->patch * c->channels;
}

/* Rows of the grid that positions are for. */
static size_t grid(const qkv__patches *p)
{
    return p->kind.side ? p->kind.side : p->c->image / p->c->patch;
}

static qkv_status patches_make_positions(qkv__patches *p, qkv_params *ps)
{
    const qkv_patches_config *c = p->c;
    qkv_context *ctx = qkv__params_context(ps);
    size_t first = !p->kind.no_first, side = grid(p);
    p->positions = qkv__matrix(ps, "positions", first + side * side, c->width);
    if (!p->positions)
        return qkv_context_status(ctx);
    if (!p->kind.sinusoids)
        return QKV_OK;
    qkv_param_freeze(p->positions, true);
    return qkv__fill_sinusoids(p->positions, first, side * side, QKV_SINUSOID_MAE_2D, 0, side);
}

qkv_status qkv__patches_make(qkv__patches *p, qkv_params *ps, const qkv_patches_config *c,
                             qkv__patches_kind kind)
{
    qkv_block_config config = qkv__patches_block(c);
    config.norm_stream = kind.side > 0;
    *p = (qkv__patches){.c = c, .kind = kind};
    if (!kind.side) {
        p->patch_weight = qkv__matrix(ps, "patches.weight", c->width, patches_patch_parameters(c));
        p->patch_bias = qkv__vector(ps, "patches.bias", c->width);
    }
    if (!kind.no_first)
        p->first = qkv__matrix(ps, "first", 1, c->width);
    qkv_status status = kind.no_positions ? QKV_OK : patches_make_positions(p, ps);
    if (status)
        return status;
    status = qkv__stack_make(&p->stack, ps, &config, c->layers,
                             &(qkv__stack_options){.block = "layer", .norm = "norm",
                                                   .norm_dropout_id =
                                                       kind.dropout_id + NORM_DROPOUT_ID});
    return status ? status : qkv__params_status(ps);
}

double qkv__patches_parameters(const qkv_patches_config *c)
{
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 4 * d;
    double side = c->patch ? (double)c->image / (double)c->patch : 0;
    double pixels = (double)c->patch * (double)c->patch * (double)c->channels;
    return d * (pixels + side * side + (double)c->layers * (4 * d + 2 * ff));
}

/* ---- rows --------------------------------------------------------------------------------- */

void qkv__visit_positions(qkv__visit *v, const char *name, qkv_param *p, int ndim, double std)
{
    qkv_state_entry row = {.param = p, .ndim = ndim, .init = QKV_INIT_NORMAL, .scale = std};
    row.kind = qkv_param_frozen(p) ? QKV_STATE_FIXED : QKV_STATE_PARAM;
    if (row.kind == QKV_STATE_FIXED)
        row.init = QKV_INIT_NONE;
    for (int i = 0; i < ndim; i++) {
        row.perm[i] = i;
        row.shape[i] = i < ndim - 2 ? 1 : qkv_param_dim(p, i - ndim);
    }
    qkv__visit_entry(v, &row, name);
}

void qkv__visit_convolution(qkv__visit *v, const char *name, qkv_param *p, size_t outputs,
                            size_t inputs, size_t window, double std)
{
    qkv_state_entry row = {.kind = QKV_STATE_PARAM, .param = p, .ndim = 4,
                           .shape = {outputs, inputs, window, window}, .perm = {0, 3, 1, 2},
                           .init = QKV_INIT_NORMAL, .scale = std, .decay = true};
    qkv__visit_entry(v, &row, name);
}

void qkv__patches_visit_block(qkv__visit *v, const qkv_block *b, double std)
{
    const qkv_block_params *p = qkv_block_parameters(b);
    size_t d = qkv_block_configuration(b)->width, ff = qkv_block_configuration(b)->ff_width;
    qkv__visit_linear(v, "attention.attention.query", p->qkv_weight, p->qkv_bias, 0, d, d, std);
    qkv__visit_linear(v, "attention.attention.key", p->qkv_weight, p->qkv_bias, d, d, d, std);
    qkv__visit_linear(v, "attention.attention.value", p->qkv_weight, p->qkv_bias, 2 * d, d, d, std);
    qkv__visit_linear(v, "attention.output.dense", p->out_weight, p->out_bias, 0, d, d, std);
    qkv__visit_linear(v, "intermediate.dense", p->up_weight, p->up_bias, 0, ff, d, std);
    qkv__visit_linear(v, "output.dense", p->down_weight, p->down_bias, 0, d, ff, std);
    qkv__visit_norm(v, "layernorm_before", p->norm1_weight, p->norm1_bias, d);
    qkv__visit_norm(v, "layernorm_after", p->norm2_weight, p->norm2_bias, d);
}

void qkv__patches_visit(const qkv__patches *p, qkv__visit *v)
{
    const qkv_patches_config *c = p->c;
    const char *under = p->kind.no_prefix ? "" : "vit.";
    snprintf(v->name, sizeof v->name, "%sembeddings.", under);
    if (p->first)
        qkv__visit_positions(v, "cls_token", p->first, 3, c->init_range);
    qkv__visit_positions(v, "position_embeddings", p->positions, 3, c->init_range);
    qkv__visit_convolution(v, "patch_embeddings.projection.weight", p->patch_weight, c->width,
                           c->channels, c->patch, c->init_range);
    qkv__visit_rows(v, "patch_embeddings.projection.bias", p->patch_bias, 0, c->width, 0, false,
                    QKV_INIT_ZEROS, 0);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v->name, sizeof v->name, "%sencoder.layer.%zu.", under, i);
        qkv__patches_visit_block(v, p->stack.blocks[i], c->init_range);
    }
    snprintf(v->name, sizeof v->name, "%s", under);
    qkv__visit_norm(v, "layernorm", p->stack.norm_weight, p->stack.norm_bias,
                    c->width);
    v->name[0] = 0;
}

/* ---- forward ------------------------------------------------------------------------------ */

qkv_tensor *qkv__patches_embed(const qkv__patches *p, qkv_tape *t, qkv_tensor *pixels)
{
    const qkv_patches_config *c = p->c;
    if (!pixels || qkv_tape_status(t))
        return NULL;
    size_t rows = qkv_dim(pixels, 1) / c->patch;
    size_t columns = qkv_dim(pixels, 2) / c->patch;
    if (qkv_ndim(pixels) != 4 || qkv_dim(pixels, 3) != c->channels || rows == 0 || columns == 0 ||
        qkv_dim(pixels, 1) % c->patch || qkv_dim(pixels, 2) % c->patch)
        return qkv__op_fail(t, "patches", "images %s cannot be cut into patches of %zu x %zu "
                            "pixels with %zu channels", qkv__shape_text(t, pixels), c->patch,
                            c->patch, c->channels);
    return qkv_linear(t, qkv_patchify(t, pixels, c->patch), qkv_use(t, p->patch_weight),
                      qkv_use(t, p->patch_bias), QKV_ACT_NONE);
}

qkv_tensor *qkv__patches_place(const qkv__patches *p, qkv_tape *t, qkv_tensor *x, size_t rows,
                               size_t columns)
{
    size_t first = !p->kind.no_first, side = grid(p);
    if (!x || !p->positions)
        return x;
    qkv_tensor *table = qkv_use(t, p->positions);
    if (rows != side || columns != side)
        table = qkv_interpolate_positions(t, table, QKV_BICUBIC, first, side, side, rows, columns);
    return qkv_add(t, x, qkv_slice(t, table, 0, first, first + rows * columns));
}

qkv_tensor *qkv__patches_begin(const qkv__patches *p, qkv_tape *t, qkv_tensor *x)
{
    if (p->first && x) {
        size_t shape[] = {qkv_dim(x, 0), 1};
        int32_t *zeros = qkv__step_alloc(t, shape[0] * sizeof *zeros);
        for (size_t i = 0; zeros && i < shape[0]; i++)
            zeros[i] = 0;
        qkv_tensor *ids = zeros ? qkv_tensor_ids(t, zeros, 2, shape) : NULL;
        qkv_tensor *parts[] = {qkv_embedding(t, ids, qkv_use(t, p->first), 1, ids,
                                             qkv_use(t, p->positions)), x};
        x = qkv_concat(t, 1, 2, parts);
    }
    return p->c->dropout > 0 ? qkv_dropout(t, x, p->c->dropout, p->kind.dropout_id +
                                           INPUT_DROPOUT_ID) : x;
}

qkv_tensor *qkv__patches_encode(const qkv__patches *p, qkv_tape *t, qkv_tensor *x)
{
    return qkv__stack_forward(&p->stack, t, x, &(qkv_sequence){0}, NULL);
}

qkv_tensor *qkv__patches_through(const qkv__patches *p, qkv_tape *t, qkv_tensor *x, size_t rows,
                                 size_t columns)
{
    x = qkv__patches_place(p, t, x, rows, columns);
    return qkv__patches_encode(p, t, qkv__patches_begin(p, t, x));
}

double qkv__patches_stack_flops(const qkv_patches_config *c, int passes, double sequences,
                                size_t length)
{
    double d = (double)c->width, rows = sequences * (double)length;
    double block = 2 * passes * (4 * d * d + 2 * d * (double)c->ff_width) +
                   (passes > 1 ? 14 : 4) * d * (double)length;
    return (double)c->layers * rows * block;
}

double qkv__patches_embed_flops(const qkv_patches_config *c, int passes, double rows)
{
    return (passes > 1 ? 4 : 2) * rows * (double)c->width * (double)patches_patch_parameters(c);
}
