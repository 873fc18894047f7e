/* bag.c - `qkv train bag`: labelled lines become a classifier that goes by their words. */
#include "qkv/bag.h"

#include "job/run.h"
#include "job/vocabulary.h"
#include "qkv/corpus.h"
#include "text/texts.h"

enum { LENGTH = 1024 }; /* tokens that are read of a text */
static const double RATE = 0.01; /* when none is given */

typedef struct {
    const char *data, *valid, *valid_last;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(data),
     .value = "TSV", .help = "lines of label, tab, text"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "TSV",
     .help = "the same to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: lines or share held out at the end of the data"},
};
static const qkv_option_table table = {"Bag of words", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    settings s;
    qkv_vocabulary vocabulary;
    qkv_bag_config config;
    qkv__text_split texts;
    qkv_labels labels;
} job;

static qkv_status make_model(job *j)
{
    qkv__run *r = &j->base;
    qkv_status status = qkv__vocabulary_train(r->ctx, &j->vocabulary, r->options,
                                              1 << QKV_TOKEN_UNK, j->texts.data.spans,
                                              j->texts.train_count, NULL, 0, &r->tokenizer);
    if (status)
        return status;
    j->config.vocab = qkv_tokenizer_vocab_size(r->tokenizer);
    j->config.classes = j->labels.count;
    status = qkv__run_create(r, qkv_bag_type(), &j->config);
    return status ? status : qkv_model_set_labels(r->model, (const char *const *)j->labels.names,
                                                  j->labels.count);
}

static qkv_status read_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_strings data = {.items = &j->s.data, .count = 1};
    j->labels.ctx = base->ctx;
    qkv_status status = qkv__text_split_open(&j->texts, base->ctx, &data, j->s.valid,
                                             j->s.valid_last, true);
    for (size_t i = 0; i < j->texts.train_count && !status; i++)
        status = qkv_labels_collect(&j->labels, &j->texts.data.spans[i]);
    if (!status)
        status = base->o.init ? qkv__run_init(base) : make_model(j);
    if (!status && qkv_model_type_of(base->model) != qkv_bag_type())
        status = qkv_fail(base->ctx, QKV_E_ARGUMENT, "--init: %s holds no bag of words",
                          base->o.init);
    return status;
}

static qkv_status add_part(qkv__run *base, qkv_records_writer *w, const qkv_text_span *part)
{
    size_t cut = 0;
    return qkv_corpus_add_labelled(w, base->ctx, base->tokenizer, part,
                                   qkv_model_labels(base->model),
                                   qkv_model_label_count(base->model), LENGTH, &cut);
}

static qkv_status write_data(qkv__run *base)
{
    const qkv__text_split *x = &((job *)base)->texts;
    qkv_status status = qkv__run_records(base, x->data.spans, x->train_count, QKV__TRAIN_RECORDS,
                                         3, add_part, &base->train);
    if (!status && x->held_count)
        status = qkv__run_records(base, x->held, x->held_count, QKV__VALID_RECORDS, 3, add_part,
                                  &base->valid);
    return status;
}

static qkv_status begin(qkv__run *base)
{
    const qkv_bag_config *c = qkv_model_config(base->model);
    qkv_status status = qkv_task_bag(&base->task, base->model, base->train, base->valid,
                                     base->o.seed);
    if (status)
        return status;
    qkv__run_rate(base, c->width, RATE);
    qkv__note(base->ctx, "bag of words, %zu tokens in its vocabulary, %zu classes; %zu texts to "
              "learn from, %zu held out", c->vocab, c->classes, qkv_records_count(base->train),
              base->valid ? qkv_records_count(base->valid) : 0);
    return QKV_OK;
}

static void close_data(qkv__run *base)
{
    job *j = (job *)base;
    if (j->labels.ctx)
        qkv_labels_free(&j->labels);
    qkv__text_split_close(&j->texts);
}

static const char *const decided[] = {"vocab_size", "num_labels", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"batch", "32", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.01"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&table, offsetof(job, s)}, {&qkv__vocabulary_table, offsetof(job, vocabulary)},
    QKV__RUN_TABLES, {NULL, 0}};

const qkv__job_kind qkv__job_bag = {
    .name = "bag", .size = sizeof(job), .tables = tables, .presets = presets,
    .type = qkv_bag_type, .config = offsetof(job, config), .read = read_data,
    .write = write_data, .fields = 3, .begin = begin, .close = close_data, .has_text = true,
    .decided = decided};
