/* series.c - looking inside models of series: forecasters, fillers of gaps. */
#include "report/looking.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/series.h"
#include "pipeline/series_set.h"
#include "qkv/infer.h"

/* ---- the rows -------------------------------------------------------------------------------- */

typedef qkv_status load_fn(qkv_array *out, const qkv_model *m, const char *path);

static qkv_status look_read_rows(const qkv__looking *l, size_t columns, load_fn *load,
                                 qkv_array *own, const qkv_array **rows)
{
    *rows = l->in->rows ? l->in->rows : own;
    if (l->in->rows && (l->in->rows->ndim != 2 || l->in->rows->shape[1] != columns))
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "a series of (rows, %zu) expected, found %d "
                        "dimensions, the second of %zu", columns, l->in->rows->ndim,
                        l->in->rows->ndim > 1 ? l->in->rows->shape[1] : 0);
    if (l->in->rows)
        return QKV_OK;
    if (!l->in->series)
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: a %s model reads a series: none was given",
                        l->p->dir, l->out->kind);
    return load(own, l->p->model, l->in->series);
}

qkv_status qkv__look_sample_rows(const qkv_pipeline *p, qkv_array *out)
{
    const qkv_forecast_config *f = qkv_model_config(p->model);
    const qkv_series_config *c = qkv_model_config(p->model);
    *out = (qkv_array){0};
    if (qkv_model_can(p->model, QKV_CAN_FORECAST))
        return qkv__series_make(out, p->ctx, f->context, f->columns, NULL);
    if (qkv_model_can(p->model, QKV_CAN_FILL_SERIES | QKV_CAN_CLASSIFY_SERIES))
        return qkv__series_make(out, p->ctx, c->rows, c->columns, NULL);
    return QKV_OK;
}

static qkv_status copy_names(qkv__looking *l, char *const *names)
{
    qkv_look_series *s = &l->out->series;
    s->names = names ? qkv_calloc(l->p->ctx, s->columns, sizeof *s->names) : NULL;
    for (size_t i = 0; s->names && i < s->columns; i++)
        if (!(s->names[i] = qkv_strdup(l->p->ctx, names[i])))
            return QKV_E_MEMORY;
    return s->names || !names ? QKV_OK : QKV_E_MEMORY;
}

/* l->window, and the arrays of l->out->series, whose sizes are set, from row s->first on. Answers
 * are still to come. */
static qkv_status take_series_rows(qkv__looking *l, const qkv_array *rows)
{
    qkv_look_series *s = &l->out->series;
    size_t n = s->read + s->made, C = s->columns;
    s->values = qkv_calloc(l->p->ctx, n * C, sizeof *s->values);
    s->answers = qkv_calloc(l->p->ctx, n * s->targets + 1, sizeof *s->answers);
    l->window = qkv_calloc(l->p->ctx, s->read * C, sizeof *l->window);
    if (!s->values || !s->answers || !l->window)
        return QKV_E_MEMORY;
    memcpy(l->window, rows->data + s->first * C, s->read * C * sizeof *l->window);
    for (size_t i = 0; i < n * C; i++)
        s->values[i] = s->first * C + i < rows->count ? (float)rows->data[s->first * C + i] : NAN;
    for (size_t i = 0; i < n * s->targets; i++)
        s->answers[i] = NAN;
    return copy_names(l, rows->names);
}

/* The window before the rows that are held back, and what is known behind it. */
static qkv_status take_window(qkv__looking *l, const qkv_array *rows)
{
    const qkv_forecast_config *c = qkv_model_config(l->p->model);
    size_t held = l->o.hold_back, all = rows->shape[0];
    if (held > all || all - held < c->context)
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: the model forecasts from %zu rows, found "
                        "%zu, of which %zu are held back", l->in->rows ? "rows" : l->in->series,
                        c->context, all, held);
    l->out->series = (qkv_look_series){.columns = c->columns, .targets = c->targets,
                                       .first = all - held - c->context, .read = c->context,
                                       .made = c->horizon};
    return take_series_rows(l, rows);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* The forecast, in the model's scale and in the series'. */
static qkv_status make_forecast(qkv__looking *l)
{
    qkv_model *m = l->p->model;
    qkv_tape *t = l->p->tape;
    const qkv_forecast_config *c = qkv_model_config(m);
    const qkv_real *mean = qkv_forecast_mean(m), *std = qkv_forecast_std(m), *window = l->window;
    size_t n = c->horizon * c->targets;
    float *out = l->out->series.answers + c->context * c->targets;
    l->target = qkv_calloc(l->p->ctx, n, sizeof *l->target);
    if (!l->target)
        return QKV_E_MEMORY;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    const qkv_real *y = qkv_data(t, qkv_forecast_forward(m, t, &window, 1));
    for (size_t i = 0; i < n && y; i++) {
        l->target[i] = y[i];
        out[i] = (float)(y[i] * std[i % c->targets] + mean[i % c->targets]);
    }
    return qkv_tape_status(t);
}

static qkv_status prepare_forecaster(qkv__looking *l)
{
    qkv_array own = {0};
    const qkv_array *rows;
    const qkv_forecast_config *c = qkv_model_config(l->p->model);
    qkv_status status = look_read_rows(l, c->columns, qkv__series_load, &own, &rows);
    if (!status)
        status = take_window(l, rows);
    qkv_array_free(&own);
    if (!status)
        status = make_forecast(l);
    l->causal[1] = c->causal;
    if (!status)
        status = qkv__look_steps(l, 0, "steps read", 0, c->patch, c->context / c->patch);
    if (!status && c->decoder_layers)
        status = qkv__look_steps(l, 1, "steps forecast", c->context, c->patch,
                                 (c->horizon + c->patch - 1) / c->patch);
    return status;
}

/* A causal decoder reads its own forecasts, all in one pass: what it computes is what it computed
 * token after token. */
static qkv_status run_forecaster(qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    const qkv_forecast_config *c = qkv_model_config(l->p->model);
    const qkv_real *window = l->window;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *target = qkv_tensor_from(t, l->target, 3, (size_t[]){1, c->horizon, c->targets});
    (void)qkv_forecast_forced(l->p->model, t, &window, target, 1);
    return qkv_tape_status(t);
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Mean squared errors of the forecast and of the last row again, where the truth is known. */
static qkv_status add_forecast_panel(qkv__looking *l)
{
    const qkv_look_series *s = &l->out->series;
    double own = 0, last = 0;
    size_t known = 0;
    for (size_t i = s->read; i < s->read + s->made; i++)
        for (size_t j = 0; j < s->targets; j++) {
            double truth = (double)s->values[i * s->columns + j];
            if (!isfinite(truth))
                continue;
            double e = (double)s->answers[i * s->targets + j] - truth;
            double p = (double)s->values[(s->read - 1) * s->columns + j] - truth;
            own += e * e;
            last += p * p;
            known++;
        }
    qkv_json_writer w;
    qkv_json_writer_init(&w, l->p->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "known", (int64_t)known);
    if (known) {
        qkv_json_put_real(&w, "mse", own / (double)known);
        qkv_json_put_real(&w, "persistence", last / (double)known);
    }
    qkv_json_end_object(&w);
    char note[256] = "The rows that were read and the forecast. The truth is not known: --hold-"
                     "back keeps rows of the end for it.";
    if (known)
        (void)snprintf(note, sizeof note, "Mean squared error over the %zu values that are known: "
                       "%.4g; of the last row again %.4g.", known, own / (double)known,
                       last / (double)known);
    qkv_drawing *d;
    const qkv_look_axis none = {0};
    qkv_status status = qkv__look_draw_row(l->out, &none, NULL, "Forecast", &d);
    if (!status)
        return qkv__look_add_panel(l, "forecast", "Forecast", note, d, &w);
    qkv_json_writer_free(&w);
    return status;
}

static qkv_status add_forecaster_panels(qkv__looking *l)
{
    qkv_status status = add_forecast_panel(l);
    return status ? status : qkv__look_effects(l);
}

const qkv__look_kind qkv__look_forecaster = {
    .can = QKV_CAN_FORECAST,
    .attentions = {{"encoder", "attn", 0, 0, false}, {"decoder", "attn", 1, 1, false},
                   {"decoder", "cross", 1, 0, false}},
    .prepare = prepare_forecaster, .run = run_forecaster, .panels = add_forecaster_panels,
    .patch = &qkv__patch_forecaster};

/* ---- fillers --------------------------------------------------------------------------------- */

/* The last rows, as many as the model reads; answers are what is missing in them. */
static qkv_status prepare_filler(qkv__looking *l)
{
    qkv_array own = {0};
    const qkv_array *rows;
    const qkv_series_config *c = qkv_model_config(l->p->model);
    qkv_look_series *s = &l->out->series;
    qkv_status status = look_read_rows(l, c->columns, qkv__series_load, &own, &rows);
    if (!status) {
        size_t all = rows->shape[0], read = all < c->rows ? all : c->rows;
        *s = (qkv_look_series){.columns = c->columns, .targets = c->columns, .first = all - read,
                               .read = read};
        status = take_series_rows(l, rows);
    }
    qkv_array_free(&own);
    qkv_real *filled = status ? NULL : qkv_calloc(l->p->ctx, s->read * s->columns, sizeof *filled);
    const qkv_series window = {l->window, s->read, s->columns};
    if (!status)
        status = filled ? qkv_fill_series(l->p->model, &window, filled) : QKV_E_MEMORY;
    for (size_t i = 0; i < s->read * s->columns && !status; i++)
        if (!isfinite(l->window[i]))
            s->answers[i] = (float)filled[i];
    qkv_free(l->p->ctx, filled);
    return status ? status : qkv__look_steps(l, 0, "steps", 0, c->patch,
                                             qkv_series_tokens(c, s->read));
}

static qkv_status run_encoder(qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    const qkv_real *window = l->window;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    const qkv_series_batch in = {.data = &window, .lengths = &l->out->series.read, .count = 1};
    (void)qkv_series_hidden(l->p->model, t, &in);
    return qkv_tape_status(t);
}

const qkv__look_kind qkv__look_filler = {
    .can = QKV_CAN_FILL_SERIES, .attentions = {{"encoder", "attn", 0, 0, false}},
    .prepare = prepare_filler, .run = run_encoder, .patch = &qkv__patch_filler};

/* ---- classifiers ----------------------------------------------------------------------------- */

/* The first series of a file as one with a row a step, for look_read_rows. */
static qkv_status load_first(qkv_array *out, const qkv_model *m, const char *path)
{
    qkv__series_file file;
    const qkv_series_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_array){0};
    qkv_status status = qkv__series_file_load(&file, ctx, path, false, c->columns, c->rows, NULL,
                                              0);
    if (!status)
        status = qkv__series_make(out, ctx, file.set.start[1], c->columns, NULL);
    if (!status)
        memcpy(out->data, file.data, out->count * sizeof *out->data);
    qkv__series_file_free(&file);
    return status;
}

static qkv_status prepare_series_classes(qkv__looking *l)
{
    qkv_array own = {0};
    const qkv_array *rows;
    const qkv_series_config *c = qkv_model_config(l->p->model);
    qkv_look_series *s = &l->out->series;
    qkv_status status = look_read_rows(l, c->columns, load_first, &own, &rows);
    if (!status) {
        *s = (qkv_look_series){.columns = c->columns,
                               .read = rows->shape[0] < c->rows ? rows->shape[0] : c->rows};
        status = take_series_rows(l, rows);
    }
    qkv_array_free(&own);
    return status ? status : qkv__look_steps(l, 0, "steps", 0, c->patch,
                                             qkv_series_tokens(c, s->read));
}

static qkv_status run_series_classes(qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    const qkv_real *window = l->window;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    const qkv_series_batch in = {.data = &window, .lengths = &l->out->series.read, .count = 1};
    qkv_tensor *y = qkv_softmax(t, qkv_series_class_logits(l->p->model, t, &in));
    const qkv_real *p = qkv_data(t, y);
    return p ? qkv__look_classes(l, p, qkv_dim(y, -1)) : qkv_tape_status(t);
}

const qkv__look_kind qkv__look_series_classes = {
    .can = QKV_CAN_CLASSIFY_SERIES, .attentions = {{"encoder", "attn", 0, 0, false}},
    .prepare = prepare_series_classes, .run = run_series_classes,
    .patch = &qkv__patch_series_classes};
