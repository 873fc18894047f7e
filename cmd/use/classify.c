/* classify.c - `qkv classify`: labels for texts; for images: classify_images.c. */
#include <stdio.h>
#include <string.h>

#include "use/classify_images.h"
#include "core/commands.h"

typedef struct {
    const char *file;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "FILE",
     .help = "texts to label, one a line; two texts with a tab between. Or images"},
};
static const qkv_option_table table = {"Classifying", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    qkv_pipeline *p;
    int code;
} job;

static bool on_text(void *user, const qkv_classified *t)
{
    job *j = user;
    if (!j->c->common.json) {
        printf("%s\t%.4f\n", qkv_pipeline_label(j->p, t->best), (double)t->probabilities[t->best]);
        return !cli_stopped();
    }
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "label", qkv_pipeline_label(j->p, t->best));
    qkv_json_begin_object(&w, "probs");
    for (size_t i = 0; i < t->classes; i++)
        qkv_json_put_real(&w, qkv_pipeline_label(j->p, i), (double)t->probabilities[i]);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    j->code = cli_answer(j->c, &w);
    return j->code == CLI_DONE && !cli_stopped();
}

static int classify_texts(job *j, const settings *s)
{
    const qkv_strings *args = &j->c->args;
    size_t count = args->count - 1;
    qkv_text_pair *texts = qkv_calloc(j->c->ctx, count + 1, sizeof *texts);
    qkv_status status = texts ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        texts[i] = qkv_text_pair_of(args->items[i + 1], strlen(args->items[i + 1]));
    cli_listen_notes(j->c);
    if (!status && count)
        status = qkv_pipeline_classify_texts(j->p, texts, count, on_text, j);
    else if (!status)
        status = qkv_pipeline_classify_lines(j->p, s->file ? s->file : "/dev/stdin", on_text, j);
    qkv_free(j->c->ctx, texts);
    return status ? cli_error(j->c) : j->code;
}

static int classify_images(job *j, const settings *s)
{
    const qkv_strings *args = &j->c->args;
    if (s->file)
        return cli_classify_images(j->c, j->p, &s->file, 1);
    if (args->count < 2)
        return cli_usage(j->c, "%s labels images: none is named", args->items[0]);
    return cli_classify_images(j->c, j->p, args->items + 1, args->count - 1);
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
    if (qkv_pipeline_open(&j.p, c->ctx, c->args.items[0]))
        code = cli_error(c);
    else
        code = qkv_model_can(qkv_pipeline_model(j.p), QKV_CAN_CLASSIFY_IMAGES)
                   ? classify_images(&j, &s)
                   : classify_texts(&j, &s);
    qkv_pipeline_close(j.p);
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
    .manual = {.name = "classify", .summary = "label texts or images",
               .usage = "DIR [TEXT... | IMAGE... | --file FILE]", .examples = examples,
               .tables = tables,
               .text = "The likeliest label of each text, or pair of texts with a tab between, "
                       "and its probability: a line for every text, in order. --json: objects "
                       "{\"label\", \"probs\": {label: probability}}.\n\n"
                       "With a model of images: of each PNG or JPEG, and of all images of "
                       "each folder, tar or idx file, the 5 likeliest labels; --json: objects "
                       "that begin with \"file\". What cannot be read is named and passed "
                       "over; the exit code is 1 then.",
               .presets = presets},
    .run = run};
