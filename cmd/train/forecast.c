/* forecast.c - `qkv train forecast`: rows of numbers become a forecaster. */
#include <stdio.h>
#include <string.h>

#include "core/commands.h"
#include "train/job.h"
#include "use/series.h"
#include "train/texts.h"
#include "io/file.h"
#include "model/forecast.h"

static const double RATE = 1e-3; /* when none is given */

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
     .help = "rows to judge on; the first are only looked back on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: rows or share held out at the end of the data"},
};
static const qkv_option_table table = {"Series", rows, sizeof rows / sizeof *rows};

/* A column that is read: its name, and what else --target may call it. */
typedef struct {
    char *label, *given;
} column;

typedef struct {
    cli_job base;
    settings s;
    qkv_forecast_config config;
    qkv_array data, valid_file;
    column *columns; /* (count) targets first */
    size_t count;
    bool named;             /* labels are kept with the model */
    qkv_series train, valid; /* parts of data and valid_file */
} job;

/* ---- columns --------------------------------------------------------------------------------- */

/* What is between commas. */
typedef struct {
    char *text;
    const char **items;
    size_t count;
} names;

static void free_names(const job *j, names *n)
{
    qkv__free(j->base.c->ctx, n->text);
    qkv__free(j->base.c->ctx, n->items);
}

/* list may be NULL: none. room: for so many more. */
static qkv_status cut_names(const job *j, names *n, const char *list, size_t room)
{
    qkv_context *ctx = j->base.c->ctx;
    list = list ? list : "";
    *n = (names){.text = qkv__strdup(ctx, list)};
    n->items = qkv__calloc(ctx, strlen(list) + 1 + room, sizeof *n->items);
    if (!n->text || !n->items)
        return QKV_E_MEMORY;
    for (char *at = n->text, *comma; at && *n->text; at = comma) {
        comma = strchr(at, ',');
        if (comma)
            *comma++ = 0;
        n->items[n->count++] = at;
    }
    return QKV_OK;
}

static bool contains(const names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0)
            return true;
    return false;
}

/* wanted: as --columns says, empty when it says nothing. */
static qkv_status name_columns(job *j, const names *wanted)
{
    qkv_context *ctx = j->base.c->ctx;
    size_t n = j->data.shape[1];
    j->columns = qkv__calloc(ctx, n, sizeof *j->columns);
    j->count = j->columns ? n : 0;
    for (size_t i = 0; i < j->count; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i + 1);
        const char *given = wanted->count ? wanted->items[i] : number;
        j->columns[i].given = qkv__strdup(ctx, given);
        j->columns[i].label = qkv__strdup(ctx, j->data.names ? j->data.names[i] : given);
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

static qkv_status targets_first(job *j, const names *targets)
{
    for (size_t k = 0; k < targets->count; k++) {
        size_t at = k;
        while (at < j->count && strcmp(j->columns[at].label, targets->items[k]) != 0 &&
               strcmp(j->columns[at].given, targets->items[k]) != 0)
            at++;
        if (at == j->count)
            return qkv__fail(j->base.c->ctx, QKV_E_ARGUMENT, "--target: %s has no column "
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
    names targets = {0}, wanted = {0};
    qkv_status status = cut_names(j, &targets, j->s.target, 0);
    if (!status)
        status = cut_names(j, &wanted, j->s.columns, targets.count);
    for (size_t i = 0; i < targets.count && wanted.count && !status; i++)
        if (!contains(&wanted, targets.items[i]))
            wanted.items[wanted.count++] = targets.items[i];
    if (!status)
        status = qkv_csv_load_columns(&j->data, j->base.c->ctx, j->s.data, wanted.items,
                                      wanted.count);
    if (!status)
        status = name_columns(j, &wanted);
    if (!status)
        status = targets_first(j, &targets);
    free_names(j, &targets);
    free_names(j, &wanted);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is held out begins with rows of training that it is forecast from. */
static qkv_status hold_out(job *j)
{
    cli *c = j->base.c;
    size_t tail, C = j->train.columns;
    qkv_status status = cli_held_out(c, j->s.valid_last, j->train.rows, "rows", &tail);
    if (status || !tail)
        return status;
    if (tail < j->config.horizon)
        return qkv__fail(c->ctx, QKV_E_ARGUMENT, "--valid-last: %zu of %zu rows of %s are fewer "
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

static qkv_status make_model(job *j)
{
    qkv_context *ctx = j->base.c->ctx;
    qkv_forecast_config *c = &j->config;
    c->columns = j->train.columns;
    if (j->s.decoder && !qkv_options_given(j->base.c->options, "decoder_layers"))
        c->decoder_layers = c->layers;
    qkv_status status = c->season ? QKV_OK
                                  : qkv_forecast_find_season(&c->season, ctx, c, &j->train);
    if (!status)
        status = qkv_model_create(&j->base.model, ctx, &qkv_forecast_type, c);
    if (!status)
        status = qkv_model_init(j->base.model, j->base.c->common.seed);
    if (!status)
        status = qkv_forecast_fit_scale(j->base.model, &j->train);
    const char **labels = status || !j->named ? NULL : qkv__calloc(ctx, j->count, sizeof *labels);
    for (size_t i = 0; labels && i < j->count; i++)
        labels[i] = j->columns[i].label;
    if (labels)
        status = qkv_model_set_labels(j->base.model, labels, j->count);
    else if (!status && j->named)
        status = QKV_E_MEMORY;
    qkv__free(ctx, labels);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->c->ctx;
    qkv_status status = QKV_OK;
    if (base->o.init) {
        status = cli_job_load(base, &base->model);
        if (!status && !qkv_model_is_forecaster(base->model))
            status = qkv__fail(ctx, QKV_E_ARGUMENT, "%s: a %s model does not forecast",
                               base->o.init, qkv_model_type_name(qkv_model_type_of(base->model)));
        if (!status)
            status = cli_series_load(&j->data, base->model, j->s.data);
        if (!status)
            j->config = *(const qkv_forecast_config *)qkv_model_config(base->model);
    } else {
        status = read_columns(j);
    }
    j->train = cli_series(&j->data);
    if (!status && !j->s.valid)
        status = hold_out(j);
    if (!status && !base->o.init)
        status = make_model(j);
    if (!status && j->s.valid)
        status = cli_series_load(&j->valid_file, base->model, j->s.valid);
    if (!status && j->s.valid)
        j->valid = cli_series(&j->valid_file);
    else if (!status && j->valid.data)
        look_back(j, qkv_model_config(base->model));
    return status;
}

static qkv_status save(const cli_job *base, const char *name, const qkv_series *s)
{
    const size_t shape[] = {s->rows, s->columns};
    char *path = cli_job_path(base, name);
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv_npy_save(base->c->ctx, path, 2, shape, s->data, QKV_STORE_F32);
    qkv__free(base->c->ctx, path);
    return status;
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = save(base, "train/train.npy", &j->train);
    return status || !j->valid.data ? status : save(base, "train/valid.npy", &j->valid);
}

static qkv_status open_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = cli_series_open(&j->data, base->c->ctx, base->o.out, "train/train.npy",
                                        true);
    if (!status)
        status = cli_series_open(&j->valid_file, base->c->ctx, base->o.out, "train/valid.npy",
                                 false);
    j->train = cli_series(&j->data);
    j->valid = cli_series(&j->valid_file);
    return status;
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    const qkv_forecast_config *config = qkv_model_config(base->model);
    bool enough = j->train.rows >= config->context + config->horizon;
    qkv_status status =
        qkv_task_forecast(&base->task, base->model, &j->train, &j->valid, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, j->s.valid && enough ? j->s.valid : j->s.data);
    cli_job_rate(base, config->width, RATE);
    cli_note(c, "%s, %zu parameters; %zu rows of %zu to learn from, %zu held out; season of the "
             "naive forecast: %zu rows", qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), j->train.rows, config->columns,
             j->valid.rows > qkv_forecast_lead(config)
                 ? j->valid.rows - qkv_forecast_lead(config) : 0, config->season);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    for (size_t i = 0; i < j->count; i++) {
        qkv__free(base->c->ctx, j->columns[i].label);
        qkv__free(base->c->ctx, j->columns[i].given);
    }
    qkv__free(base->c->ctx, j->columns);
    qkv_array_free(&j->data);
    qkv_array_free(&j->valid_file);
}

static const char *const fixed[] = {"context", "horizon", "patch", "normalize", "linear", "loss",
                                    "season", "columns", "target", "decoder", NULL};
static const cli_job_type job_type = {
    .name = "forecast", .takes = qkv_model_is_forecaster, .read = read_data, .write = write_data,
    .open = open_data, .begin = begin, .close = close_data, .has_text = false, .fixed = fixed};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &table, &j.s);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__forecast_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &table, &qkv__forecast_config, &cli_job_table, &qkv_train_table, &qkv_optimizer_table,
    &qkv_schedule_table, NULL};
static const qkv_preset presets[] = {
    {"batch", "64", NULL},
    {"ema", "0.995", NULL},
    {"weight-decay", "0.1", NULL},
    {"beta2", "0.99", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", "1e-3", NULL},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};
static const char *const examples[] = {
    "qkv train forecast --data load.csv --context 168 --minutes 2 --out runs/a",
    "qkv train forecast --data load.csv --columns load,wind --target load --out b",
    "qkv train forecast --data load.csv --decoder --patch 8 --out runs/c",
    "qkv train forecast --data load.csv --minutes 2 --out runs/a --resume", NULL};

const cli_command cli_train_forecast = {
    .manual = {.name = "train forecast", .summary = "train a forecaster on rows of numbers",
               .usage = "--data CSV --out DIR [options]", .examples = examples,
               .text = "Learns to predict the rows that follow a window of rows, and judges on "
                       "the last rows of the data, beside the naive forecasts: the last row "
                       "again, and the row of a season before. The first line may name the "
                       "columns. --out becomes a model directory; train/ in it keeps what "
                       "--resume needs. Without --steps or --minutes it takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
