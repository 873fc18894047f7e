/* forecast.c - `qkv forecast`: the rows that follow a history. */
#include <stdio.h>

#include "core/commands.h"
#include "tour/plot.h"
#include "pipeline/series.h"
#include "qkv/hub.h"
#include "qkv/run.h"

#define STDIN "/dev/stdin"

typedef struct {
    size_t horizon;
    const char *file;
    bool plot;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "horizon", .type = QKV_OPT_SIZE, .max = 1048576, FIELD(horizon), .initial = "0",
     .help = "rows to forecast; 0: as many as it was trained for"},
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "CSV", .initial = STDIN,
     .help = "the history"},
    {.flag = "plot", .type = QKV_OPT_BOOL, FIELD(plot),
     .help = "a picture of each column on the standard error, too"},
};
static const qkv_option_table table = {"Forecasting", rows, sizeof rows / sizeof *rows};

/* Seven digits: what a float is good for. */
static void print_rows(const qkv_array *history, const qkv_real *y, size_t n, size_t targets)
{
    for (size_t j = 0; j < targets && history->names; j++)
        printf("%s%s", history->names[j], j + 1 < targets ? "," : "\n");
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < targets; j++)
            printf("%.7g%s", (double)y[i * targets + j], j + 1 < targets ? "," : "\n");
}

static void plot(const qkv_array *history, const qkv_real *y, size_t n, size_t targets)
{
    size_t C = history->shape[1];
    for (size_t j = 0; j < targets; j++)
        cli_plot(stderr, history->names ? history->names[j] : NULL, history->data + j,
                 history->shape[0], C, y + j, n, targets);
}

static int answer_json(cli *c, const qkv_array *history, const qkv_real *y, size_t n,
                       size_t targets)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    if (history->names) {
        qkv_json_begin_array(&w, "columns");
        for (size_t j = 0; j < targets; j++)
            qkv_json_put_string(&w, NULL, history->names[j]);
        qkv_json_end_array(&w);
    }
    qkv_json_begin_array(&w, "rows");
    for (size_t i = 0; i < n; i++) {
        qkv_json_begin_array(&w, NULL);
        for (size_t j = 0; j < targets; j++)
            qkv_json_put_real(&w, NULL, (double)y[i * targets + j]);
        qkv_json_end_array(&w);
    }
    qkv_json_end_array(&w);
    qkv_json_end_object(&w);
    return cli_answer(c, &w);
}

static qkv_status forecast(cli *c, qkv_model *m, const char *file, const qkv_array *history,
                           size_t n, qkv_real **out)
{
    const qkv_forecast_config *config = qkv_model_config(m);
    qkv_series series = qkv__series(history);
    *out = qkv_calloc(c->ctx, n * config->targets, sizeof **out);
    if (!*out)
        return QKV_E_MEMORY;
    return qkv_forecast(m, &series, n, *out) ? qkv_fail_prefix(c->ctx, file) : QKV_OK;
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    const char *dir = c->args.items[0];
    qkv_model *m = NULL;
    qkv_array history = {0};
    qkv_real *y = NULL;
    qkv_status status = qkv_hub_load(&m, c->ctx, dir);
    if (!status && !qkv_model_is_forecaster(m))
        status = qkv_fail(c->ctx, QKV_E_ARGUMENT, "%s: a %s model does not forecast", dir,
                          qkv_model_type_name(qkv_model_type_of(m)));
    if (!status)
        status = qkv__series_load(&history, m, s.file);
    const qkv_forecast_config *config = status ? NULL : qkv_model_config(m);
    size_t n = config && !s.horizon ? config->horizon : s.horizon;
    if (!status)
        status = forecast(c, m, s.file, &history, n, &y);
    int code = status ? cli_error(c) : CLI_DONE;
    if (!status && c->common.json)
        code = answer_json(c, &history, y, n, config->targets);
    else if (!status)
        print_rows(&history, y, n, config->targets);
    if (!status && s.plot)
        plot(&history, y, n, config->targets);
    qkv_free(c->ctx, y);
    qkv_array_free(&history);
    qkv_model_destroy(m);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {"qkv forecast runs/load --horizon 24 < history.csv",
                                       "qkv forecast runs/load --file history.csv --json",
                                       "qkv forecast runs/load --plot < history.csv", NULL};

const cli_command cli_forecast = {
    .manual = {.name = "forecast", .summary = "continue a series of numbers",
               .usage = "DIR [options]", .examples = examples, .tables = tables,
               .text = "Reads rows of numbers, finds the columns that the model was trained on by "
                       "their names, and prints the rows that follow as CSV, with a line of names "
                       "if the history has one. Only the last rows are read, as many as the "
                       "model's context. A horizon beyond the trained one is rolled out: "
                       "forecasts become history."},
    .run = run};
