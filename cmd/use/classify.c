/* classify.c - `qkv classify`: labels for texts; for pictures: recognize.c. */
#include <stdio.h>
#include <string.h>

#include "use/label.h"
#include "use/recognize.h"
#include "core/commands.h"
#include "qkv/texts.h"
#include "qkv/bert.h"
#include "qkv/hub.h"
#include "qkv/run.h"
#include "qkv/vit.h"

enum { TEXTS = 256 }; /* answered at once */

typedef struct {
    const char *file;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "FILE",
     .help = "texts to label, one a line; two texts with a tab between. Or pictures"},
};
static const qkv_option_table table = {"Classifying", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    size_t classes;
    qkv_text_pair texts[TEXTS];
    size_t count, cut;
    qkv_real *probs; /* (TEXTS, classes) */
} job;

/* A line's one text, or its two. */
static qkv_text_pair pair_of(const char *text, size_t len)
{
    const char *tab = memchr(text, '\t', len);
    size_t first = tab ? (size_t)(tab - text) : len;
    return (qkv_text_pair){text, first, tab ? tab + 1 : NULL, tab ? len - first - 1 : 0};
}

static int answer(const job *j, const qkv_real *p)
{
    char room[CLI_LABEL];
    size_t best = 0;
    for (size_t i = 1; i < j->classes; i++)
        if (p[i] > p[best])
            best = i;
    if (!j->c->common.json) {
        printf("%s\t%.4f\n", cli_label(j->model, best, room), (double)p[best]);
        return CLI_DONE;
    }
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "label", cli_label(j->model, best, room));
    qkv_json_begin_object(&w, "probs");
    for (size_t i = 0; i < j->classes; i++)
        qkv_json_put_real(&w, cli_label(j->model, i, room), (double)p[i]);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

/* Labels the texts that have gathered. */
static int flush_texts(job *j)
{
    size_t cut = 0;
    int code = CLI_DONE;
    if (qkv_classify(j->model, j->tokenizer, j->texts, j->count, j->probs, &cut))
        return cli_error(j->c);
    for (size_t i = 0; i < j->count && code == CLI_DONE; i++)
        code = answer(j, j->probs + i * j->classes);
    j->cut += cut;
    j->count = 0;
    return code;
}

static int add(job *j, const char *text, size_t len)
{
    j->texts[j->count++] = pair_of(text, len);
    return j->count == TEXTS ? flush_texts(j) : CLI_DONE;
}

static int classify_file(job *j, const char *file)
{
    qkv_texts x = {0};
    qkv_line line;
    if (qkv_texts_open_one(&x, j->c->ctx, file))
        return cli_error(j->c);
    const char *at = x.parts[0].data, *end = at + x.parts[0].len;
    int code = CLI_DONE;
    while (code == CLI_DONE && !cli_stopped() && qkv_next_line(&at, end, &line))
        code = add(j, line.data, line.len);
    if (code == CLI_DONE)
        code = flush_texts(j);
    qkv_texts_close(&x);
    return code;
}

/* Of texts. */
static qkv_status open_texts(job *j, const char *dir)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = QKV_OK;
    if (qkv_model_type_of(j->model) != &qkv_bert_classifier_type)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s does not classify texts", dir,
                          qkv_model_type_architecture(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_tokenizer_load(&j->tokenizer, ctx, dir);
    if (status)
        return status;
    j->classes = ((const qkv_bert_config *)qkv_model_config(j->model))->classes;
    j->probs = qkv_calloc(ctx, TEXTS * j->classes, sizeof *j->probs);
    return j->probs ? QKV_OK : QKV_E_MEMORY;
}

static int classify_texts(job *j, const settings *s)
{
    const qkv_strings *args = &j->c->args;
    int code = open_texts(j, args->items[0]) ? cli_error(j->c) : CLI_DONE;
    for (size_t i = 1; i < args->count && code == CLI_DONE; i++)
        code = add(j, args->items[i], strlen(args->items[i]));
    if (code == CLI_DONE)
        code = args->count > 1 ? flush_texts(j)
                               : classify_file(j, s->file ? s->file : "/dev/stdin");
    if (j->cut)
        cli_note(j->c, "%zu texts are longer than the model reads: their ends were not read",
                 j->cut);
    return code;
}

static int classify_pictures(job *j, const settings *s)
{
    const qkv_strings *args = &j->c->args;
    if (s->file)
        return cli_recognize(j->c, j->model, &s->file, 1);
    if (args->count < 2)
        return cli_usage(j->c, "%s labels pictures: none is named", args->items[0]);
    return cli_recognize(j->c, j->model, args->items + 1, args->count - 1);
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 1, SIZE_MAX))
        return CLI_USAGE;
    if (s.file && c->args.count > 1)
        return cli_usage(c, "what to label or --file: one of them expected, found both");
    job j = {.c = c};
    cli_catch_signals();
    int code = CLI_DONE;
    if (qkv_hub_load(&j.model, c->ctx, c->args.items[0]))
        code = cli_error(c);
    else
        code = qkv_model_is_vit(j.model) ? classify_pictures(&j, &s) : classify_texts(&j, &s);
    qkv_free(c->ctx, j.probs);
    qkv_model_destroy(j.model);
    qkv_tokenizer_destroy(j.tokenizer);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv classify runs/reviews \"a funny , moving film\"",
    "qkv classify runs/reviews --file texts.txt --json > answers.jsonl",
    "qkv classify runs/photos cat.jpg dog.png", NULL};

static const qkv_preset presets[] = {{"file", NULL, "standard input without texts"},
                                      {NULL, NULL, NULL}};

const cli_command cli_classify = {
    .manual = {.name = "classify", .summary = "label texts or pictures",
               .usage = "DIR [TEXT... | PICTURE... | --file FILE]", .examples = examples,
               .tables = tables,
               .text = "The likeliest label of each text, or pair of texts with a tab between, "
                       "and its probability: a line for every text, in order. --json: objects "
                       "{\"label\", \"probs\": {label: probability}}.\n\n"
                       "With a model of pictures: of each PNG or JPEG, and of all pictures of "
                       "each folder, tar or idx file, the 5 likeliest labels; --json: objects "
                       "that begin with \"file\". What cannot be read is named and passed "
                       "over; the exit code is 1 then.",
               .presets = presets},
    .run = run};
