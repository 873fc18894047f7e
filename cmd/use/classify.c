/* classify.c - `qkv classify`: labels for texts, images and series. */
#include <stdio.h>
#include <string.h>

#include "core/cli.h"

enum { TOP = 5 }; /* labels of an image */

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
    size_t bad; /* images that could not be read */
    int code;
} job;

/* file: of an image; NULL: there is none. */
static int classify_answer_json(const job *j, const char *file, size_t best, const qkv_real *probs,
                                size_t classes)
{
    qkv_json_writer w = cli_object(j->c);
    if (file)
        qkv_json_put_string(&w, "file", file);
    qkv_json_put_string(&w, "label", qkv_pipeline_label(j->p, best));
    qkv_json_begin_object(&w, "probs");
    for (size_t i = 0; i < classes; i++)
        qkv_json_put_real(&w, qkv_pipeline_label(j->p, i), (double)probs[i]);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

/* ---- texts ------------------------------------------------------------------------------- */

static bool on_text(void *user, const qkv_classified *t)
{
    job *j = user;
    if (j->c->common.json)
        j->code = classify_answer_json(j, NULL, t->best, t->probabilities, t->classes);
    else
        printf("%s\t%.4f\n", qkv_pipeline_label(j->p, t->best), (double)t->probabilities[t->best]);
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

/* ---- series ------------------------------------------------------------------------------- */

static int classify_series(job *j, const settings *s)
{
    const qkv_strings *args = &j->c->args;
    size_t count = s->file ? 1 : args->count - 1;
    if (!count)
        return cli_usage(j->c, "%s labels series: no file is named", args->items[0]);
    for (size_t i = 0; i < count && j->code == CLI_DONE; i++)
        if (qkv_pipeline_classify_series(j->p, s->file ? s->file : args->items[i + 1], on_text, j))
            return cli_error(j->c);
    return j->code;
}

/* ---- images ---------------------------------------------------------------------------- */

/* A name from a file, which may hold anything: control characters as '?'. */
static void classify_put_name(const char *name)
{
    for (; *name; name++)
        putchar((unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
}

/* "file  cat 0.93  dog 0.04", the likeliest first. */
static int classify_answer(const job *j, const qkv_image_labels *found)
{
    const qkv_real *p = found->probabilities;
    size_t top[TOP] = {0}, count = 0;
    for (size_t i = 0; i < found->classes; i++) {
        size_t at = count < TOP ? count++ : TOP;
        while (at > 0 && p[i] > p[top[at - 1]]) {
            if (at < TOP)
                top[at] = top[at - 1];
            at--;
        }
        if (at < TOP)
            top[at] = i;
    }
    if (j->c->common.json)
        return classify_answer_json(j, found->name, top[0], p, found->classes);
    classify_put_name(found->name);
    for (size_t i = 0; i < count; i++) {
        putchar('\t');
        classify_put_name(qkv_pipeline_label(j->p, top[i]));
        printf(" %.4f", (double)p[top[i]]);
    }
    putchar('\n');
    return CLI_DONE;
}

static bool on_labels(void *user, const qkv_image_labels *found)
{
    job *j = user;
    if (found->error) {
        (void)cli_error(j->c);
        j->bad++;
    } else {
        j->code = classify_answer(j, found);
    }
    return j->code == CLI_DONE && !cli_stopped();
}

static int classify_images(job *j, const settings *s)
{
    const qkv_strings *args = &j->c->args;
    const char *const *paths = s->file ? &s->file : args->items + 1;
    size_t count = s->file ? 1 : args->count - 1;
    if (!count)
        return cli_usage(j->c, "%s labels images: none is named", args->items[0]);
    qkv_image_source *images = qkv_calloc(j->c->ctx, count, sizeof *images);
    for (size_t i = 0; images && i < count; i++)
        images[i].path = paths[i];
    qkv_status status = QKV_E_MEMORY;
    if (images)
        status = qkv_pipeline_classify_images(j->p, images, count, on_labels, j);
    qkv_free(j->c->ctx, images);
    if (status && j->code == CLI_DONE)
        return cli_error(j->c);
    if (j->bad && count > 1)
        cli_note(j->c, "%zu of %zu could not be read", j->bad, count);
    return j->code == CLI_DONE && j->bad ? CLI_FAILED : j->code;
}

static int classify_run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 1, SIZE_MAX);
    if (refused)
        return refused;
    if (s.file && c->args.count > 1)
        return cli_usage(c, "what to label or --file: one of them expected, found both");
    job j = {.c = c};
    cli_catch_signals();
    int code = CLI_DONE;
    if (qkv_pipeline_open_with(&j.p, c->ctx, c->args.items[0], &c->opening))
        code = cli_error(c);
    else if (qkv_model_can(qkv_pipeline_model(j.p), QKV_CAN_CLASSIFY_SERIES))
        code = classify_series(&j, &s);
    else
        code = qkv_model_can(qkv_pipeline_model(j.p), QKV_CAN_CLASSIFY_IMAGES)
                   ? classify_images(&j, &s)
                   : classify_texts(&j, &s);
    qkv_pipeline_close(j.p);
    return code;
}

static const char *const examples[] = {
    "qkv classify runs/reviews \"a funny , moving film\"",
    "qkv classify runs/reviews --file texts.txt --json > answers.jsonl",
    "qkv classify runs/photos cat.jpg dog.png",
    "qkv classify runs/steps walks.csv", NULL};

static const qkv_preset presets[] = {{"file", NULL, "standard input without texts"},
                                      {NULL, NULL, NULL}};

CLI_COMMAND(cli_classify, 430) = {
    .manual = {.name = "classify", .summary = "label texts, images or series",
               .usage = "DIR [TEXT... | IMAGE... | CSV... | --file FILE]", .examples = examples,
               .text = "The likeliest label of each text, or pair of texts with a tab between, "
                       "and its probability: a line for every text, in order. --json: objects "
                       "{\"label\", \"probs\": {label: probability}}.\n\n"
                       "With a model of images: of each PNG or JPEG, and of all images of "
                       "each folder, tar or idx file, the 5 likeliest labels; --json: objects "
                       "that begin with \"file\". What cannot be read is named and passed "
                       "over; the exit code is 1 then.\n\n"
                       "With a model of series: of each line of each CSV file, values step after "
                       "step without a label; answers are those of texts.",
               .presets = presets},
    .own = {&table}, .opens = true, .ranks = true, .run = classify_run};
