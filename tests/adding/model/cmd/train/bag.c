/* bag.c - `qkv train bag` and `qkv bag`: labels of texts by their words. */
#include <stdio.h>
#include <string.h>

#include "train/train.h"

static const char *const train_examples[] = {
    "qkv train bag --data reviews.tsv --minutes 1 --out runs/bag",
    "qkv train bag --data reviews.tsv --set hidden_size=16 --out runs/small", NULL};

CLI_COMMAND(cli_train_bag, 235) = {
    .manual = {.name = "train bag", .summary = "train a model to label texts by their words",
               .usage = "--data TSV --out DIR [options]", .examples = train_examples,
               .text = "Learns from lines of a label, a tab and a text, as train classify, but "
                       "looks at the mean of the words' vectors alone: in seconds, and what a "
                       "transformer has to be better than. Evaluates on what it holds out: "
                       "accuracy, "
                       "by which the model is chosen; loss. Without --steps or --minutes it takes "
                       "5 minutes."},
    .job = "bag", .run = train_run};

static int answer(cli *c, qkv_pipeline *p, const char *text, qkv_real *probabilities)
{
    size_t best, classes = qkv_model_label_count(qkv_pipeline_model(p));
    if (qkv_pipeline_bag(p, text, strlen(text), &best, probabilities))
        return cli_error(c);
    if (!c->common.json) {
        printf("%s\t%.4f\n", qkv_pipeline_label(p, best), (double)probabilities[best]);
        return CLI_DONE;
    }
    qkv_json_writer w;
    qkv_json_writer_init(&w, c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "label", qkv_pipeline_label(p, best));
    qkv_json_begin_object(&w, "probs");
    for (size_t i = 0; i < classes; i++)
        qkv_json_put_real(&w, qkv_pipeline_label(p, i), (double)probabilities[i]);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    return cli_answer(c, &w);
}

static int run(cli *c, int argc, char **argv)
{
    if (cli_parse(c, argc, argv, 2, SIZE_MAX))
        return CLI_USAGE;
    qkv_pipeline *p = NULL;
    if (qkv_pipeline_open(&p, c->ctx, c->args.items[0]))
        return cli_error(c);
    size_t classes = qkv_model_label_count(qkv_pipeline_model(p));
    qkv_real *probabilities = qkv_calloc(c->ctx, classes + 1, sizeof *probabilities);
    int code = probabilities ? CLI_DONE : cli_error(c);
    for (size_t i = 1; i < c->args.count && code == CLI_DONE; i++)
        code = answer(c, p, c->args.items[i], probabilities);
    qkv_free(c->ctx, probabilities);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {"qkv bag runs/bag \"a funny , moving film\"", NULL};

CLI_COMMAND(cli_bag, 435) = {
    .manual = {.name = "bag", .summary = "label texts by their words", .usage = "DIR TEXT...",
               .examples = examples,
               .text = "The likeliest label of each text and its probability, a line for each. "
                       "--json: objects {\"label\", \"probs\": {label: probability}}."},
    .run = run};
