/* translate.c - `qkv translate`: one line out for every line in. */
#include <stdio.h>
#include <unistd.h>

#include "core/cli.h"

typedef struct {
    const char *file;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "FILE",
     .help = "text to translate; else the standard input"},
};
static const qkv_option_table table = {"Translating", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_pipeline_translate_options o;
    int code;
    bool talk;   /* somebody types: each line is answered at once, without progress between */
} job;

/* ---- answers -------------------------------------------------------------------------- */

/* A token may be a newline; a line of the answer has none. */
static void translate_put_text(const qkv_text *text)
{
    for (size_t i = 0; i < text->len; i++)
        (void)putchar(text->data[i] == '\n' || text->data[i] == '\r' ? ' ' : text->data[i]);
}

static int put_plain(const job *j, size_t line, const qkv_translated *found)
{
    for (size_t i = 0; i < found->count; i++) {
        if (j->o.n_best > 1)
            printf("%zu ||| ", line);
        translate_put_text(&found->best[i].text);
        if (j->o.n_best > 1)
            printf(" ||| %.6f", found->best[i].score);
        (void)putchar('\n');
    }
    return cli_flush();
}

static void put_bytes(qkv_json_writer *w, const qkv_text *text)
{
    qkv_json_put_bytes(w, "text", text->data ? text->data : "", text->len);
}

static int translate_put_json(const job *j, const qkv_translated *found)
{
    qkv_json_writer w = cli_object(j->c);
    if (j->o.n_best > 1) {
        qkv_json_begin_array(&w, "hyps");
        for (size_t i = 0; i < found->count; i++) {
            qkv_json_begin_object(&w, NULL);
            put_bytes(&w, &found->best[i].text);
            qkv_json_put_real(&w, "score", found->best[i].score);
            qkv_json_end_object(&w);
        }
        qkv_json_end_array(&w);
    } else {
        put_bytes(&w, &found->best[0].text);
    }
    return cli_answer(j->c, &w);
}

static bool use_translate_on_line(void *user, size_t line, const qkv_translated *found)
{
    job *j = user;
    if (j->c->common.json)
        j->code = translate_put_json(j, found);
    else
        j->code = put_plain(j, line, found);
    return j->code == CLI_DONE && !(j->talk && cli_stopped());
}

/* ---- the command --------------------------------------------------------------------- */

static qkv_status translate_open_file(const job *j, FILE **in)
{
    const char *file = j->s.file;
    *in = file && !qkv_dir_exists(file) ? fopen(file, "rb") : file ? NULL : stdin;
    if (*in)
        return QKV_OK;
    return qkv_fail(j->c->ctx, QKV_E_IO, qkv_dir_exists(file)
                    ? "%s: expected a file, found a folder" : "%s: cannot be opened", file);
}

static qkv_status use_translate(job *j, qkv_pipeline *p,
                                const qkv_pipeline_translate_options *given)
{
    FILE *in = NULL;
    j->o = qkv_pipeline_translate_defaults(p);
    cli_take_given(j->c, qkv_pipeline_translate_table(), given, &j->o);
    qkv_status status = translate_open_file(j, &in);
    j->talk = !status && isatty(fileno(in)) == 1;
    if (j->talk) {
        j->o.lines = 1;
        cli_listen_notes(j->c);
    }
    if (!status)
        status = qkv_pipeline_translate_file(p, in, j->s.file ? j->s.file : "the standard input",
                                             &j->o, use_translate_on_line, j);
    if (in && in != stdin)
        (void)fclose(in);
    return status;
}

static int translate_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    qkv_pipeline_translate_options given;
    qkv_pipeline *p = NULL;
    cli_bind(c, qkv_pipeline_translate_table(), &given);
    cli_bind(c, &table, &j.s);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    cli_catch_signals();
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = use_translate(&j, p, &given);
    qkv_pipeline_close(p);
    return status ? cli_error(c) : j.code;
}

static const char *const examples[] = {
    "qkv translate runs/en-de <in.en >out.de", "qkv translate runs/en-de --beam 5 --file in.en",
    "qkv translate opus-mt-en-de --n-best 4 --json <in.en",
    "qkv translate runs/a --ensemble runs/b runs/c <in.en",
    "qkv translate runs/en-de --reverse runs/de-en <in.en", NULL};
static const qkv_preset presets[] = {
    {"beam", "4", "as the directory says, or 4"},
    {"length-penalty", "1", "as the directory says, or 1"},
    {"max-length", "512", "as the directory says, or the model's positions"},
    {"max-length-factor", "3", "3; of a T5 0"},
    {NULL, NULL, NULL}};

CLI_COMMAND(cli_translate, 410) = {
    .manual = {.name = "translate", .summary = "translate lines of text",
               .usage = "DIR [--beam N] [options] <IN >OUT", .examples = examples,
               .presets = presets,
               .text = "Writes one line for every line it reads, an empty one for an empty one, "
                       "found by beam search as the directory's generation_config.json says "
                       "(Hugging Face's search). Lines are read about 4000 at a time and sorted "
                       "by length for the search; the answers keep their order. --json: an "
                       "object a line, {\"text\"}, or with --n-best {\"hyps\": [{\"text\", "
                       "\"score\"}, ..]}; without it --n-best writes \"line ||| text ||| "
                       "score\", lines counted from 0. --shortlist: fewer tokens to choose among, "
                       "which is faster where the vocabulary is large, and may change a "
                       "translation (qkv shortlist makes one). --ensemble: the probabilities of "
                       "several models, of the same tokens, are multiplied and normalised. "
                       "--reverse: finished hypotheses are rescored by a model of the other "
                       "direction. --max-length-factor: a model that repeats a word without end "
                       "is stopped, and what has ended is preferred; --n-best may have fewer then, "
                       "and 0 searches exactly as Hugging Face does."},
    .library = {qkv_pipeline_translate_table},
    .own = {&table}, .opens = true, .ranks = true, .run = translate_run};
