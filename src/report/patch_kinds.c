/* patch_kinds.c - where each kind of model answers, for activation patching: its outputs at
 * one place, for many sequences at once. */
#include <stdio.h>
#include <string.h>

#include "report/looking.h"
#include "qkv/bert.h"
#include "qkv/forecast.h"
#include "qkv/gpt.h"
#include "qkv/mae.h"
#include "qkv/marian.h"
#include "qkv/pixelwise.h"
#include "qkv/vit.h"

qkv_tensor *qkv__look_ids(const qkv__looking *l, size_t axis, size_t n)
{
    const qkv_ids *ids = &l->ids[axis];
    int32_t *all = n == 1 ? NULL : qkv_malloc(l->p->ctx, n * ids->count * sizeof *all);
    if (n > 1 && !all)
        return NULL;
    for (size_t i = 0; all && i < n * ids->count; i++)
        all[i] = ids->data[i % ids->count];
    qkv_tensor *x = qkv_tensor_ids(l->p->tape, all ? all : ids->data, 2,
                                   (size_t[]){n, ids->count});
    qkv_free(l->p->ctx, all);
    return x;
}

qkv_tensor *qkv__look_at(qkv__looking *l, qkv_tensor *hidden, int at)
{
    if (!hidden || at == QKV__EVERYWHERE)
        return hidden;
    hidden = qkv_slice(l->p->tape, hidden, 1, (size_t)at, (size_t)at + 1);
    return qkv_contiguous(l->p->tape, hidden);
}

/* Rows 0 .. count - 1 of hidden's, each `stride` after the one before. */
static qkv_tensor *every_row(const qkv__looking *l, size_t count, size_t stride)
{
    int32_t *rows = qkv_malloc(l->p->ctx, (count + 1) * sizeof *rows);
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = (int32_t)(i * stride);
    qkv_tensor *x = rows ? qkv_tensor_ids(l->p->tape, rows, 1, &count) : NULL;
    qkv_free(l->p->ctx, rows);
    return x;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static size_t token_places(const qkv__looking *l, size_t *columns)
{
    *columns = 0;
    return l->ids[0].count;
}

static char *token_name(const qkv__looking *l, size_t choice)
{
    return qkv__look_token_text(l->p, (int32_t)choice);
}

static char *class_name(const qkv__looking *l, size_t choice)
{
    return qkv_strdup(l->p->ctx, qkv_pipeline_label(l->p, choice));
}

static qkv_status last_token_place(const qkv__looking *clean, const qkv__looking *corrupt,
                                   size_t *at)
{
    (void)corrupt;
    *at = clean->ids[0].count - 1;
    return QKV_OK;
}

/* The cache has keys and values of the input's positions before l->from, n times; those of the
 * passes before are taken off. */
static qkv_status lm_begin_at(qkv__looking *l, size_t from, size_t n)
{
    qkv_tape *t = l->p->tape;
    size_t before = l->from, count = from - before;
    size_t *zeros = qkv_calloc(l->p->ctx, n + 1, sizeof *zeros);
    qkv_status status = zeros ? QKV_OK : QKV_E_MEMORY;
    l->from = from;
    if (!status && from && !l->cache)
        status = qkv_lm_cache_create(&l->cache, l->p->model, n, l->ids[0].count);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    if (!status && from && qkv_lm_cache_select(t, l->cache, zeros, 1)) {
        qkv_lm_cache_truncate(l->cache, before);
        qkv_tensor *x = qkv_tensor_ids(t, l->ids[0].data + before, 2, (size_t[]){1, count});
        if (qkv_lm_hidden(l->p->model, t, x, 0, NULL, l->cache))
            (void)qkv_lm_cache_select(t, l->cache, zeros, n);
    }
    qkv_free(l->p->ctx, zeros);
    return status ? status : qkv_tape_status(t);
}

static qkv_tensor *lm_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_model *m = l->p->model;
    qkv_tape *t = l->p->tape;
    qkv_tensor *x = qkv__look_ids(l, 0, n);
    if (l->from && x) {
        qkv_lm_cache_truncate(l->cache, l->from);
        x = qkv_contiguous(t, qkv_slice(t, x, 1, l->from, l->ids[0].count));
    }
    qkv_tensor *h = qkv_lm_hidden(m, t, x, 0, NULL, l->from ? l->cache : NULL);
    return qkv_lm_logits(m, t, qkv__look_at(l, h, at < 0 ? at : at - (int)l->from));
}

const qkv__patch_kind qkv__patch_lm = {
    .tokens = true, .place = "token", .places = token_places, .usual = last_token_place,
    .begin = lm_begin_at, .outputs = lm_outputs, .name = token_name};

/* The mask that both texts have. */
static qkv_status mask_place(const qkv__looking *clean, const qkv__looking *corrupt, size_t *at)
{
    int32_t mask = qkv_tokenizer_special(clean->p->tokenizer, QKV_TOKEN_MASK);
    for (*at = 0; *at < clean->ids[0].count; ++*at)
        if (clean->ids[0].data[*at] == mask && corrupt->ids[0].data[*at] == mask)
            return QKV_OK;
    return qkv_fail(clean->p->ctx, QKV_E_ARGUMENT, "the texts have no common mask token: --at "
                    "expected");
}

static qkv_tensor *word_outputs(qkv__looking *l, size_t n, int at)
{
    const qkv_bert_input in = {.ids = qkv__look_ids(l, 0, n)};
    if (!in.ids)
        return NULL;
    qkv_tensor *h = qkv__look_at(l, qkv_bert_hidden(l->p->model, l->p->tape, &in), at);
    size_t rows = h ? qkv_dim(h, 0) * qkv_dim(h, 1) : 0;
    return qkv_bert_word_logits(l->p->model, l->p->tape, h, every_row(l, rows, 1));
}

const qkv__patch_kind qkv__patch_words = {
    .tokens = true, .place = "token", .places = token_places, .usual = mask_place,
    .outputs = word_outputs, .name = token_name};

static qkv_tensor *text_class_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_bert_input in = {.ids = qkv__look_ids(l, 0, n)};
    (void)at;
    if (l->ids[1].count)
        in.segments = qkv__look_ids(l, 1, n);
    if (!in.ids || (l->ids[1].count && !in.segments))
        return NULL;
    qkv_tensor *h = qkv_bert_hidden(l->p->model, l->p->tape, &in);
    return qkv_bert_class_logits(l->p->model, l->p->tape, h,
                                 every_row(l, n, l->ids[0].count));
}

const qkv__patch_kind qkv__patch_text_classes = {.outputs = text_class_outputs,
                                                 .name = class_name};

static size_t target_places(const qkv__looking *l, size_t *columns)
{
    *columns = 0;
    return l->ids[1].count;
}

static qkv_tensor *translator_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_tape *t = l->p->tape;
    qkv_model *m = l->p->model;
    const qkv_marian_side source = {.ids = qkv__look_ids(l, 0, n)};
    const qkv_marian_side target = {.ids = qkv__look_ids(l, 1, n)};
    if (!source.ids || !target.ids)
        return NULL;
    qkv_tensor *memory = qkv_marian_encode(m, t, &source);
    qkv_tensor *h = qkv_marian_decode(m, t, &target, memory, &source, NULL);
    return qkv_marian_logits(m, t, qkv__look_at(l, h, at));
}

const qkv__patch_kind qkv__patch_translator = {
    .tokens = true, .place = "target token", .places = target_places,
    .outputs = translator_outputs, .name = token_name};

/* ---- images ---------------------------------------------------------------------------------- */

/* One image for all sequences: what comes before the stacks is not computed again. */
static qkv_tensor *pixels_of(const qkv__looking *l)
{
    return qkv_tensor_from(l->p->tape, l->pixels, 4, l->pixel_shape);
}

static qkv_tensor *image_class_outputs(qkv__looking *l, size_t n, int at)
{
    (void)n;
    (void)at;
    return qkv_vit_logits(l->p->model, l->p->tape, pixels_of(l));
}

const qkv__patch_kind qkv__patch_image_classes = {.outputs = image_class_outputs,
                                                  .name = class_name};

static size_t pixel_places(const qkv__looking *l, size_t *columns)
{
    *columns = l->pixel_shape[2];
    return l->pixel_shape[1] * l->pixel_shape[2];
}

/* Images (n, H, W, channels) -> (n, H W, channels), or their pixel `at`. */
static qkv_tensor *pixel_outputs(qkv__looking *l, qkv_tensor *images, int at)
{
    if (!images)
        return NULL;
    size_t shape[] = {qkv_dim(images, 0), qkv_dim(images, 1) * qkv_dim(images, 2),
                      qkv_dim(images, 3)};
    images = qkv_contiguous(l->p->tape, images);
    return qkv__look_at(l, qkv_reshape(l->p->tape, images, 3, shape), at);
}

static const qkv_mae_config *mae_config_of(const qkv__looking *l)
{
    return qkv_model_config(l->p->model);
}

/* The masks of n copies of the image; order is to be freed. NULL: out of memory. */
static int32_t *mae_masks(const qkv__looking *l, size_t n, qkv_mae_masks *out)
{
    const qkv_patches_config *c = &mae_config_of(l)->trunk;
    size_t side = c->image / c->patch, patches = side * side;
    int32_t *order = qkv_malloc(l->p->ctx, n * patches * sizeof *order);
    for (size_t i = 0; order && i < n; i++)
        qkv_mae_shuffle(order + i * patches, patches, l->o.seed, 0);
    *out = (qkv_mae_masks){n, patches, qkv_mae_kept(patches, l->o.mask), order};
    return order;
}

/* Of a hidden patch: the model has learnt those alone. */
static bool mae_answers(const qkv__looking *l, size_t at)
{
    const qkv_patches_config *c = &mae_config_of(l)->trunk;
    const qkv_look_axis *a = &l->out->axes[0]; /* visible patches */
    size_t cell = at / c->image / c->patch * a->columns + at % c->image / c->patch;
    for (size_t i = a->lead; i < a->count; i++)
        if ((size_t)a->cells[i - a->lead] == cell)
            return a->count - a->lead == a->rows * a->columns; /* none is hidden */
    return true;
}

static qkv_tensor *masked_outputs(qkv__looking *l, size_t n, int at)
{
    const qkv_patches_config *c = &mae_config_of(l)->trunk;
    qkv_tape *t = l->p->tape;
    qkv_model *m = l->p->model;
    qkv_mae_masks one, all;
    int32_t *order = mae_masks(l, 1, &one), *orders = mae_masks(l, n, &all);
    qkv_tensor *y = NULL;
    size_t side = c->image / c->patch;
    if (order && orders)
        y = qkv_mae_patches(m, t, qkv_mae_decode(m, t, qkv_mae_encode(m, t, pixels_of(l), &one),
                                                 &all));
    y = y ? pixel_outputs(l, qkv_unpatchify(t, y, c->patch, side, side), at) : NULL;
    qkv_free(l->p->ctx, order);
    qkv_free(l->p->ctx, orders);
    return y;
}

static char *channel_name(const qkv__looking *l, size_t choice)
{
    static const char *const rgb[] = {"red", "green", "blue"};
    return qkv_strdup(l->p->ctx, l->pixel_shape[3] == 1 ? "grey" : rgb[choice % 3]);
}

const qkv__patch_kind qkv__patch_masked = {
    .numbers = true, .place = "pixel", .places = pixel_places, .answers = mae_answers,
    .outputs = masked_outputs, .name = channel_name};

static qkv_tensor *pixelwise_outputs(qkv__looking *l, size_t n, int at)
{
    (void)n;
    return pixel_outputs(l, qkv_pixelwise_forward(l->p->model, l->p->tape, pixels_of(l)), at);
}

const qkv__patch_kind qkv__patch_segmenter = {
    .place = "pixel", .places = pixel_places, .outputs = pixelwise_outputs, .name = class_name};

static qkv_tensor *color_outputs(qkv__looking *l, size_t n, int at)
{
    enum { AB = 110 }; /* outputs are Lab's a and b divided by it */
    return qkv_scale(l->p->tape, pixelwise_outputs(l, n, at), AB);
}

static char *color_name(const qkv__looking *l, size_t choice)
{
    return qkv_strdup(l->p->ctx, choice ? "b" : "a");
}

const qkv__patch_kind qkv__patch_colorizer = {
    .numbers = true, .place = "pixel", .places = pixel_places, .outputs = color_outputs,
    .name = color_name};

/* ---- series ---------------------------------------------------------------------------------- */

static const qkv_forecast_config *forecast_config_of(const qkv__looking *l)
{
    return qkv_model_config(l->p->model);
}

static size_t row_places(const qkv__looking *l, size_t *columns)
{
    *columns = 0;
    return forecast_config_of(l)->horizon;
}

/* A causal decoder reads the rows that were forecast from the clean series. */
static void share_target(const qkv__looking *clean, qkv__looking *corrupt)
{
    const qkv_forecast_config *c = forecast_config_of(clean);
    memcpy(corrupt->target, clean->target, c->horizon * c->targets * sizeof *clean->target);
}

/* Rows in the units of the series. */
static qkv_tensor *forecast_outputs(qkv__looking *l, size_t n, int at)
{
    const qkv_forecast_config *c = forecast_config_of(l);
    qkv_tape *t = l->p->tape;
    qkv_model *m = l->p->model;
    size_t size = c->horizon * c->targets;
    const qkv_real **windows = qkv_calloc(l->p->ctx, n, sizeof *windows);
    qkv_tensor *target = qkv_tensor_from(t, NULL, 3, (size_t[]){n, c->horizon, c->targets});
    qkv_real *to = qkv_tensor_fill(target);
    for (size_t i = 0; windows && to && i < n; i++) {
        windows[i] = l->window;
        memcpy(to + i * size, l->target, size * sizeof *to);
    }
    qkv_tensor *y = windows && to ? qkv_forecast_forced(m, t, windows, target, n) : NULL;
    qkv_free(l->p->ctx, windows);
    const qkv_real *std = qkv_forecast_std(m), *mean = qkv_forecast_mean(m);
    y = qkv_mul(t, y, qkv_tensor_from(t, std, 1, &c->targets));
    return qkv__look_at(l, qkv_add(t, y, qkv_tensor_from(t, mean, 1, &c->targets)), at);
}

static char *column_name(const qkv__looking *l, size_t choice)
{
    char name[32];
    if (l->out->series.names)
        return qkv_strdup(l->p->ctx, l->out->series.names[choice]);
    (void)snprintf(name, sizeof name, "column %zu", choice);
    return qkv_strdup(l->p->ctx, name);
}

const qkv__patch_kind qkv__patch_forecaster = {
    .numbers = true, .place = "row", .places = row_places, .share = share_target,
    .outputs = forecast_outputs, .name = column_name};
