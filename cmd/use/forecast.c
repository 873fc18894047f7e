/* forecast.c - `qkv forecast`: the rows that follow a history. */
#include <stdio.h>

#include "core/cli.h"
#include "core/plot.h"

#define STDIN "/dev/stdin"

typedef struct {
    const char *file;
    bool plot;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "CSV", .initial = STDIN,
     .help = "the history"},
    {.flag = "plot", .type = QKV_OPT_BOOL, FIELD(plot),
     .help = "an image of each column on the standard error, too"},
};
static const qkv_option_table table = {"Forecasting", rows, sizeof rows / sizeof *rows, 0};

static int print_rows(cli *c, const qkv_array *y)
{
    qkv_str text;
    qkv_str_init(&text, c->ctx);
    qkv_csv_text(&text, y);
    int code = text.failed ? cli_error(c) : CLI_DONE;
    if (!code)
        (void)fwrite(text.data, 1, text.len, stdout);
    qkv_str_free(&text);
    return code ? code : cli_flush();
}

static void plot(const qkv_array *history, const qkv_array *y)
{
    for (size_t j = 0; j < y->shape[1]; j++)
        cli_plot_series(stderr, y->names ? y->names[j] : NULL, history->data + j, history->shape[0],
                        history->shape[1], y->data + j, y->shape[0], y->shape[1]);
}

static int forecast_answer_json(cli *c, const qkv_array *y)
{
    qkv_json_writer w = cli_object(c);
    cli_put_series(&w, y);
    return cli_answer(c, &w);
}

static int use_forecast_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_pipeline_forecast_options o;
    qkv_pipeline *p = NULL;
    qkv_array history = {0}, y = {0};
    cli_bind(c, qkv_pipeline_forecast_table(), &o);
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_pipeline_forecast_file(p, s.file, &o, &history, &y);
    int code = status ? cli_error(c) : CLI_DONE;
    if (!status && c->common.json)
        code = forecast_answer_json(c, &y);
    else if (!status)
        code = print_rows(c, &y);
    if (!status && s.plot)
        plot(&history, &y);
    qkv_array_free(&y);
    qkv_array_free(&history);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {"qkv forecast runs/load --horizon 24 < history.csv",
                                       "qkv forecast runs/load --file history.csv --json",
                                       "qkv forecast runs/load --plot < history.csv", NULL};

CLI_COMMAND(cli_forecast, 460) = {
    .manual = {.name = "forecast", .summary = "continue a series of numbers",
               .usage = "DIR [options]", .examples = examples,
               .text = "Reads rows of numbers, finds the columns that the model was trained on by "
                       "their names, and prints the rows that follow as CSV, with a line of names "
                       "if the history has one. Only the last rows are read, as many as the "
                       "model's context. A horizon beyond the trained one is rolled out: "
                       "forecasts become history."},
    .library = {qkv_pipeline_forecast_table},
    .own = {&table}, .opens = true, .run = use_forecast_run};
