/* clip.c - CLIP: a causal transformer for texts and a Vision Transformer for images, each with a
 * projection into a common space, and the scale of the cosines there. */
#include "qkv/clip.h"

#include <math.h>
#include <stdio.h>

#include "model/tables.h"
#include "nn/patches.h"
#include "nn/stack.h"
#include "tensor/make.h"

enum { OLD_EOS = 2 }; /* in files of 2021: pool at a text's greatest id */
static const double EMBEDDING_STD = 0.02;

typedef struct {
    qkv_model *base;
    qkv_clip_config *c; /* base->config */
    qkv__stack text, vision;
    qkv_param *words, *places;       /* (vocab, width), (positions, width) of texts */
    qkv_param *patches, *first;      /* (width, patch patch channels), (1, width) */
    qkv_param *grid;                 /* (1 + patches, width): positions of images */
    qkv_param *norm_weight, *norm_bias; /* before the blocks of images */
    qkv_param *text_projection, *image_projection; /* (projection, width) */
    qkv_param *log_scale;
} clip;

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status clip_complete(qkv_context *ctx, qkv_clip_config *c)
{
    const qkv_clip_text_config *x = &c->text;
    if (!x->vocab || !x->positions || !x->width || !x->layers || !x->heads || !x->ff_width ||
        x->width % x->heads || !c->projection)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "clip: %zu tokens, %zu positions, %zu layers of "
                        "width %zu, a space of %zu: none may be 0, and the heads (%zu) must "
                        "divide the width", x->vocab, x->positions, x->layers, x->width,
                        c->projection, x->heads);
    c->vision.qkv_bias = true;
    c->vision.dropout = c->vision.drop_path = 0;
    return qkv__patches_complete(ctx, &c->vision, "clip");
}

static qkv_block_config clip_text_block(const qkv_clip_text_config *c)
{
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = c->heads;
    b.ff_width = c->ff_width;
    b.norm_eps = c->norm_eps;
    b.act = c->act;
    b.causal = true;
    b.attention_dropout = c->attention_dropout;
    return b;
}

static void clip_make_text(clip *m, qkv_params *ps)
{
    const qkv_clip_text_config *c = &m->c->text;
    const qkv_block_config block = clip_text_block(c);
    m->words = qkv__param_table(qkv__matrix(ps, "text.words", c->vocab, c->width));
    m->places = qkv__matrix(ps, "text.positions", c->positions, c->width);
    (void)qkv__stack_make(&m->text, ps, &block, c->layers,
                          &(qkv__stack_options){.block = "text", .norm = "text.norm"});
    m->text_projection =
        qkv__param_linear(qkv__matrix(ps, "text.projection", m->c->projection, c->width));
}

static void clip_make_vision(clip *m, qkv_params *ps)
{
    const qkv_patches_config *c = &m->c->vision;
    const qkv_block_config block = qkv__patches_block(c);
    size_t side = c->image / c->patch;
    m->patches = qkv__matrix(ps, "vision.patches", c->width, c->patch * c->patch * c->channels);
    m->first = qkv__matrix(ps, "vision.first", 1, c->width);
    m->grid = qkv__matrix(ps, "vision.positions", 1 + side * side, c->width);
    m->norm_weight = qkv__vector(ps, "vision.before.weight", c->width);
    m->norm_bias = qkv__vector(ps, "vision.before.bias", c->width);
    (void)qkv__stack_make(&m->vision, ps, &block, c->layers,
                          &(qkv__stack_options){.block = "vision", .norm = "vision.norm",
                                                .first = (uint32_t)m->c->text.layers});
    m->image_projection =
        qkv__param_linear(qkv__matrix(ps, "vision.projection", m->c->projection, c->width));
}

static qkv_status clip_make(qkv_model *base)
{
    clip *m = base->self;
    m->base = base;
    m->c = base->config;
    qkv_status status = clip_complete(base->ctx, m->c);
    if (status)
        return status;
    clip_make_text(m, base->params);
    clip_make_vision(m, base->params);
    m->log_scale = qkv__vector(base->params, "log_scale", 1);
    return qkv__params_status(base->params);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Deviations: those of Hugging Face's CLIP, which follow Radford et al. */
static void clip_visit_stack(qkv__visit *v, const char *under, const qkv__stack *s, double factor)
{
    const qkv_block_config *c = qkv_block_configuration(s->blocks[0]);
    size_t d = c->width, ff = c->ff_width;
    double out = factor / sqrt((double)d), in = out / sqrt(2 * (double)s->count);
    for (size_t i = 0; i < s->count; i++) {
        const qkv_block_params *p = qkv_block_parameters(s->blocks[i]);
        snprintf(v->name, sizeof v->name, "%sencoder.layers.%zu.", under, i);
        qkv__visit_linear(v, "self_attn.k_proj", p->qkv_weight, p->qkv_bias, d, d, d, in);
        qkv__visit_linear(v, "self_attn.v_proj", p->qkv_weight, p->qkv_bias, 2 * d, d, d, in);
        qkv__visit_linear(v, "self_attn.q_proj", p->qkv_weight, p->qkv_bias, 0, d, d, in);
        qkv__visit_linear(v, "self_attn.out_proj", p->out_weight, p->out_bias, 0, d, d, out);
        qkv__visit_norm(v, "layer_norm1", p->norm1_weight, p->norm1_bias, d);
        qkv__visit_linear(v, "mlp.fc1", p->up_weight, p->up_bias, 0, ff, d, out / sqrt(2));
        qkv__visit_linear(v, "mlp.fc2", p->down_weight, p->down_bias, 0, d, ff, in);
        qkv__visit_norm(v, "layer_norm2", p->norm2_weight, p->norm2_bias, d);
    }
    snprintf(v->name, sizeof v->name, "%s", under);
}

static void clip_visit_text(const clip *m, qkv__visit *v)
{
    const qkv_clip_config *c = m->c;
    double std = EMBEDDING_STD * c->init_factor;
    snprintf(v->name, sizeof v->name, "text_model.");
    qkv__visit_table(v, "embeddings.token_embedding.weight", m->words, false, std);
    qkv__visit_positions(v, "embeddings.position_embedding.weight", m->places, 2, std);
    qkv__visit_kind(v, "embeddings.position_ids", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    clip_visit_stack(v, "text_model.", &m->text, c->init_factor);
    qkv__visit_norm(v, "final_layer_norm", m->text.norm_weight, m->text.norm_bias, c->text.width);
}

static void clip_visit_vision(const clip *m, qkv__visit *v)
{
    const qkv_clip_config *c = m->c;
    const qkv_patches_config *x = &c->vision;
    double std = EMBEDDING_STD * c->init_factor;
    qkv_state_entry first = {.kind = QKV_STATE_PARAM, .param = m->first, .ndim = 1,
                             .shape = {x->width}, .init = QKV_INIT_NORMAL,
                             .scale = c->init_factor / sqrt((double)x->width)};
    snprintf(v->name, sizeof v->name, "vision_model.");
    qkv__visit_entry(v, &first, "embeddings.class_embedding");
    qkv__visit_convolution(v, "embeddings.patch_embedding.weight", m->patches, x->width,
                           x->channels, x->patch, std);
    qkv__visit_positions(v, "embeddings.position_embedding.weight", m->grid, 2, std);
    qkv__visit_kind(v, "embeddings.position_ids", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    qkv__visit_norm(v, "pre_layrnorm", m->norm_weight, m->norm_bias, x->width);
    clip_visit_stack(v, "vision_model.", &m->vision, c->init_factor);
    qkv__visit_norm(v, "post_layernorm", m->vision.norm_weight, m->vision.norm_bias, x->width);
}

static qkv_status clip_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    const clip *m = base->self;
    const qkv_clip_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv_state_entry scale = {.kind = QKV_STATE_PARAM, .param = m->log_scale,
                             .init = QKV_INIT_CONSTANT, .scale = c->log_scale};
    clip_visit_text(m, &v);
    clip_visit_vision(m, &v);
    v.name[0] = 0;
    qkv__visit_rows(&v, "visual_projection.weight", m->image_projection, 0, c->projection,
                    c->vision.width, false, QKV_INIT_NORMAL,
                    c->init_factor / sqrt((double)c->vision.width));
    qkv__visit_rows(&v, "text_projection.weight", m->text_projection, 0, c->projection,
                    c->text.width, false, QKV_INIT_NORMAL,
                    c->init_factor / sqrt((double)c->text.width));
    qkv__visit_entry(&v, &scale, "logit_scale");
    return v.status;
}

/* ---- texts -------------------------------------------------------------------------------- */

/* The row of ids [from, to) whose output is the text's. */
static int32_t pooled_row(const qkv_clip_text_config *c, const int32_t *ids, int32_t from,
                          int32_t to)
{
    int32_t row = from;
    for (int32_t i = from; i < to; i++) {
        if (c->eos != OLD_EOS && ids[i] == c->eos)
            return i;
        if (c->eos == OLD_EOS && ids[i] > ids[row])
            row = i;
    }
    return row;
}

static qkv_tensor *pooled_rows(const clip *m, qkv_tape *t, const qkv_tensor *ids,
                               size_t sequences, const int32_t *offsets)
{
    size_t T = qkv_dim(ids, 1), n = offsets ? sequences : qkv_dim(ids, 0);
    const int32_t *values = qkv_data_ids(t, ids);
    int32_t *at = qkv__step_alloc(t, n * sizeof *at);
    if (!values || !at)
        return NULL;
    for (size_t i = 0; i < n; i++)
        at[i] = pooled_row(&m->c->text, values, offsets ? offsets[i] : (int32_t)(i * T),
                           offsets ? offsets[i + 1] : (int32_t)((i + 1) * T));
    return qkv_tensor_ids(t, at, 1, &n);
}

qkv_tensor *qkv_clip_texts(qkv_model *base, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                           const int32_t *offsets)
{
    clip *m = qkv__model_as(base, t, __func__, QKV_CAN_EMBED_BOTH);
    if (!m || !ids || qkv_tape_status(t))
        return NULL;
    const qkv_sequence seq = {.sequences = offsets ? sequences : 0, .offsets = offsets};
    qkv_tensor *positions = qkv__positions(t, ids, 0, sequences, offsets);
    qkv_tensor *x = qkv_embedding(t, ids, qkv_use(t, m->words), 1.0, positions,
                                  qkv_use(t, m->places));
    x = qkv__stack_forward(&m->text, t, x, &seq, NULL);
    if (!x)
        return NULL;
    const size_t flat[] = {qkv_dim(ids, 0) * qkv_dim(ids, 1), m->c->text.width};
    qkv_tensor *rows = pooled_rows(m, t, ids, sequences, offsets);
    x = qkv_embedding(t, rows, qkv_reshape(t, x, 2, flat), 1.0, NULL, NULL);
    return qkv_linear(t, x, qkv_use(t, m->text_projection), NULL, QKV_ACT_NONE);
}

/* ---- images ------------------------------------------------------------------------------- */

/* pixels -> (B, rows columns, width). */
static qkv_tensor *clip_patches(const clip *m, qkv_tape *t, qkv_tensor *pixels)
{
    const qkv_patches_config *c = &m->c->vision;
    if (qkv_ndim(pixels) != 4 || qkv_dim(pixels, 3) != c->channels ||
        !(qkv_dim(pixels, 1) / c->patch) || !(qkv_dim(pixels, 2) / c->patch) ||
        qkv_dim(pixels, 1) % c->patch || qkv_dim(pixels, 2) % c->patch)
        return qkv__op_fail(t, "clip", "images %s cannot be cut into patches of %zu x %zu "
                            "pixels with %zu channels", qkv__shape_text(t, pixels), c->patch,
                            c->patch, c->channels);
    return qkv_linear(t, qkv_patchify(t, pixels, c->patch), qkv_use(t, m->patches), NULL,
                      QKV_ACT_NONE);
}

qkv_tensor *qkv_clip_embed(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const clip *m = qkv__model_as(base, t, __func__, QKV_CAN_EMBED_BOTH);
    return m && pixels && !qkv_tape_status(t) ? clip_patches(m, t, pixels) : NULL;
}

/* pixels -> (B, 1 + rows columns, width), the first token before the patches. */
static qkv_tensor *clip_tokens(const clip *m, qkv_tape *t, qkv_tensor *pixels)
{
    const qkv_patches_config *c = &m->c->vision;
    qkv_tensor *x = clip_patches(m, t, pixels);
    if (!x)
        return NULL;
    size_t rows = qkv_dim(pixels, 1) / c->patch, columns = qkv_dim(pixels, 2) / c->patch;
    size_t side = c->image / c->patch, B = qkv_dim(pixels, 0);
    int32_t *zeros = qkv__step_alloc(t, B * sizeof *zeros);
    for (size_t i = 0; zeros && i < B; i++)
        zeros[i] = 0;
    qkv_tensor *ids = zeros ? qkv_tensor_ids(t, zeros, 2, (size_t[]){B, 1}) : NULL;
    qkv_tensor *parts[] = {qkv_embedding(t, ids, qkv_use(t, m->first), 1, NULL, NULL), x};
    qkv_tensor *grid = qkv_use(t, m->grid);
    if (rows != side || columns != side)
        grid = qkv_interpolate_positions(t, grid, QKV_BICUBIC, 1, side, side, rows, columns);
    return qkv_add(t, qkv_concat(t, 1, 2, parts), grid);
}

qkv_tensor *qkv_clip_images(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    clip *m = qkv__model_as(base, t, __func__, QKV_CAN_EMBED_BOTH);
    if (!m || !pixels || qkv_tape_status(t))
        return NULL;
    qkv_tensor *x = clip_tokens(m, t, qkv_probe(t, "pixels", pixels));
    x = qkv_norm(t, QKV_NORM_LAYER, x, qkv_use(t, m->norm_weight), qkv_use(t, m->norm_bias),
                 m->c->vision.norm_eps);
    x = qkv__stack_forward(&m->vision, t, x, &(qkv_sequence){0}, NULL);
    if (!x)
        return NULL;
    const size_t shape[] = {qkv_dim(x, 0), m->c->vision.width}; /* the stack may be entered */
    x = qkv_reshape(t, qkv_slice(t, x, 1, 0, 1), 2, shape);
    return qkv_linear(t, x, qkv_use(t, m->image_projection), NULL, QKV_ACT_NONE);
}

qkv_param *qkv_clip_log_scale(qkv_model *base)
{
    clip *m = qkv__model_as(base, NULL, __func__, QKV_CAN_EMBED_BOTH);
    return m ? m->log_scale : NULL;
}

/* ---- the type ----------------------------------------------------------------------------- */

static double clip_flops(const qkv_model *base, const qkv_workload *w)
{
    const qkv_clip_config *c = base->config;
    const qkv_patches_config *v = &c->vision;
    size_t height = w->height ? w->height : v->image, width = w->width ? w->width : v->image;
    size_t patches = (height / v->patch) * (width / v->patch);
    double d = (double)c->text.width, L = (double)c->text.layers, rows_ = w->samples * w->length;
    double block = 4 * d * d + 2 * d * (double)c->text.ff_width;
    int passes = qkv__passes(w->pass);
    double heads = w->samples * (double)c->projection * (d + (double)v->width);
    return qkv__flops(w->pass, L * block * rows_ + heads, 2 * L * d * rows_ * w->length) +
           qkv__patches_embed_flops(v, passes, w->samples * (double)patches) +
           qkv__patches_stack_flops(v, passes, w->samples, 1 + patches);
}

static double clip_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_clip_config *c = config;
    (void)type;
    double d = (double)c->text.width, P = (double)c->projection;
    return d * ((double)c->text.vocab + (double)c->text.positions + P +
                (double)c->text.layers * (4 * d + 2 * (double)c->text.ff_width)) +
           P * (double)c->vision.width + qkv__patches_parameters(&c->vision);
}

static const qkv_builtin_type clip_builtin = {.can = QKV_CAN_EMBED_BOTH, .reads_text = true};

static const qkv_model_type clip_type = {
    .name = "clip", .architecture = "CLIPModel", .config = &qkv__clip_config,
    .config_size = sizeof(qkv_clip_config), .self_size = sizeof(clip), .make = clip_make,
    .visit = clip_visit, .flops = clip_flops, .preset = qkv__clip_preset,
    .builtin = &clip_builtin, .parameter_count = clip_parameter_count};

const qkv_model_type *qkv_clip_type(void) { return &clip_type; }
