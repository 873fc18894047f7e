/* fill.c - `qkv fill`: what may stand where a text says [MASK], and where a series has gaps. */
#include <math.h>
#include <stdio.h>

#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .offset = offsetof(settings, out), .value = "F.csv",
     .help = "of a series: the file that is written; else standard output"},
};
static const qkv_option_table table = {"Series", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    int code;
} job;

/* ---- texts ----------------------------------------------------------------------------------- */

static int fill_put_json(const job *j, const qkv_filled *f)
{
    qkv_json_writer w = cli_object(j->c);
    qkv_json_begin_array(&w, "fills");
    for (size_t i = 0; i < f->count; i++) {
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_bytes(&w, "token", f->best[i].text, f->best[i].len);
        qkv_json_put_real(&w, "prob", f->best[i].prob);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    return cli_answer(j->c, &w);
}

static bool on_mask(void *user, const qkv_filled *f)
{
    job *j = user;
    if (j->c->common.json) {
        j->code = fill_put_json(j, f);
        return j->code == CLI_DONE;
    }
    printf("%s", f->mask ? "\n" : "");
    for (size_t i = 0; i < f->count; i++)
        printf("%.4f  %.*s\n", f->best[i].prob, (int)f->best[i].len, f->best[i].text);
    return true;
}

/* ---- series ---------------------------------------------------------------------------------- */

/* The rows, and the values that were missing: [row, column] from 0. */
static int series_json(cli *c, const qkv_array *before, const qkv_array *y)
{
    size_t columns = y->shape[1];
    qkv_json_writer w = cli_object(c);
    cli_put_series(&w, y);
    qkv_json_begin_array(&w, "filled");
    for (size_t i = 0; i < y->count; i++)
        if (!isfinite(before->data[i]))
            qkv_json_put_sizes(&w, NULL, (size_t[]){i / columns, i % columns}, 2);
    qkv_json_end_array(&w);
    return cli_answer(c, &w);
}

static int fill_series(cli *c, qkv_pipeline *p, const char *out)
{
    qkv_array before, y;
    if (qkv_pipeline_fill_series_file(p, c->args.items[1], &before, &y))
        return cli_error(c);
    size_t filled = 0;
    for (size_t i = 0; i < before.count; i++)
        filled += isfinite(before.data[i]) == 0;
    qkv_str text;
    qkv_str_init(&text, c->ctx);
    qkv_csv_text(&text, &y);
    int code = CLI_DONE;
    if (text.failed || (out && qkv_file_write(c->ctx, out, text.data, text.len)))
        code = cli_error(c);
    else if (c->common.json)
        code = series_json(c, &before, &y);
    else if (!out)
        (void)fwrite(text.data, 1, text.len, stdout);
    if (!code && out)
        cli_note(c, "%zu of %zu values filled in", filled, before.count);
    qkv_str_free(&text);
    qkv_array_free(&before);
    qkv_array_free(&y);
    return code ? code : cli_flush();
}

static int fill_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    settings s;
    qkv_pipeline_fill_options o;
    qkv_pipeline *p = NULL;
    cli_bind(c, qkv_pipeline_fill_table(), &o);
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 2, 2);
    if (refused)
        return refused;
    cli_listen_notes(c);
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    bool series = !status && qkv_model_can(qkv_pipeline_model(p), QKV_CAN_FILL_SERIES);
    if (series && qkv_options_given(c->options, "top-k"))
        j.code = cli_usage(c, "--top-k is for words; %s fills in numbers", c->args.items[0]);
    else if (series)
        j.code = fill_series(c, p, s.out);
    else if (!status && s.out)
        j.code = cli_usage(c, "--out is for series; %s fills in words", c->args.items[0]);
    else if (!status)
        status = qkv_pipeline_fill(p, c->args.items + 1, 1, &o, on_mask, &j);
    qkv_pipeline_close(p);
    return status ? cli_error(c) : j.code;
}

static const char *const examples[] = {
    "qkv fill runs/words \"the [MASK] sat on the [MASK] .\"",
    "qkv fill runs/words \"the [MASK] sat .\" --top-k 3 --json",
    "qkv fill runs/gaps measured.csv --out filled.csv", NULL};

CLI_COMMAND(cli_fill, 420) = {
    .manual = {.name = "fill", .summary = "guess hidden words, or missing numbers",
               .usage = "DIR TEXT [--top-k K] | DIR CSV [--out F.csv]", .examples = examples,
               .text = "The likeliest tokens for every [MASK] in the text, one mask after "
                       "another, with their probabilities. --json: an object a mask, "
                       "{\"fills\": [{\"token\", \"prob\"}, ..]}.\n\n"
                       "With a model of qkv train fill: the columns of a CSV file that the model "
                       "was trained on, whose missing values (empty cells, NaN, NA, N/A, null, ?, "
                       "-; in a file of one column also empty lines) are filled in. --json: "
                       "{\"columns\", \"rows\", \"filled\": [[row, column], ..]}, from 0."},
    .library = {qkv_pipeline_fill_table}, .own = {&table},
    .opens = true, .run = fill_run};
