/* mlm.c - `qkv train mlm`: a text becomes a BERT that guesses its hidden words. */
#include "job/bert.h"
#include "job/sample.h"
#include "job/vocabulary.h"
#include "model/tables.h"
#include "qkv/bert.h"
#include "qkv/corpus.h"

typedef struct {
    qkv_strings data;
    const char *valid, *valid_last, *model;
    size_t length, tokens;
    double mask;
    bool lines;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_LIST, .flags = QKV_OPT_REQUIRED, FIELD(data), .value = "FILE",
     .help = "text to learn from, one file or more"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "FILE",
     .help = "text to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: lines or share held out at the end of the data"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size"},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 3, .max = 1048576, FIELD(length),
     .initial = "128", .help = "most tokens in a text: longer ones are cut up"},
    {.flag = "lines", .type = QKV_OPT_BOOL, FIELD(lines),
     .help = "each line is a text; else lines are joined up to --length"},
    {.flag = "tokens", .key = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 16777216,
     FIELD(tokens),
     .initial = "512", .help = "tokens in a sample: as many texts as fit"},
    {.flag = "mask", .key = "mask", .type = QKV_OPT_REAL, .max = 1, FIELD(mask), .initial = "0.15",
     .help = "share of the words that are hidden"},
};
static const qkv_option_table table = {"Hidden words", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    settings s;
    qkv_vocabulary vocabulary;
    qkv_bert_config config;
    qkv__text_split texts;
} job;

static qkv_status mlm_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv__text_split *x = &j->texts;
    qkv_status status = qkv__text_split_open(x, base->ctx, &j->s.data, j->s.valid,
                                             j->s.valid_last, true);
    if (status)
        return status;
    j->config.positions = j->s.length;
    if (base->o.init)
        return qkv__bert_init(base, qkv_bert_masked_type(), &j->config, 0);
    status = qkv__vocabulary_train(base->ctx, &j->vocabulary, base->options, QKV__BERT_ROLES,
                                   x->data.spans, x->train_count, x->held, x->held_count,
                                   &base->tokenizer);
    if (!status && qkv_tokenizer_special(base->tokenizer, QKV_TOKEN_MASK) < 0)
        status = qkv_fail(base->ctx, QKV_E_ARGUMENT, "--tokenizer: wordpiece, bpe or char "
                           "expected, which have a token to hide words with");
    return status ? status
                  : qkv__bert_create(base, qkv_bert_masked_type(), &j->config, j->s.model);
}

static qkv_status mlm_add_part(qkv__run *base, qkv_records_writer *w, const qkv_text_span *part)
{
    const job *j = (const job *)base;
    size_t most = qkv_bert_longest(base->model), length = j->s.length < most ? j->s.length : most;
    return qkv_corpus_add_lines(w, base->ctx, base->tokenizer, part, length, !j->s.lines);
}

static qkv_status mlm_write_data(qkv__run *base)
{
    const qkv__text_split *x = &((job *)base)->texts;
    qkv_status status = qkv__run_records(base, x->data.spans, x->train_count, QKV__TRAIN_RECORDS,
                                         1, mlm_add_part, &base->train);
    if (!status && x->held_count)
        status = qkv__run_records(base, x->held, x->held_count, QKV__VALID_RECORDS, 1, mlm_add_part,
                                  &base->valid);
    return status;
}

static qkv_status mlm_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_mlm_options o = {j->s.tokens, j->s.mask};
    qkv_status status = qkv_task_mlm(&base->task, base->model, base->train, base->valid,
                                     base->tokenizer, &o, base->o.seed);
    if (status)
        return qkv_fail_prefix(ctx, j->s.data.items[0]);
    const qkv_bert_config *config = qkv_model_config(base->model);
    qkv__run_rate(base, config->width, qkv_training_rate(config->width));
    qkv__note(ctx, "bert, %zu parameters, %zu tokens in its vocabulary; %zu tokens to learn from, "
             "%zu held out", qkv_params_elements(qkv_model_params(base->model)), config->vocab,
             qkv_records_ids(base->train, 0),
             base->valid ? qkv_records_ids(base->valid, 0) : 0);
    return QKV_OK;
}

static void mlm_close_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv__text_split_close(&j->texts);
}

static qkv_status mlm_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    (void)t;
    return qkv__sample_hidden_words(user, out);
}

static const qkv_option_table *const task_tables[] = {&table, NULL};
static const char *const decided[] = {"vocab_size",
                                      "max_position_embeddings", "pad_token_id", NULL};
static const char *const fixed[] = {"model", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"weight-decay", "0.01", NULL},
    {"beta2", "0.98", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};
static const qkv__job_table tables[] = {
    {&table, offsetof(job, s)}, {&qkv__vocabulary_table, offsetof(job, vocabulary)},
    QKV__RUN_TABLES, {&qkv__bert_config, offsetof(job, config)}, {NULL, 0}};

const qkv__job_kind qkv__job_mlm = {
    .name = "mlm", .size = sizeof(job), .tables = tables, .presets = presets,
    .can = QKV_CAN_FILL_MASK, .read = mlm_read_data, .write = mlm_write_data,
    .fields = 1, .begin = mlm_begin, .close = mlm_close_data, .has_text = true, .fixed = fixed,
    .sample = mlm_sample,
    .task_tables = task_tables, .decided = decided,
    .sizes = {qkv_bert_masked_type}};
