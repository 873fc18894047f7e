/* patches.c - the trunk of all models that cut images into patches. */
#include "nn/patches.h"

#include <stdio.h>

#include "base/base.h"
#include "tensor/make.h"

enum { INPUT_DROPOUT_ID, NORM_DROPOUT_ID }; /* counted from the kind's */
enum { FF_RATIO = 4, GATED_MULTIPLE = 8 };
enum { LEADS = 3 }; /* kinds of tokens before the patches */
#define NONE SIZE_MAX

const qkv__patches_family qkv__vit_family = {.norm1 = "layernorm_before",
                                             .norm2 = "layernorm_after",
                                             .up = "intermediate.dense", .down = "output.dense"};

/* ---- making ------------------------------------------------------------------------------- */

/* Of a gated layer 2/3, rounded up, so that its three matrices have as many numbers. */
static size_t patches_ff_width(const qkv_patches_config *c)
{
    size_t width = c->width * (c->ff_ratio ? c->ff_ratio : FF_RATIO);
    if (c->ff_width)
        return c->ff_width;
    return !c->gated ? width
                     : (2 * width / 3 + GATED_MULTIPLE - 1) / GATED_MULTIPLE * GATED_MULTIPLE;
}

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
    c->ff_width = patches_ff_width(c);
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
    b.act = c->gated ? QKV_ACT_SILU : c->act;
    b.gated = c->gated;
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
    size_t side = grid(p);
    p->positions = qkv__matrix(ps, "positions", p->placed + side * side, c->width);
    if (!p->positions)
        return qkv_context_status(ctx);
    if (!p->kind.sinusoids)
        return QKV_OK;
    qkv_param_freeze(p->positions, true);
    return qkv__fill_sinusoids(p->positions, p->placed, side * side, QKV_SINUSOID_MAE_2D, 0, side);
}

/* The tokens before the patches. */
static void patches_make_leads(qkv__patches *p, qkv_params *ps)
{
    const qkv_patches_config *c = p->c;
    p->placed = 1 + p->kind.family->distilled;
    p->leads = p->placed + c->registers;
    p->first = qkv__matrix(ps, "first", 1, c->width);
    if (p->kind.family->distilled)
        p->second = qkv__matrix(ps, "second", 1, c->width);
    if (c->registers)
        p->registers = qkv__matrix(ps, "registers", c->registers, c->width);
    if (c->mask_token || p->kind.family->masked)
        p->mask = qkv__matrix(ps, "mask", 1, c->width);
    if (p->mask)
        qkv_param_freeze(p->mask, true);
}

qkv_status qkv__patches_make(qkv__patches *p, qkv_params *ps, const qkv_patches_config *c,
                             qkv__patches_kind kind)
{
    if (!kind.family)
        kind.family = &qkv__vit_family;
    qkv_block_config config = qkv__patches_block(c);
    config.norm_stream = kind.side > 0;
    config.layer_scale = kind.family->scale1 != NULL;
    *p = (qkv__patches){.c = c, .kind = kind};
    if (!kind.side) {
        p->patch_weight = qkv__matrix(ps, "patches.weight", c->width, patches_patch_parameters(c));
        p->patch_bias = qkv__vector(ps, "patches.bias", c->width);
    }
    if (!kind.no_first)
        patches_make_leads(p, ps);
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
    double d = (double)c->width, ff = (double)patches_ff_width(c);
    double side = c->patch ? (double)c->image / (double)c->patch : 0;
    double pixels = (double)c->patch * (double)c->patch * (double)c->channels;
    return d * (pixels + side * side + (double)c->layers * (4 * d + (c->gated ? 3 : 2) * ff));
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

static void visit_scale(qkv__visit *v, const char *name, qkv_param *p, const qkv_patches_config *c)
{
    qkv__visit_rows(v, name, p, 0, c->width, 0, false, QKV_INIT_CONSTANT, c->layer_scale);
}

void qkv__patches_visit_block(qkv__visit *v, const qkv__patches_family *f, const qkv_block *b,
                              const qkv_patches_config *c)
{
    const qkv_block_params *p = qkv_block_parameters(b);
    const char *up = c->gated ? f->gated_up : f->up, *down = c->gated ? f->gated_down : f->down;
    size_t d = c->width, ff = c->ff_width;
    double std = c->init_range;
    qkv__visit_linear(v, "attention.attention.query", p->qkv_weight, p->qkv_bias, 0, d, d, std);
    qkv__visit_linear(v, "attention.attention.key", p->qkv_weight, p->qkv_bias, d, d, d, std);
    qkv__visit_linear(v, "attention.attention.value", p->qkv_weight, p->qkv_bias, 2 * d, d, d, std);
    qkv__visit_linear(v, "attention.output.dense", p->out_weight, p->out_bias, 0, d, d, std);
    qkv__visit_linear(v, up, p->up_weight, p->up_bias, 0, c->gated ? 2 * ff : ff, d, std);
    qkv__visit_linear(v, down, p->down_weight, p->down_bias, 0, d, ff, std);
    qkv__visit_norm(v, f->norm1, p->norm1_weight, p->norm1_bias, d);
    qkv__visit_norm(v, f->norm2, p->norm2_weight, p->norm2_bias, d);
    visit_scale(v, f->scale1, p->scale1, c);
    visit_scale(v, f->scale2, p->scale2, c);
}

static void visit_leads(const qkv__patches *p, qkv__visit *v)
{
    double std = p->c->init_range;
    if (p->first)
        qkv__visit_positions(v, "cls_token", p->first, 3, std);
    if (p->second)
        qkv__visit_positions(v, "distillation_token", p->second, 3, std);
    if (p->registers)
        qkv__visit_positions(v, "register_tokens", p->registers, 3, std);
    if (p->mask)
        qkv__visit_positions(v, "mask_token", p->mask, 2, 0);
}

void qkv__patches_visit(const qkv__patches *p, qkv__visit *v)
{
    const qkv_patches_config *c = p->c;
    const char *under = p->kind.prefix ? p->kind.prefix : "vit.";
    snprintf(v->name, sizeof v->name, "%sembeddings.", under);
    visit_leads(p, v);
    qkv__visit_positions(v, "position_embeddings", p->positions, 3, c->init_range);
    qkv__visit_convolution(v, "patch_embeddings.projection.weight", p->patch_weight, c->width,
                           c->channels, c->patch, c->init_range);
    qkv__visit_rows(v, "patch_embeddings.projection.bias", p->patch_bias, 0, c->width, 0, false,
                    QKV_INIT_ZEROS, 0);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v->name, sizeof v->name, "%sencoder.layer.%zu.", under, i);
        qkv__patches_visit_block(v, p->kind.family, p->stack.blocks[i], c);
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
    size_t first = p->placed, side = grid(p);
    qkv_interpolation how = p->kind.family->antialiased ? QKV_BICUBIC_ANTIALIASED : QKV_BICUBIC;
    if (!x || !p->positions)
        return x;
    qkv_tensor *table = qkv_use(t, p->positions);
    if (rows != side || columns != side)
        table = qkv_interpolate_positions(t, table, how, first, side, side, rows, columns);
    return qkv_add(t, x, qkv_slice(t, table, 0, first, first + rows * columns));
}

/* Tokens (rows, width) for each of B images, (B, rows, width), with the positions from row `at` of
 * the table on; NONE: without. */
static qkv_tensor *patches_lead(const qkv__patches *p, qkv_tape *t, qkv_param *tokens, size_t B,
                                size_t at)
{
    size_t shape[] = {B, qkv_param_dim(tokens, 0)}, n = shape[0] * shape[1];
    int32_t *ids = qkv__step_alloc(t, 2 * n * sizeof *ids);
    for (size_t i = 0; ids && i < n; i++) {
        ids[i] = (int32_t)(i % shape[1]);
        ids[n + i] = at == NONE ? 0 : (int32_t)at + ids[i];
    }
    if (!ids)
        return NULL;
    return qkv_embedding(t, qkv_tensor_ids(t, ids, 2, shape), qkv_use(t, tokens), 1,
                         at == NONE ? NULL : qkv_tensor_ids(t, ids + n, 2, shape),
                         at == NONE ? NULL : qkv_use(t, p->positions));
}

qkv_tensor *qkv__patches_begin(const qkv__patches *p, qkv_tape *t, qkv_tensor *x)
{
    qkv_tensor *parts[LEADS + 1];
    int count = 0;
    if (p->first && x) {
        size_t B = qkv_dim(x, 0);
        parts[count++] = patches_lead(p, t, p->first, B, 0);
        if (p->second)
            parts[count++] = patches_lead(p, t, p->second, B, 1);
        if (p->registers)
            parts[count++] = patches_lead(p, t, p->registers, B, NONE);
        parts[count++] = x;
        x = qkv_concat(t, 1, count, parts);
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
    double block = 2 * passes * (4 * d * d + (c->gated ? 3 : 2) * d * (double)c->ff_width) +
                   (passes > 1 ? 14 : 4) * d * (double)length;
    return (double)c->layers * rows * block;
}

double qkv__patches_embed_flops(const qkv_patches_config *c, int passes, double rows)
{
    return (passes > 1 ? 4 : 2) * rows * (double)c->width * (double)patches_patch_parameters(c);
}
