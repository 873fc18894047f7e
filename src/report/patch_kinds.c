/* patch_kinds.c - where models of texts, of codes in sequence and of series answer, for activation
 * patching: their outputs at one place, for many sequences at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/looking.h"
#include "qkv/bert.h"
#include "qkv/forecast.h"
#include "qkv/gpt.h"
#include "qkv/marian.h"
#include "qkv/series.h"
#include "qkv/vqgan.h"

const qkv__patch_layers qkv__patch_blocks = {
    .before = ".*.resid_pre", .behind = ".*.resid_post", .place = ".*.", .usual = "resid_pre"};

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

static qkv_status token_choice(const qkv__looking *l, const char *flag, const char *text,
                               size_t choices, size_t *choice)
{
    qkv_context *ctx = l->p->ctx;
    qkv_ids ids = {0};
    qkv_status status = qkv_tokenizer_encode(l->p->tokenizer, text, strlen(text), 0, &ids);
    if (!status && !ids.count)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: \"%.60s\" has no tokens", flag, text);
    *choice = status ? 0 : (size_t)ids.data[0];
    qkv_ids_free(&ids, ctx);
    if (!status && *choice >= choices)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: the model does not predict \"%.60s\"", flag,
                          text);
    return status;
}

static char *token_name(const qkv__looking *l, size_t choice)
{
    return qkv__look_token_text(l->p, (int32_t)choice);
}

char *qkv__patch_class_name(const qkv__looking *l, size_t choice)
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
    if (!x)
        return NULL;
    if (l->from) {
        qkv_lm_cache_truncate(l->cache, l->from);
        x = qkv_contiguous(t, qkv_slice(t, x, 1, l->from, l->ids[0].count));
    }
    qkv_tensor *h = qkv_lm_hidden(m, t, x, 0, NULL, l->from ? l->cache : NULL);
    return qkv_lm_logits(m, t, qkv__look_at(l, h, at < 0 ? at : at - (int)l->from));
}

const qkv__patch_kind qkv__patch_lm = {
    .place = "token", .places = token_places, .usual = last_token_place,
    .begin = lm_begin_at, .outputs = lm_outputs, .choice = token_choice, .name = token_name};

/* ---- priors ---------------------------------------------------------------------------------- */

static size_t code_places(const qkv__looking *l, size_t *columns)
{
    *columns = l->p->codecs.columns;
    return l->p->codecs.rows * l->p->codecs.columns;
}

/* The token before a code predicts it. */
static size_t code_position(const qkv__looking *l, size_t place)
{
    return l->p->codecs.before - 1 + place;
}

/* Logits of the codes alone; the vocabulary may have other tokens. */
static qkv_tensor *prior_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_tape *t = l->p->tape;
    size_t first = code_position(l, 0), columns;
    qkv_tensor *y = lm_outputs(l, n, at < 0 ? at : at + (int)first);
    if (y && at < 0)
        y = qkv_slice(t, y, 1, first, first + code_places(l, &columns));
    return !y ? NULL : qkv_slice(t, y, 2, 0, qkv__codec_config(l->p->codecs.vqgan)->codes);
}

/* "17", or "code 17" as they are named. */
static qkv_status code_choice(const qkv__looking *l, const char *flag, const char *text,
                              size_t choices, size_t *choice)
{
    static const char prefix[] = "code ";
    const char *number = text;
    char *end;
    if (strncmp(text, prefix, sizeof prefix - 1) == 0)
        number += sizeof prefix - 1;
    *choice = strtoul(number, &end, 10);
    if (*number < '0' || *number > '9' || *end || *choice >= choices)
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: a code below %zu expected, found "
                        "\"%.60s\"", flag, choices, text);
    return QKV_OK;
}

static char *code_name(const qkv__looking *l, size_t choice)
{
    return l->kind->word(l, (int32_t)choice);
}

const qkv__patch_kind qkv__patch_prior = {
    .place = "place", .places = code_places, .position = code_position, .begin = lm_begin_at,
    .outputs = prior_outputs, .choice = code_choice, .name = code_name};

/* ---- texts that are read whole --------------------------------------------------------------- */

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
    .place = "token", .places = token_places, .usual = mask_place,
    .outputs = word_outputs, .choice = token_choice, .name = token_name};

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

const qkv__patch_kind qkv__patch_text_classes = {
    .outputs = text_class_outputs, .name = qkv__patch_class_name};

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
    .place = "target token", .places = target_places,
    .outputs = translator_outputs, .choice = token_choice, .name = token_name};

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
static qkv_status share_target(qkv__looking *clean, qkv__looking *corrupt,
                               const qkv_pipeline_patch_options *o)
{
    const qkv_forecast_config *c = forecast_config_of(clean);
    (void)o;
    memcpy(corrupt->target, clean->target, c->horizon * c->targets * sizeof *clean->target);
    return QKV_OK;
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

/* Encoders of series pack them. */
static const qkv__patch_layers packed_blocks = {
    .before = ".*.resid_pre", .behind = ".*.resid_post", .place = ".*.", .usual = "resid_pre",
    .packed = true};

/* n copies of the window; *windows and *lengths, (n), are to be freed. */
static bool copy_windows(const qkv__looking *l, size_t n, const qkv_real ***windows,
                         size_t **lengths)
{
    *windows = qkv_calloc(l->p->ctx, n, sizeof **windows);
    *lengths = qkv_calloc(l->p->ctx, n, sizeof **lengths);
    for (size_t i = 0; *windows && *lengths && i < n; i++) {
        (*windows)[i] = l->window;
        (*lengths)[i] = l->out->series.read;
    }
    return *windows && *lengths;
}

/* What a model of series makes of n copies of the window. */
typedef qkv_tensor *series_fn(qkv_model *m, qkv_tape *t, const qkv_series_batch *in);
static qkv_tensor *series_outputs(const qkv__looking *l, size_t n, series_fn *outputs)
{
    const qkv_real **windows;
    size_t *lengths;
    bool copied = copy_windows(l, n, &windows, &lengths);
    const qkv_series_batch in = {.data = windows, .lengths = lengths, .count = n};
    qkv_tensor *y = copied ? outputs(l->p->model, l->p->tape, &in) : NULL;
    qkv_free(l->p->ctx, windows);
    qkv_free(l->p->ctx, lengths);
    return y;
}

static size_t filled_places(const qkv__looking *l, size_t *columns)
{
    *columns = 0;
    return l->out->series.read;
}

/* Where something is missing. */
static bool fills_row(const qkv__looking *l, size_t at)
{
    size_t columns = l->out->series.columns;
    for (size_t i = 0; i < columns; i++)
        if (!isfinite(l->window[at * columns + i]))
            return true;
    return false;
}

/* Rows in the units of the series, those of a last patch that is not full left out. */
static qkv_tensor *filler_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_tape *t = l->p->tape;
    size_t columns = l->out->series.columns, read = l->out->series.read;
    qkv_tensor *y = series_outputs(l, n, qkv_series_fill);
    if (!y)
        return NULL;
    const size_t shape[] = {n, qkv_dim(y, 0) / n, columns};
    y = qkv_slice(t, qkv_reshape(t, y, 3, shape), 1, 0, read);
    y = qkv_mul(t, y, qkv_tensor_from(t, qkv_series_std(l->p->model), 1, &columns));
    return qkv__look_at(l, qkv_add(t, y, qkv_tensor_from(t, qkv_series_mean(l->p->model), 1,
                                                         &columns)), at);
}

const qkv__patch_kind qkv__patch_filler = {
    .layers = &packed_blocks, .numbers = true, .place = "row", .places = filled_places,
    .answers = fills_row, .outputs = filler_outputs, .name = column_name};

static qkv_tensor *series_class_outputs(qkv__looking *l, size_t n, int at)
{
    (void)at;
    return series_outputs(l, n, qkv_series_class_logits);
}

const qkv__patch_kind qkv__patch_series_classes = {
    .layers = &packed_blocks, .outputs = series_class_outputs, .name = qkv__patch_class_name};
