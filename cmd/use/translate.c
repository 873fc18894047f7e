/* translate.c - `qkv translate`: one line out for every line in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/commands.h"
#include "io/file.h"
#include "qkv/marian.h"
#include "qkv/run.h"

/* Lines, and bytes of them, that are translated together: they are sorted by length, so more is
 * faster, and memory goes with them. */
enum { CHUNK_LINES = 4096, CHUNK_BYTES = 1 << 20 };

typedef struct {
    size_t beams, n_best, batch, max_length;
    double length_penalty;
    bool gnmt;
    const char *file;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "beam", .type = QKV_OPT_SIZE, .min = 1, .max = QKV_BEAMS, FIELD(beams), .value = "N",
     .initial = "4", .help = "hypotheses kept of each line; 1: greedy"},
    {.flag = "n-best", .type = QKV_OPT_SIZE, .min = 1, .max = QKV_BEAMS, FIELD(n_best),
     .value = "N", .initial = "1", .help = "answers to every line, with scores; --beam at most"},
    {.flag = "length-penalty", .type = QKV_OPT_REAL, .min = -100, .max = 100,
     FIELD(length_penalty), .value = "A", .initial = "1",
     .help = "scores are log p / length^A: above 0 favours long answers"},
    {.flag = "gnmt", .type = QKV_OPT_BOOL, FIELD(gnmt),
     .help = "scores are log p / ((5 + length) / 6)^A"},
    {.flag = "max-length", .type = QKV_OPT_SIZE, .min = 2, .max = 16777216, FIELD(max_length),
     .initial = "512", .help = "most tokens of an answer, the first input counted"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(batch), .initial = "64",
     .help = "lines searched at once"},
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "text to translate; else the standard input"},
};
static const qkv_option_table table = {"Translating", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    qkv_beam_search *search;
    FILE *in;
    bool talk;       /* somebody types: each line is answered at once */
    size_t lines, cut; /* of the chunks before; lines that were too long */
    cli_progress progress;
    bool failed;     /* memory, for an answer */
} job;

/* ---- answers -------------------------------------------------------------------------- */

/* A token may be a newline; a line of the answer has none. */
static void put_text(const qkv_text *text)
{
    for (size_t i = 0; i < text->len; i++)
        (void)putchar(text->data[i] == '\n' || text->data[i] == '\r' ? ' ' : text->data[i]);
}

static void put_plain(const job *j, size_t line, const qkv_translated *found)
{
    for (size_t i = 0; i < found->count; i++) {
        if (j->s.n_best > 1)
            printf("%zu ||| ", line);
        put_text(&found->best[i].text);
        if (j->s.n_best > 1)
            printf(" ||| %.6f", found->best[i].score);
        (void)putchar('\n');
    }
}

static void put_bytes(qkv_json_writer *w, const qkv_text *text)
{
    qkv_json_put_bytes(w, "text", text->data ? text->data : "", text->len);
}

static void put_json(job *j, const qkv_translated *found)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    if (j->s.n_best > 1) {
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
    qkv_json_end_object(&w);
    const char *text = qkv_json_writer_text(&w);
    j->failed = j->failed || !text;
    printf("%s\n", text ? text : "");
    qkv_json_writer_free(&w);
}

static void on_line(void *user, size_t line, const qkv_translated *found)
{
    job *j = user;
    j->cut += found->cut;
    if (j->c->common.json)
        put_json(j, found);
    else
        put_plain(j, j->lines + line, found);
}

/* ---- chunks --------------------------------------------------------------------------- */

static bool on_progress(void *user, size_t lines)
{
    job *j = user;
    cli_progress_show(&j->progress, j->lines + lines, 0, NULL);
    return !cli_stopped();
}

static qkv_status translate(job *j, const qkv_str *text, size_t lines)
{
    qkv_translate_text_options o = qkv_translate_text_defaults();
    o.batch = j->s.batch;
    o.n_best = j->s.n_best;
    o.first_line = j->lines + 1;
    o.progress = on_progress;
    o.user = j;
    qkv_status status =
        qkv_translate(j->search, j->tokenizer, text->data, text->len, &o, on_line, j);
    if (!status && j->failed)
        status = qkv_fail(j->c->ctx, QKV_E_MEMORY, "out of memory");
    j->lines += lines;
    (void)fflush(stdout);
    return status;
}

static qkv_status read_all(job *j)
{
    qkv_context *ctx = j->c->ctx;
    char *line = NULL;
    size_t room = 0, lines = 0;
    qkv_str text;
    qkv_status status = QKV_OK;
    qkv_str_init(&text, ctx);
    for (;;) {
        ssize_t len = cli_stopped() ? -1 : getline(&line, &room, j->in);
        if (len >= 2 && line[len - 2] == '\r' && line[len - 1] == '\n')
            line[--len - 1] = '\n';
        if (len >= 0) {
            qkv_str_add(&text, line, (size_t)len);
            lines++;
        }
        bool full = lines >= CHUNK_LINES || text.len >= CHUNK_BYTES || (j->talk && lines);
        if (text.failed)
            status = QKV_E_MEMORY;
        else if ((len < 0 && lines) || full)
            status = translate(j, &text, lines);
        if (status || len < 0)
            break;
        if (full) {
            qkv_str_clear(&text);
            lines = 0;
        }
    }
    if (!status && ferror(j->in))
        status = qkv_fail(ctx, QKV_E_IO, "%s: cannot be read",
                          j->s.file ? j->s.file : "the standard input");
    free(line);
    qkv_str_free(&text);
    return status;
}

/* ---- the command --------------------------------------------------------------------- */

static bool given(const job *j, const char *flag)
{
    return qkv_options_given(j->c->options, flag);
}

/* What the directory says, and over it what the command line does. */
static qkv_status open_search(job *j, const char *dir)
{
    qkv_generation g;
    qkv_status status = qkv_hub_load_generation(&g, j->model, dir);
    if (status)
        return status;
    if (given(j, "beam"))
        g.beams = j->s.beams;
    if (given(j, "length-penalty"))
        g.length_penalty = j->s.length_penalty;
    if (given(j, "max-length")) {
        g.max_length = j->s.max_length;
        g.max_new_tokens = 0;
    }
    g.gnmt = j->s.gnmt;
    if (j->s.n_best > g.beams)
        return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--n-best: at most as many as there are beams, "
                        "%zu, expected, found %zu", g.beams, j->s.n_best);
    status = qkv_beam_search_create(&j->search, j->model, &g);
    return status ? qkv_fail_prefix(j->c->ctx, dir) : QKV_OK;
}

static qkv_status open_all(job *j, const char *dir)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = qkv_hub_load(&j->model, ctx, dir);
    if (!status && !qkv_model_is_translator(j->model))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s model does not translate", dir,
                          qkv_model_type_name(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_tokenizer_load(&j->tokenizer, ctx, dir);
    if (!status)
        status = open_search(j, dir);
    j->in = stdin;
    if (!status && j->s.file && qkv_dir_exists(j->s.file))
        status = qkv_fail(ctx, QKV_E_IO, "%s: expected a file, found a folder", j->s.file);
    else if (!status && j->s.file && !(j->in = fopen(j->s.file, "rb")))
        status = qkv_fail(ctx, QKV_E_IO, "%s: cannot be opened", j->s.file);
    j->talk = !status && isatty(fileno(j->in)) == 1;
    return status;
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    cli_catch_signals();
    qkv_status status = open_all(&j, c->args.items[0]);
    cli_progress_begin(&j.progress, c, "translating", "lines", 0);
    j.progress.silent = j.progress.silent || j.talk;
    if (!status)
        status = read_all(&j);
    cli_progress_end(&j.progress);
    if (!status && j.cut)
        cli_note(c, "%zu lines were longer than the model can read: their ends are missing", j.cut);
    if (j.s.file && j.in)
        (void)fclose(j.in);
    qkv_beam_search_destroy(j.search);
    qkv_tokenizer_destroy(j.tokenizer);
    qkv_model_destroy(j.model);
    return status ? cli_error(c) : CLI_DONE;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv translate runs/en-de <in.en >out.de", "qkv translate runs/en-de --beam 5 --file in.en",
    "qkv translate opus-mt-en-de --n-best 4 --json <in.en", NULL};
static const qkv_preset presets[] = {
    {"beam", "4", "as the directory says, or 4"},
    {"length-penalty", "1", "as the directory says, or 1"},
    {"max-length", "512", "as the directory says, or the model's positions"},
    {NULL, NULL, NULL}};

const cli_command cli_translate = {
    .manual = {.name = "translate", .summary = "translate lines of text",
               .usage = "DIR [--beam N] [options] <IN >OUT", .examples = examples,
               .tables = tables, .presets = presets,
               .text = "Writes one line for every line it reads, an empty one for an empty one, "
                       "found by beam search as the directory's generation_config.json says "
                       "(Hugging Face's search). Lines are read about 4000 at a time and sorted "
                       "by length for the search; the answers keep their order. --json: an "
                       "object a line, {\"text\"}, or with --n-best {\"hyps\": [{\"text\", "
                       "\"score\"}, ..]}; without it --n-best writes \"line ||| text ||| "
                       "score\", lines counted from 0."},
    .run = run};
