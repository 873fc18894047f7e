/* classify_text.c - labelled texts become a BERT that labels others. */
#include <math.h>
#include <string.h>

#include "job/bert.h"
#include "job/sample.h"
#include "job/classify.h"
#include "job/vocabulary.h"
#include "model/tables.h"
#include "qkv/bert.h"
#include "qkv/corpus.h"

typedef struct {
    size_t length;
    double drop, rdrop;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 3, .max = 1048576, FIELD(length),
     .initial = "128", .help = "tokens that are read of a text"},
    {.flag = "drop-words", .key = "drop_words", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(drop),
     .initial = "0", .help = "share of the words that training hides"},
    {.flag = "rdrop", .key = "rdrop", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(rdrop), .initial = "0",
     .help = "read each text twice, with other dropout, and pull both readings together "
             "(R-Drop): about 1"},
};
static const qkv_option_table table = {"Texts", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    qkv__classify_options c;
    settings s;
    qkv_vocabulary vocabulary;
    qkv_bert_config config;
    qkv__text_split texts;
    qkv_labels labels;
    size_t cut; /* texts longer than the model reads, of the set that is written */
} job;

/* ---- texts ------------------------------------------------------------------------------- */

/* The texts of all lines, without their labels: two for each line, the second perhaps empty.
 * parts NULL: only counted. */
static qkv_status list_texts(job *j, qkv_text_span *parts, size_t *count)
{
    *count = 0;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->texts.train_count && !status; i++) {
        const qkv_text_span *part = &j->texts.data.spans[i];
        qkv_labelled_reader r;
        qkv_labelled_text x;
        qkv_labelled_begin(&r, j->base.ctx, part);
        while (!(status = qkv_labelled_next(&r, &x)) && x.label) {
            if (parts) {
                parts[*count] = (qkv_text_span){x.pair.text, x.pair.len, part->name, 0};
                parts[*count + 1] = (qkv_text_span){x.pair.second, x.pair.second_len, part->name,
                                                    0};
            }
            *count += x.pair.second ? 2 : 1;
        }
    }
    return status;
}

static qkv_status make_vocabulary(job *j)
{
    qkv_context *ctx = j->base.ctx;
    size_t count;
    qkv_status status = list_texts(j, NULL, &count);
    qkv_text_span *parts = status ? NULL : qkv_calloc(ctx, count + 1, sizeof *parts);
    if (!status && !parts)
        status = QKV_E_MEMORY;
    if (!status)
        status = list_texts(j, parts, &count);
    if (!status)
        status = qkv__vocabulary_train(ctx, &j->vocabulary, j->base.options, QKV__BERT_ROLES, parts,
                                       count, NULL, 0, &j->base.tokenizer);
    qkv_free(ctx, parts);
    return status;
}

static qkv_status collect_labels(job *j)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->texts.train_count && !status; i++)
        status = qkv_labels_collect(&j->labels, &j->texts.data.spans[i]);
    if (!status && j->labels.count < 2)
        status = qkv_fail(j->base.ctx, QKV_E_FORMAT, "%s: at least 2 labels expected to learn "
                           "from, found %zu", j->c.data, j->labels.count);
    return status;
}

/* ---- the run ----------------------------------------------------------------------------- */

static qkv_status classify_text_make_model(job *j)
{
    qkv__run *base = &j->base;
    j->config.positions = j->s.length;
    if (base->o.init)
        return qkv__bert_init(base, qkv_bert_classifier_type(), &j->config, j->labels.count);
    j->config.classes = j->labels.count;
    qkv_status status = make_vocabulary(j);
    return status ? status
                  : qkv__bert_create(base, qkv_bert_classifier_type(), &j->config, j->c.model);
}

static qkv_status classify_text_read_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_strings data = {.items = &j->c.data, .count = 1};
    j->labels.ctx = base->ctx;
    qkv_status status = qkv__text_split_open(&j->texts, base->ctx, &data, j->c.valid,
                                             j->c.valid_last, true);
    if (!status)
        status = collect_labels(j);
    if (!status)
        status = classify_text_make_model(j);
    if (!status && !qkv_model_label_count(base->model)) /* else they are those of --init */
        status = qkv_model_set_labels(base->model, (const char *const *)j->labels.names,
                                      j->labels.count);
    return status;
}

static size_t classify_text_length_of(const job *j)
{
    size_t most = qkv_bert_longest(j->base.model);
    return j->s.length < most ? j->s.length : most;
}

static qkv_status classify_text_add_part(qkv__run *base, qkv_records_writer *w,
                                         const qkv_text_span *part)
{
    job *j = (job *)base;
    return qkv_corpus_add_labelled(w, base->ctx, base->tokenizer, part,
                                   qkv_model_labels(base->model),
                                   qkv_model_label_count(base->model), classify_text_length_of(j),
                                   &j->cut);
}

static qkv_status classify_text_pack(job *j, const qkv_text_span *parts, size_t count,
                                     const char *name, qkv_records **out)
{
    j->cut = 0;
    qkv_status status = qkv__run_records(&j->base, parts, count, name, 3, classify_text_add_part,
                                         out);
    if (!status && j->cut)
        qkv__note(j->base.ctx,
                  "%zu of %zu texts are longer than %zu tokens: their ends are not read", j->cut,
                  qkv_records_count(*out), classify_text_length_of(j));
    return status;
}

static qkv_status classify_text_write_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv__text_split *x = &j->texts;
    qkv_status status =
        classify_text_pack(j, x->data.spans, x->train_count, QKV__TRAIN_RECORDS, &base->train);
    if (!status && x->held_count)
        status = classify_text_pack(j, x->held, x->held_count, QKV__VALID_RECORDS, &base->valid);
    return status;
}

static qkv_status job_classify_text_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_classify_options o = {j->c.smoothing, j->s.drop, j->s.rdrop};
    qkv_status status = qkv_task_classify(&base->task, base->model, base->train, base->valid,
                                          base->tokenizer, &o, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, j->c.data);
    const qkv_bert_config *config = qkv_model_config(base->model);
    qkv__run_tuned_rate(base, config->width, INFINITY);
    qkv__note(ctx, "bert, %zu parameters, %zu tokens in its vocabulary, %zu classes; %zu texts to "
             "learn from, %zu held out", qkv_params_elements(qkv_model_params(base->model)),
             config->vocab, config->classes, qkv_records_count(base->train),
             base->valid ? qkv_records_count(base->valid) : 0);
    return QKV_OK;
}

static void classify_text_close_data(qkv__run *base)
{
    job *j = (job *)base;
    if (j->labels.ctx)
        qkv_labels_free(&j->labels);
    qkv__text_split_close(&j->texts);
}

static qkv_status classify_text_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    return qkv__sample_text_labels(user, t, out);
}

static const qkv_option_table *const task_tables[] = {&qkv__classify_table, &table, NULL};
static const char *const decided[] = {"vocab_size", "max_position_embeddings",
                                      "pad_token_id", "num_labels", NULL};
static const char *const fixed[] = {"model", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"batch", "32", NULL},
    {"weight-decay", "0.01", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size, a quarter of it with --init"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__classify_table, offsetof(job, c)}, {&table, offsetof(job, s)},
    {&qkv__vocabulary_table, offsetof(job, vocabulary)}, QKV__RUN_TABLES,
    {&qkv__bert_config, offsetof(job, config)}, {NULL, 0}};

const qkv__job_kind qkv__job_classify = {
    .name = "classify", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = qkv__classify_decides, .variant = qkv__job_classify_variant,
    .can = QKV_CAN_CLASSIFY_TEXT, .read = classify_text_read_data,
    .write = classify_text_write_data,
    .fields = 3, .begin = job_classify_text_begin, .close = classify_text_close_data,
    .sample = classify_text_sample,
    .has_text = true, .fixed = fixed,
    .task_tables = task_tables, .decided = decided, .other = &qkv__classify_images,
    .about = "texts", .sizes = {qkv_bert_classifier_type}};
