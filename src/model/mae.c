/* mae.c - the masked autoencoder: a trunk of patches that sees some of them, and a decoder that
 * gets all places, those that were hidden as one learned token. */
#include "model/tables.h"
#include "qkv/mae.h"

#include <math.h>
#include <stdio.h>

#include "nn/patches.h"
#include "nn/stack.h"
#include "tensor/make.h"

typedef struct {
    qkv_model *base;
    qkv_mae_config *c; /* base->config */
    qkv__patches trunk;
    qkv_patches_config decoder;          /* as if it were a trunk: its width, layers, .. */
    qkv_linear_layer into;               /* encoder's width -> decoder's */
    qkv_param *mask;                     /* (1, decoder width) */
    qkv_param *positions;                /* (1 + patches, decoder width), fixed */
    qkv__stack stack;                    /* the decoder's */
    qkv_linear_layer pred;               /* decoder's width -> a patch's numbers */
} mae;

static const uint32_t TRUNK_DROPOUT_IDS = 0xE1000000u, NORM_DROPOUT_ID = 0xE1000010u;
static const double LAST = 0.1; /* of the last layer's initial weights, what others would have */
static const double PATCH_EPS = 1e-6; /* beside the variance of a patch that is normed */

static size_t mae_side(const mae *m) { return m->c->trunk.image / m->c->trunk.patch; }
static size_t mae_patches(const mae *m) { return mae_side(m) * mae_side(m); }
static size_t mae_patch_parameters(const mae *m)
{
    return m->c->trunk.patch * m->c->trunk.patch * m->c->trunk.channels;
}

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status mae_complete(mae *m)
{
    qkv_mae_config *c = m->c;
    qkv_context *ctx = m->base->ctx;
    double range = c->trunk.init_range;
    qkv_status status = qkv__patches_complete(ctx, &c->trunk, "vit_mae");
    if (status)
        return status;
    m->decoder = c->trunk;
    m->decoder.width = c->decoder_width;
    m->decoder.layers = c->decoder_layers;
    m->decoder.heads = c->decoder_heads;
    m->decoder.ff_width = c->decoder_ff_width;
    m->decoder.init_range = range;
    status = qkv__patches_complete(ctx, &m->decoder, "vit_mae, decoder");
    if (status)
        return status;
    c->decoder_ff_width = m->decoder.ff_width;
    if (c->trunk.width % 4 || c->decoder_width % 4)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "vit_mae: widths %zu and %zu: multiples of 4 "
                        "expected, for the sinusoids of two axes", c->trunk.width,
                        c->decoder_width);
    return QKV_OK;
}

static qkv_status make_decoder(mae *m)
{
    qkv_params *ps = m->base->params;
    const qkv_patches_config *c = &m->c->trunk;
    size_t d = m->decoder.width, L = mae_patches(m);
    qkv_block_config config = qkv__patches_block(&m->decoder);
    (void)qkv_linear_create(&m->into, ps, "decoder.into", c->width, d);
    m->mask = qkv__matrix(ps, "decoder.mask", 1, d);
    m->positions = qkv__matrix(ps, "decoder.positions", 1 + L, d);
    if (!m->positions)
        return qkv_context_status(m->base->ctx);
    qkv_param_freeze(m->positions, true);
    const qkv__stack_options stack = {.block = "decoder.layer", .norm = "decoder.norm",
                                      .first = (uint32_t)c->layers,
                                      .norm_dropout_id = NORM_DROPOUT_ID};
    qkv_status status = qkv__stack_make(&m->stack, ps, &config, m->decoder.layers, &stack);
    (void)qkv_linear_create(&m->pred, ps, "decoder.pred", d, mae_patch_parameters(m));
    if (!status)
        status = qkv__params_status(ps);
    return status ? status
                  : qkv__fill_sinusoids(m->positions, 1, L, QKV_SINUSOID_MAE_2D, 0, mae_side(m));
}

static qkv_status mae_make(qkv_model *base)
{
    mae *m = base->self;
    m->base = base;
    const qkv__patches_kind kind = {.sinusoids = true, .dropout_id = TRUNK_DROPOUT_IDS};
    m->c = base->config;
    qkv_status status = mae_complete(m);
    if (!status)
        status = qkv__patches_make(&m->trunk, base->params, &m->c->trunk, kind);
    return status ? status : make_decoder(m);
}

/* The trunk's and the decoder's blocks'. */
static double mae_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_mae_config *c = config;
    double d = (double)c->decoder_width;
    double ff = c->decoder_ff_width ? (double)c->decoder_ff_width : 4 * d;
    (void)type;
    return qkv__patches_parameters(&c->trunk) + (double)c->decoder_layers *
 (4 * d * d + 2 * d * ff);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Small weights at the end: training begins with the mean colour everywhere, not with noise. */
static qkv_status mae_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    mae *m = base->self;
    double std = m->decoder.init_range;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    snprintf(v.name, sizeof v.name, "decoder.");
    qkv__visit_positions(&v, "mask_token", m->mask, 3, std);
    qkv__visit_positions(&v, "decoder_pos_embed", m->positions, 3, std);
    qkv__visit_linear_layer(&v, "decoder_embed", &m->into, m->c->trunk.init_range);
    for (size_t i = 0; i < m->decoder.layers; i++) {
        snprintf(v.name, sizeof v.name, "decoder.decoder_layers.%zu.", i);
        qkv__patches_visit_block(&v, &qkv__vit_family, m->stack.blocks[i], &m->decoder);
    }
    snprintf(v.name, sizeof v.name, "decoder.");
    qkv__visit_norm(&v, "decoder_norm", m->stack.norm_weight, m->stack.norm_bias,
                    m->decoder.width);
    qkv__visit_linear_layer(&v, "decoder_pred", &m->pred, LAST * std);
    return v.status;
}

/* ---- which patches are seen --------------------------------------------------------------- */

size_t qkv_mae_kept(size_t count, double ratio)
{
    size_t kept = (size_t)((double)count * (1 - ratio));
    return kept < 1 ? 1 : kept < count ? kept : count;
}

void qkv_mae_order(int32_t *order, const qkv_real *noise, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && noise[order[at - 1]] > noise[i]; at--)
            order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
}

void qkv_mae_shuffle(int32_t *order, size_t count, uint64_t seed, uint64_t sample)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64("mae", 3) + sample);
    for (size_t i = 0; i < count; i++) {
        size_t at = qkv_rng_below(&r, (uint32_t)(i + 1));
        order[i] = order[at];
        order[at] = (int32_t)i;
    }
}

static bool masks_fit(const mae *m, qkv_tape *t, const qkv_tensor *x, const qkv_mae_masks *masks)
{
    if (!x || qkv_tape_status(t))
        return false;
    bool fit = masks->images == qkv_dim(x, 0) && masks->patches == mae_patches(m) &&
               masks->kept >= 1 && masks->kept <= masks->patches;
    for (size_t i = 0; fit && i < masks->images * masks->patches; i++)
        fit = masks->order[i] >= 0 && (size_t)masks->order[i] < masks->patches;
    if (!fit)
        qkv__op_fail(t, "masks", "masks of %zu images, %zu of %zu patches seen, do not fit %s: "
                     "%zu patches expected", masks->images, masks->kept, masks->patches,
                     qkv__shape_text(t, x), mae_patches(m));
    return fit;
}

/* i32 (images, to - from): the rows of those patches where every image has `stride` rows. */
static qkv_tensor *patch_rows(qkv_tape *t, const qkv_mae_masks *masks, size_t from, size_t to,
                              size_t stride, size_t first)
{
    size_t shape[] = {masks->images, to - from}, n = 0;
    int32_t *ids = qkv__step_alloc(t, (shape[0] * shape[1] + 1) * sizeof *ids);
    for (size_t b = 0; ids && b < masks->images; b++)
        for (size_t i = from; i < to; i++)
            ids[n++] = (int32_t)(b * stride + first) + masks->order[b * masks->patches + i];
    return ids ? qkv_tensor_ids(t, ids, 2, shape) : NULL;
}

/* Rows of x (.., width) -> ids' shape and width. */
static qkv_tensor *pick(qkv_tape *t, qkv_tensor *x, qkv_tensor *ids)
{
    if (!x || !ids)
        return NULL;
    size_t width = qkv_dim(x, -1), shape[] = {qkv_count(x) / width, width};
    return qkv_embedding(t, ids, qkv_reshape(t, x, 2, shape), 1, NULL, NULL);
}

/* ---- forward ------------------------------------------------------------------------------ */

qkv_tensor *qkv_mae_embed(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const mae *m = qkv__model_as(base, t, __func__, QKV_CAN_RECONSTRUCT);
    return m ? qkv__patches_embed(&m->trunk, t, pixels) : NULL;
}

qkv_tensor *qkv_mae_encode(qkv_model *base, qkv_tape *t, qkv_tensor *pixels,
                           const qkv_mae_masks *masks)
{
    mae *m = qkv__model_as(base, t, __func__, QKV_CAN_RECONSTRUCT);
    qkv_tensor *x = m ? qkv__patches_embed(&m->trunk, t, qkv_probe(t, "pixels", pixels)) : NULL;
    if (!x)
        return NULL;
    size_t patch = m->c->trunk.patch;
    x = qkv__patches_place(&m->trunk, t, x, qkv_dim(pixels, 1) / patch, qkv_dim(pixels, 2) / patch);
    if (!masks_fit(m, t, x, masks))
        return NULL;
    if (qkv_dim(x, 1) != masks->patches)
        return qkv__op_fail(t, "masks", "masks of %zu patches do not fit %s", masks->patches,
                            qkv__shape_text(t, x));
    x = pick(t, x, patch_rows(t, masks, 0, masks->kept, masks->patches, 0));
    return qkv__patches_encode(&m->trunk, t, qkv__patches_begin(&m->trunk, t, x));
}

/* For every place of the decoder the row of its token: those of each image in the encoder's
 * order, and after all of them the one that stands for hidden patches. And its position. */
static bool decoder_rows(qkv_tape *t, const qkv_mae_masks *masks, qkv_tensor **ids,
                         qkv_tensor **positions)
{
    size_t L = masks->patches, shape[] = {masks->images, 1 + L}, rows = 1 + masks->kept;
    int32_t *id = qkv__step_alloc(t, shape[0] * shape[1] * sizeof *id);
    int32_t *position = qkv__step_alloc(t, shape[0] * shape[1] * sizeof *position);
    if (!id || !position)
        return false;
    for (size_t b = 0; b < shape[0]; b++) {
        const int32_t *order = masks->order + b * L;
        int32_t *row = id + b * shape[1];
        row[0] = (int32_t)(b * rows);
        for (size_t i = 0; i < L; i++)
            row[1 + order[i]] = (int32_t)(i < masks->kept ? b * rows + 1 + i : shape[0] * rows);
        for (size_t i = 0; i <= L; i++)
            position[b * shape[1] + i] = (int32_t)i;
    }
    *ids = qkv_tensor_ids(t, id, 2, shape);
    *positions = qkv_tensor_ids(t, position, 2, shape);
    return *ids && *positions;
}

qkv_tensor *qkv_mae_decode(qkv_model *base, qkv_tape *t, qkv_tensor *encoded,
                           const qkv_mae_masks *masks)
{
    mae *m = qkv__model_as(base, t, __func__, QKV_CAN_RECONSTRUCT);
    qkv_tensor *ids, *positions;
    if (!m || !masks_fit(m, t, encoded, masks))
        return NULL;
    qkv_tensor *x = qkv_linear_forward(&m->into, t, encoded, QKV_ACT_NONE);
    if (!x || !decoder_rows(t, masks, &ids, &positions))
        return NULL;
    size_t shape[] = {qkv_dim(x, 0) * qkv_dim(x, 1), m->decoder.width};
    qkv_tensor *parts[] = {qkv_reshape(t, x, 2, shape), qkv_use(t, m->mask)};
    x = qkv_embedding(t, ids, qkv_concat(t, 0, 2, parts), 1, positions, qkv_use(t, m->positions));
    return qkv__stack_forward(&m->stack, t, x, &(qkv_sequence){0}, NULL);
}

qkv_tensor *qkv_mae_patches(qkv_model *base, qkv_tape *t, qkv_tensor *decoded)
{
    const mae *m = qkv__model_as(base, t, __func__, QKV_CAN_RECONSTRUCT);
    if (!m || !decoded)
        return NULL;
    return qkv_linear_forward(&m->pred, t, qkv_slice(t, decoded, 1, 1, qkv_dim(decoded, 1)),
                              QKV_ACT_NONE);
}

qkv_tensor *qkv_mae_targets(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const mae *m = qkv__model_as(base, t, __func__, QKV_CAN_RECONSTRUCT);
    if (!m || !pixels || qkv_tape_status(t))
        return NULL;
    const qkv_patches_config *c = &m->c->trunk;
    if (qkv_ndim(pixels) != 4 || qkv_dim(pixels, 1) != c->image ||
        qkv_dim(pixels, 2) != c->image || qkv_dim(pixels, 3) != c->channels)
        return qkv__op_fail(t, "targets", "images %s: %zu x %zu x %zu expected",
                            qkv__shape_text(t, pixels), c->image, c->image, c->channels);
    qkv_tensor *x = qkv_patchify(t, pixels, c->patch);
    if (!m->c->norm_pix)
        return x;
    double n = (double)mae_patch_parameters(m), share = n > 1 ? (n - 1) / n : 1;
    return qkv_scale(t, qkv_norm(t, QKV_NORM_LAYER, x, NULL, NULL, PATCH_EPS * share),
                     sqrt(share));
}

qkv_tensor *qkv_mae_loss(qkv_model *base, qkv_tape *t, qkv_tensor *decoded, qkv_tensor *pixels,
                         const qkv_mae_masks *masks)
{
    mae *m = qkv__model_as(base, t, __func__, QKV_CAN_RECONSTRUCT);
    if (!m || !decoded || !masks_fit(m, t, decoded, masks))
        return NULL;
    if (masks->kept == masks->patches)
        return qkv_scale(t, qkv_mean(t, decoded), 0);
    size_t from = masks->kept, L = masks->patches;
    qkv_tensor *x = pick(t, decoded, patch_rows(t, masks, from, L, 1 + L, 1));
    qkv_tensor *y = qkv_mae_targets(base, t, pixels);
    return qkv_mse_loss(t, qkv_linear_forward(&m->pred, t, x, QKV_ACT_NONE),
                        pick(t, y, patch_rows(t, masks, from, L, L, 0)));
}

static double mae_flops(const qkv_model *base, const qkv_workload *w)
{
    const mae *m = base->self;
    const qkv_patches_config *c = &m->c->trunk;
    int passes = qkv__passes(w->pass);
    double B = w->samples, d = (double)m->decoder.width;
    size_t L = mae_patches(m), kept = qkv_mae_kept(L, m->c->mask_ratio);
    double into = B * (double)(1 + kept) * (double)c->width * d;
    double out = B * (double)(L - kept) * d * (double)mae_patch_parameters(m);
    return qkv__patches_embed_flops(c, passes, B * (double)L) +
           qkv__flops(w->pass, into + out, 0) +
           qkv__patches_stack_flops(c, passes, B, 1 + kept) +
           qkv__patches_stack_flops(&m->decoder, passes, B, 1 + L);
}

static const qkv_builtin_type builtin = {.can = QKV_CAN_RECONSTRUCT};

static const qkv_model_type mae_type = {
    .name = "vit_mae", .architecture = "ViTMAEForPreTraining", .config = &qkv__mae_config,
    .config_size = sizeof(qkv_mae_config), .self_size = sizeof(mae),
    .parameter_count = mae_parameter_count,
    .make = mae_make, .visit = mae_visit, .flops = mae_flops, .preset = qkv__mae_preset,
    .builtin = &builtin};

const qkv_model_type *qkv_mae_type(void) { return &mae_type; }
