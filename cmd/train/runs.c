/* runs.c - `qkv report` and `qkv compare`: what training runs wrote, as a page and side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cli.h"

/* ---- report -------------------------------------------------------------------------------- */

typedef struct {
    const char *out;
} report_settings;

static const qkv_option report_rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .offset = offsetof(report_settings, out),
     .value = "FILE", .help = "the page; else DIR/train/report.html"},
};
static const qkv_option_table report_table = {"Report", report_rows, 1, 0};

static int report_run(cli *c, int argc, char **argv)
{
    report_settings s;
    cli_bind(c, &report_table, &s);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    const char *dir = c->args.items[0];
    const qkv_path usual = qkv_path_in(dir, "train/report.html");
    const char *out = s.out ? s.out : usual.text;
    if (qkv_run_report(c->ctx, dir, out))
        return cli_error(c);
    if (!c->common.json) {
        cli_note(c, "written: %s", out);
        return CLI_DONE;
    }
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "out", out);
    return cli_answer(c, &w);
}

static const char *const report_examples[] = {"qkv report runs/book",
                                              "qkv report runs/book --out book.html", NULL};

CLI_COMMAND(cli_report, 605) = {
    .manual = {.name = "report", .summary = "what a training run did, as a page",
               .usage = "DIR [--out FILE]", .examples = report_examples,
               .text = "Training writes the same page to DIR/train/report.html at evaluations "
                       "and at its end. This makes it of what a run has written so far, also of "
                       "one that was killed: curves of every loss, term and metric, learning "
                       "rate, norms of gradients and weights by layer, samples over time, speed, "
                       "memory, settings. The page is one file that needs no network."},
    .own = {&report_table}, .run = report_run};

/* ---- compare ------------------------------------------------------------------------------- */

typedef struct {
    const char *out;
} compare_settings;

static const qkv_option compare_rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .offset = offsetof(compare_settings, out),
     .value = "FILE", .help = "write a page with curves over steps and seconds"},
};
static const qkv_option_table compare_table = {"Comparison", compare_rows, 1, 0};

enum { NAME_WIDTH = 18, CELL_WIDTH = 14, FIGURE = 32 };

static void print_cell(const char *text)
{
    size_t len = strlen(text), most = CELL_WIDTH - 2; /* a path's end says more than its start */
    printf("  %*s", (int)most, len > most ? text + len - most : text);
}

static void compare_print_row(const char *name, size_t count, const char *const *cells)
{
    printf("%-*.*s", NAME_WIDTH, NAME_WIDTH, name);
    for (size_t i = 0; i < count; i++)
        print_cell(cells[i] ? cells[i] : "-");
    printf("\n");
}

typedef struct {
    size_t count;
    qkv_run_log **runs;
    const char **cells;    /* (count) */
    char (*text)[FIGURE];  /* (count) */
} comparison;

/* The cell of a run; NaN: there is no number. */
static void compare_put_number(const comparison *x, size_t run, double value)
{
    (void)snprintf(x->text[run], FIGURE, isnan(value) ? "-" : "%.6g", value);
    x->cells[run] = x->text[run];
}

static void print_numbers(const comparison *x, const char *name,
                          double (*number)(const qkv_run_log *r))
{
    for (size_t k = 0; k < x->count; k++) {
        double value = number(x->runs[k]);
        compare_put_number(x, k, value < 0 ? NAN : value);
    }
    compare_print_row(name, x->count, x->cells);
}

/* A metric of the models that are kept. */
static void print_metric(const comparison *x, const char *name)
{
    for (size_t k = 0; k < x->count; k++) {
        const qkv_run_series *s = qkv_run_log_find(x->runs[k], name);
        compare_put_number(x, k, s ? qkv_run_series_at(s, qkv_run_log_best(x->runs[k])) : NAN);
    }
    compare_print_row(strchr(name, '/') + 1, x->count, x->cells);
}

static bool is_new_metric(const comparison *x, size_t run, const char *name)
{
    bool known = strncmp(name, "eval/", 5) != 0 || strcmp(name, "eval/train_loss") == 0;
    for (size_t k = 0; k < run && !known; k++)
        known = qkv_run_log_find(x->runs[k], name) != NULL;
    return !known;
}

static void print_comparison(const comparison *x)
{
    const char *name;
    const qkv_run_series *s;
    for (size_t k = 0; k < x->count; k++)
        x->cells[k] = qkv_run_log_directory(x->runs[k]);
    compare_print_row("", x->count, x->cells);
    for (size_t i = 0; qkv_runs_difference(x->runs, x->count, i, &name, x->cells); i++)
        compare_print_row(name, x->count, x->cells);
    printf("\n");
    print_numbers(x, "steps", qkv_run_log_steps);
    print_numbers(x, "seconds", qkv_run_log_seconds);
    print_numbers(x, "kept step", qkv_run_log_best);
    for (size_t k = 0; k < x->count; k++)
        for (size_t i = 0; (s = qkv_run_log_at(x->runs[k], i)) != NULL; i++)
            if (is_new_metric(x, k, s->name))
                print_metric(x, s->name);
}

static int answer_comparison(cli *c, const comparison *x, const char *out)
{
    if (out && qkv_runs_report(c->ctx, x->runs, x->count, out))
        return cli_error(c);
    if (!c->common.json) {
        print_comparison(x);
        return cli_flush();
    }
    qkv_json_writer w = cli_object(c);
    qkv_runs_json(x->runs, x->count, &w);
    return cli_answer(c, &w);
}

enum { MOST_RUNS = 1000 };

static int compare_run(cli *c, int argc, char **argv)
{
    compare_settings s;
    cli_bind(c, &compare_table, &s);
    int refused = cli_parse(c, argc, argv, 1, MOST_RUNS);
    if (refused)
        return refused;
    comparison x = {.count = c->args.count};
    x.runs = calloc(x.count, sizeof *x.runs);
    x.cells = calloc(x.count, sizeof *x.cells);
    x.text = calloc(x.count, sizeof *x.text);
    int code = x.runs && x.cells && x.text ? CLI_DONE : cli_fail("out of memory");
    for (size_t i = 0; i < x.count && code == CLI_DONE; i++)
        if (qkv_run_log_open(&x.runs[i], c->ctx, c->args.items[i]))
            code = cli_error(c);
    if (code == CLI_DONE)
        code = answer_comparison(c, &x, s.out);
    for (size_t i = 0; i < x.count && x.runs; i++)
        qkv_run_log_close(x.runs[i]);
    free(x.runs);
    free(x.cells);
    free(x.text);
    return code;
}

static const char *const compare_examples[] = {
    "qkv compare runs/a runs/b", "qkv compare runs/* --out compared.html",
    "qkv compare runs/a runs/b --json", NULL};

CLI_COMMAND(cli_compare, 606) = {
    .manual = {.name = "compare", .summary = "compare training runs",
               .usage = "RUN... [--out FILE]", .examples = compare_examples,
               .text = "Prints the settings that are not the same in all runs, how far each "
                       "went, and the held-out metrics of the model that it keeps. --out writes "
                       "a page with curves of the runs over steps and over seconds."},
    .own = {&compare_table}, .run = compare_run};
