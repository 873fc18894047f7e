/* forecast.c - `qkv train forecast`: rows of numbers become a forecaster. */
#include <stdio.h>
#include <string.h>

#include "job/name_list.h"
#include "job/run.h"
#include "job/sample.h"
#include "pipeline/run_data.h"
#include "pipeline/series.h"
#include "text/texts.h"
#include "io/file.h"
#include "model/tables.h"
#include "qkv/infer.h"

static const double RATE = 1e-3; /* when none is given */
enum { SHOWN = 24 };             /* rows of a sample */

typedef struct {
    const char *data, *valid, *valid_last, *columns, *target;
    bool decoder;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(data),
     .value = "CSV", .help = "rows of numbers, the oldest first"},
    {.flag = "columns", .type = QKV_OPT_STRING, FIELD(columns), .value = "A,B",
     .help = "columns to read, by name or number; else all"},
    {.flag = "target", .type = QKV_OPT_STRING, FIELD(target), .value = "A,B",
     .help = "columns to forecast; else all that are read"},
    {.flag = "decoder", .type = QKV_OPT_BOOL, FIELD(decoder),
     .help = "an encoder-decoder instead of an encoder"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "CSV",
     .help = "rows to evaluate on; the first are only looked back on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: rows or share held out at the end of the data"},
};
static const qkv_option_table table = {"Series", rows, sizeof rows / sizeof *rows, 0};

/* A column that is read: its name, and what else --target may call it. */
typedef struct {
    char *label, *given;
} column;

typedef struct {
    qkv__run base;
    settings s;
    qkv_forecast_config config;
    qkv_array data, valid_file;
    column *columns; /* (count) targets first */
    size_t count;
    bool named;             /* labels are kept with the model */
    qkv_series train, valid; /* parts of data and valid_file */
} job;

/* ---- columns --------------------------------------------------------------------------------- */

/* wanted: as --columns says, empty when it says nothing. */
static qkv_status name_columns(job *j, const qkv__name_list *wanted)
{
    qkv_context *ctx = j->base.ctx;
    size_t n = j->data.shape[1];
    j->columns = qkv_calloc(ctx, n, sizeof *j->columns);
    j->count = j->columns ? n : 0;
    for (size_t i = 0; i < j->count; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i + 1);
        const char *given = wanted->count ? wanted->items[i] : number;
        j->columns[i].given = qkv_strdup(ctx, given);
        j->columns[i].label = qkv_strdup(ctx, j->data.names ? j->data.names[i] : given);
        if (!j->columns[i].given || !j->columns[i].label)
            return QKV_E_MEMORY;
    }
    j->named = j->data.names || wanted->count;
    return j->columns ? QKV_OK : QKV_E_MEMORY;
}

static void swap_columns(job *j, size_t a, size_t b)
{
    column kept = j->columns[a];
    j->columns[a] = j->columns[b];
    j->columns[b] = kept;
    for (size_t i = 0; i < j->data.shape[0]; i++) {
        qkv_real *row = j->data.data + i * j->count, value = row[a];
        row[a] = row[b];
        row[b] = value;
    }
}

static qkv_status targets_first(job *j, const qkv__name_list *targets)
{
    for (size_t k = 0; k < targets->count; k++) {
        size_t at = k;
        while (at < j->count && strcmp(j->columns[at].label, targets->items[k]) != 0 &&
               strcmp(j->columns[at].given, targets->items[k]) != 0)
            at++;
        if (at == j->count)
            return qkv_fail(j->base.ctx, QKV_E_ARGUMENT, "--target: %s has no column "
                            "\"%.40s\", or it is named twice", j->s.data, targets->items[k]);
        swap_columns(j, k, at);
        j->named = true;
    }
    j->config.targets = targets->count;
    return QKV_OK;
}

/* Targets are read even where --columns leaves them out. */
static qkv_status read_columns(job *j)
{
    qkv__name_list targets = {0}, wanted = {0};
    qkv_status status = qkv__names_cut(&targets, j->base.ctx, j->s.target, 0);
    if (!status)
        status = qkv__names_cut(&wanted, j->base.ctx, j->s.columns, targets.count);
    for (size_t i = 0; i < targets.count && wanted.count && !status; i++)
        if (!qkv__names_have(&wanted, targets.items[i]))
            wanted.items[wanted.count++] = targets.items[i];
    if (!status)
        status = qkv_csv_load_columns(&j->data, j->base.ctx, j->s.data, wanted.items,
                                      wanted.count);
    if (!status)
        status = name_columns(j, &wanted);
    if (!status)
        status = targets_first(j, &targets);
    qkv__names_drop(&targets, j->base.ctx);
    qkv__names_drop(&wanted, j->base.ctx);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is held out begins with rows of training that it is forecast from. */
static qkv_status hold_out(job *j)
{
    qkv_context *ctx = j->base.ctx;
    size_t tail, C = j->train.columns;
    qkv_status status = qkv__held_out(ctx, j->s.valid_last, j->train.rows, "rows", &tail);
    if (status || !tail)
        return status;
    if (tail < j->config.horizon)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--valid-last: %zu of %zu rows of %s are fewer "
                        "than the horizon's %zu", tail, j->train.rows, j->s.data,
                        j->config.horizon);
    j->train.rows -= tail;
    j->valid = (qkv_series){j->train.data + j->train.rows * C, tail, C};
    return QKV_OK;
}

/* Once the season is known. */
static void look_back(job *j, const qkv_forecast_config *c)
{
    size_t lead = qkv_forecast_lead(c);
    lead = lead < j->train.rows ? lead : j->train.rows;
    j->valid.data -= lead * j->valid.columns;
    j->valid.rows += lead;
}

static qkv_status job_forecast_make_model(job *j)
{
    qkv_context *ctx = j->base.ctx;
    qkv_forecast_config *c = &j->config;
    c->columns = j->train.columns;
    if ((j->s.decoder || c->causal) && !qkv__run_given(&j->base, "decoder_layers"))
        c->decoder_layers = c->layers;
    qkv_status status = c->season ? QKV_OK
                                  : qkv_forecast_find_season(&c->season, ctx, c, &j->train);
    if (!status)
        status = qkv__run_create(&j->base, qkv_forecast_type(), c);
    if (!status)
        status = qkv_forecast_fit_scale(j->base.model, &j->train);
    const char **labels = status || !j->named ? NULL : qkv_calloc(ctx, j->count, sizeof *labels);
    for (size_t i = 0; labels && i < j->count; i++)
        labels[i] = j->columns[i].label;
    if (labels)
        status = qkv_model_set_labels(j->base.model, labels, j->count);
    else if (!status && j->named)
        status = QKV_E_MEMORY;
    qkv_free(ctx, labels);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status forecast_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_status status = QKV_OK;
    if (base->o.init) {
        status = qkv__run_load(base, &base->model);
        if (!status && !qkv_model_can(base->model, QKV_CAN_FORECAST))
            status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s model does not forecast",
                              base->o.init, qkv_model_type_name(qkv_model_type_of(base->model)));
        if (!status)
            status = qkv__series_load(&j->data, base->model, j->s.data);
        if (!status)
            j->config = *(const qkv_forecast_config *)qkv_model_config(base->model);
    } else {
        status = read_columns(j);
    }
    j->train = qkv__series(&j->data);
    if (!status && !j->s.valid)
        status = hold_out(j);
    if (!status && !base->o.init)
        status = job_forecast_make_model(j);
    if (!status && j->s.valid)
        status = qkv__series_load(&j->valid_file, base->model, j->s.valid);
    if (!status && j->s.valid)
        j->valid = qkv__series(&j->valid_file);
    else if (!status && j->valid.data)
        look_back(j, qkv_model_config(base->model));
    return status;
}

static qkv_status forecast_save(const qkv__run *base, const char *name, const qkv_series *s)
{
    const size_t shape[] = {s->rows, s->columns};
    return qkv_npy_save(base->ctx, qkv__run_path(base, name).text, 2, shape, s->data,
                        QKV_STORE_F32);
}

static qkv_status forecast_write_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = forecast_save(base, QKV__TRAIN_ARRAY, &j->train);
    return status || !j->valid.data ? status : forecast_save(base, QKV__VALID_ARRAY, &j->valid);
}

static qkv_status forecast_open_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = qkv__series_open(&j->data, base->ctx, base->o.out, QKV__TRAIN_ARRAY,
                                         true);
    if (!status)
        status = qkv__series_open(&j->valid_file, base->ctx, base->o.out, QKV__VALID_ARRAY,
                                  false);
    j->train = qkv__series(&j->data);
    j->valid = qkv__series(&j->valid_file);
    return status;
}

static qkv_status forecast_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    const qkv_forecast_config *config = qkv_model_config(base->model);
    bool enough = j->train.rows >= config->context + config->horizon;
    qkv_status status =
        qkv_task_forecast(&base->task, base->model, &j->train, &j->valid, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, j->s.valid && enough ? j->s.valid : j->s.data);
    qkv__run_rate(base, config->width, RATE);
    qkv__note(ctx, "%s, %zu parameters; %zu rows of %zu to learn from, %zu held out; season of the "
             "naive forecast: %zu rows", qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), j->train.rows, config->columns,
             j->valid.rows > qkv_forecast_lead(config)
                 ? j->valid.rows - qkv_forecast_lead(config) : 0, config->season);
    return QKV_OK;
}

static void forecast_close_data(qkv__run *base)
{
    job *j = (job *)base;
    for (size_t i = 0; i < j->count; i++) {
        qkv_free(base->ctx, j->columns[i].label);
        qkv_free(base->ctx, j->columns[i].given);
    }
    qkv_free(base->ctx, j->columns);
    qkv_array_free(&j->data);
    qkv_array_free(&j->valid_file);
}

/* The last rows of the first target that are held out: as forecast, and as they were. */
static qkv_status forecast_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    const job *j = user;
    qkv_context *ctx = j->base.ctx;
    const qkv_forecast_config *c = qkv_model_config(j->base.model);
    const qkv_series *s = j->valid.data ? &j->valid : &j->train;
    const qkv_series history = {s->data, s->rows - c->horizon, s->columns};
    qkv_real *made = qkv_calloc(ctx, c->horizon, c->targets * sizeof *made);
    qkv_str text;
    (void)t;
    qkv_str_init(&text, ctx);
    qkv_str_puts(&text, "row  forecast  truth\n");
    qkv_status status = made ? qkv_forecast(j->base.model, &history, c->horizon, made)
                             : QKV_E_MEMORY;
    for (size_t i = 0; i < c->horizon && i < SHOWN && !status; i++)
        qkv_str_printf(&text, "%zu  %.6g  %.6g\n", i + 1, (double)made[i * c->targets],
                       (double)s->data[(history.rows + i) * s->columns]);
    if (!status)
        status = text.failed ? QKV_E_MEMORY
                             : qkv_samples_text(out, "forecast", text.data, text.len);
    qkv_str_free(&text);
    qkv_free(ctx, made);
    return status;
}

static const char *const fixed[] = {"context", "horizon", "patch", "normalize", "linear", "loss",
                                    "season", "columns", "target", "decoder", "causal", NULL};
static const qkv_preset presets[] = {
    {"batch", "64", NULL},
    {"ema", "0.995", NULL},
    {"weight-decay", "0.1", NULL},
    {"beta2", "0.99", NULL},
    QKV__WARMUP_PRESET,
    {"lr", "1e-3", NULL},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&table, offsetof(job, s)},
    QKV__RUN_TABLES,
    {NULL, 0}};

const qkv__job_kind qkv__job_forecast = {
    .name = "forecast", .size = sizeof(job), .tables = tables, .presets = presets,
    .type = qkv_forecast_type, .config = offsetof(job, config),
    .read = forecast_read_data, .write = forecast_write_data, .open = forecast_open_data,
    .begin = forecast_begin, .close = forecast_close_data, .fixed = fixed,
    .sample = forecast_sample};
