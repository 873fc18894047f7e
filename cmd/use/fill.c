/* fill.c - `qkv fill`: what may stand where a text says [MASK]. */
#include <stdio.h>

#include "core/cli.h"

typedef struct {
    cli *c;
    int code;
} job;

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

static int fill_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    qkv_pipeline_fill_options o;
    qkv_pipeline *p = NULL;
    cli_bind(c, qkv_pipeline_fill_table(), &o);
    if (cli_parse(c, argc, argv, 2, 2))
        return CLI_USAGE;
    cli_listen_notes(c);
    qkv_status status = qkv_pipeline_open(&p, c->ctx, c->args.items[0]);
    if (!status)
        status = qkv_pipeline_fill(p, c->args.items + 1, 1, &o, on_mask, &j);
    qkv_pipeline_close(p);
    return status ? cli_error(c) : j.code;
}

static const char *const examples[] = {
    "qkv fill runs/words \"the [MASK] sat on the [MASK] .\"",
    "qkv fill runs/words \"the [MASK] sat .\" --top-k 3 --json", NULL};

CLI_COMMAND(cli_fill, 420) = {
    .manual = {.name = "fill", .summary = "guess the hidden words of a text",
               .usage = "DIR TEXT [--top-k K]", .examples = examples,
               .text = "The likeliest tokens for every [MASK] in the text, one mask after "
                       "another, with their probabilities. --json: an object a mask, "
                       "{\"fills\": [{\"token\", \"prob\"}, ..]}."},
    .library = {qkv_pipeline_fill_table},
    .run = fill_run};
