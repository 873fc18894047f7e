/* forecast.c - `qkv train forecast`: rows of numbers become a forecaster. */
#include <stdio.h>
#include <string.h>

#include "job/name_list.h"
#include "job/series_job.h"
#include "qkv/csv.h"
#include "qkv/infer.h"

static const double RATE = 1e-3; /* when none is given */
enum { SHOWN = 24 };             /* rows of a sample */

typedef struct {
    qkv__series_options common;
    const char *target;
    bool decoder;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    QKV__SERIES_DATA_ROWS("rows of numbers, the oldest first"),
    {.flag = "target", .type = QKV_OPT_STRING, FIELD(target), .value = "A,B",
     .help = "columns to forecast; else all that are read"},
    {.flag = "decoder", .type = QKV_OPT_BOOL, FIELD(decoder),
     .help = "an encoder-decoder instead of an encoder"},
    QKV__SERIES_VALID_ROWS("rows to evaluate on; the first are only looked back on"),
};
static const qkv_option_table table = {"Series", rows, sizeof rows / sizeof *rows, 0};

/* A column that is read: its name, and what else --target may call it. */
typedef struct {
    char *label, *given;
} column;

typedef struct {
    qkv__series_job p;
    settings s;
    qkv_forecast_config config;
    column *columns; /* (count) targets first */
    size_t count;
    bool named; /* labels are kept with the model */
} job;

/* ---- columns --------------------------------------------------------------------------------- */

/* wanted: as --columns says, empty when it says nothing. */
static qkv_status name_columns(job *j, const qkv__name_list *wanted)
{
    qkv_context *ctx = j->p.base.ctx;
    size_t n = j->p.data.shape[1];
    j->columns = qkv_calloc(ctx, n, sizeof *j->columns);
    j->count = j->columns ? n : 0;
    for (size_t i = 0; i < j->count; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i + 1);
        const char *given = wanted->count ? wanted->items[i] : number;
        j->columns[i].given = qkv_strdup(ctx, given);
        j->columns[i].label = qkv_strdup(ctx, j->p.data.names ? j->p.data.names[i] : given);
        if (!j->columns[i].given || !j->columns[i].label)
            return QKV_E_MEMORY;
    }
    j->named = j->p.data.names || wanted->count;
    return j->columns ? QKV_OK : QKV_E_MEMORY;
}

static void swap_columns(job *j, size_t a, size_t b)
{
    column kept = j->columns[a];
    j->columns[a] = j->columns[b];
    j->columns[b] = kept;
    for (size_t i = 0; i < j->p.data.shape[0]; i++) {
        qkv_real *row = j->p.data.data + i * j->count, value = row[a];
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
            return qkv_fail(j->p.base.ctx, QKV_E_ARGUMENT, "--target: %s has no column "
                            "\"%.40s\", or it is named twice", j->s.common.data, targets->items[k]);
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
    qkv_status status = qkv__names_cut(&targets, j->p.base.ctx, j->s.target, 0);
    if (!status)
        status = qkv__names_cut(&wanted, j->p.base.ctx, j->s.common.columns, targets.count);
    for (size_t i = 0; i < targets.count && wanted.count && !status; i++)
        if (!qkv__names_have(&wanted, targets.items[i]))
            wanted.items[wanted.count++] = targets.items[i];
    if (!status)
        status = qkv_csv_load_columns(&j->p.data, j->p.base.ctx, j->s.common.data, wanted.items,
                                      wanted.count);
    if (!status)
        status = name_columns(j, &wanted);
    if (!status)
        status = targets_first(j, &targets);
    qkv__names_drop(&targets, j->p.base.ctx);
    qkv__names_drop(&wanted, j->p.base.ctx);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is held out begins with rows of training that it is forecast from, once the season is
 * known. */
static void look_back(job *j, const qkv_forecast_config *c)
{
    size_t lead = qkv_forecast_lead(c);
    lead = lead < j->p.train.rows ? lead : j->p.train.rows;
    j->p.valid.data -= lead * j->p.valid.columns;
    j->p.valid.rows += lead;
}

static qkv_status job_forecast_make_model(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_forecast_config *c = &j->config;
    c->columns = j->p.train.columns;
    if ((j->s.decoder || c->causal) && !qkv__run_given(&j->p.base, "decoder_layers"))
        c->decoder_layers = c->layers;
    qkv_status status = c->season ? QKV_OK
                                  : qkv_forecast_find_season(&c->season, ctx, c, &j->p.train);
    if (!status)
        status = qkv__run_create(&j->p.base, qkv_forecast_type(), c);
    if (!status)
        status = qkv_forecast_fit_scale(j->p.base.model, &j->p.train);
    const char **labels = status || !j->named ? NULL : qkv_calloc(ctx, j->count, sizeof *labels);
    for (size_t i = 0; labels && i < j->count; i++)
        labels[i] = j->columns[i].label;
    if (labels)
        status = qkv_model_set_labels(j->p.base.model, labels, j->count);
    else if (!status && j->named)
        status = QKV_E_MEMORY;
    qkv_free(ctx, labels);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status forecast_read_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv__series_options *s = &j->s.common;
    qkv_status status;
    if (base->o.init) {
        status = qkv__run_load_able(base, QKV_CAN_FORECAST, "qkv_forecast");
        if (!status)
            status = qkv__series_load(&j->p.data, base->model, s->data);
        if (!status)
            j->config = *(const qkv_forecast_config *)qkv_model_config(base->model);
    } else {
        status = read_columns(j);
    }
    j->p.train = qkv__series(&j->p.data);
    if (!status)
        status = qkv__series_hold_out(&j->p, s, j->config.horizon, "the horizon's");
    if (!status && !base->o.init)
        status = job_forecast_make_model(j);
    if (!status)
        status = qkv__series_read_valid(&j->p, s);
    if (!status && !s->valid && j->p.valid.data)
        look_back(j, qkv_model_config(base->model));
    return status;
}

static qkv_status forecast_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    const qkv__series_options *s = &j->s.common;
    const qkv_forecast_config *config = qkv_model_config(base->model);
    bool enough = j->p.train.rows >= config->context + config->horizon;
    qkv_status status =
        qkv_task_forecast(&base->task, base->model, &j->p.train, &j->p.valid, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, s->valid && enough ? s->valid : s->data);
    qkv__run_rate(base, config->width, RATE);
    qkv__note(ctx, "%s, %zu parameters; %zu rows of %zu to learn from, %zu held out; season of the "
             "naive forecast: %zu rows", qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), j->p.train.rows, config->columns,
             j->p.valid.rows > qkv_forecast_lead(config)
                 ? j->p.valid.rows - qkv_forecast_lead(config) : 0, config->season);
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
    qkv__series_job_close(base);
}

/* The last rows of the first target that are held out: as forecast, and as they were. */
static qkv_status forecast_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    const job *j = user;
    qkv_context *ctx = j->p.base.ctx;
    const qkv_forecast_config *c = qkv_model_config(j->p.base.model);
    const qkv_series *s = j->p.valid.data ? &j->p.valid : &j->p.train;
    const qkv_series history = {s->data, s->rows - c->horizon, s->columns};
    qkv_real *made = qkv_calloc(ctx, c->horizon, c->targets * sizeof *made);
    (void)t;
    qkv_status status = made ? qkv_forecast(j->p.base.model, &history, c->horizon, made)
                             : QKV_E_MEMORY;
    if (!status)
        status = qkv__series_sample(ctx, out, "forecast", "forecast", 1,
                                    c->horizon < SHOWN ? c->horizon : SHOWN, made, c->targets,
                                    s->data + history.rows * s->columns, s->columns);
    qkv_free(ctx, made);
    return status;
}

static const char *const fixed[] = {"context", "horizon", "patch", "normalize", "linear", "loss",
                                    "season", "columns", "target", "decoder", "causal", NULL};
static const qkv_preset presets[] = {QKV__SERIES_PRESETS("1e-3"), {NULL, NULL, NULL}};

static const qkv__job_table tables[] = {{&table, offsetof(job, s)}, QKV__RUN_TABLES, {NULL, 0}};

const qkv__job_kind qkv__job_forecast = {
    .name = "forecast", .size = sizeof(job), .tables = tables, .presets = presets,
    .type = qkv_forecast_type, .config = offsetof(job, config),
    .read = forecast_read_data, .write = qkv__series_job_write, .open = qkv__series_job_open,
    .begin = forecast_begin, .close = forecast_close_data, .fixed = fixed,
    .sample = forecast_sample};
