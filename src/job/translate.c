/* translate.c - `qkv train translate`: two files, line by line translations of each
 * other, become an encoder-decoder. */
#include "job/run.h"
#include "job/sample.h"
#include "text/pairs.h"
#include "text/texts.h"
#include "job/vocabulary.h"
#include "model/tables.h"
#include "qkv/marian.h"

typedef struct {
    const char *source, *target, *valid_source, *valid_target, *valid_last, *model;
    int norm;
    size_t tokens;
    double smoothing, rdrop, sampling;
    bool separate;
} settings;

enum { POST_NORM, PRE_NORM };
static const char *const norms[] = {"post", "pre", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "source", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(source),
     .value = "FILE", .help = "sentences to translate from, one a line"},
    {.flag = "target", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(target),
     .value = "FILE", .help = "their translations, line by line"},
    {.flag = "valid-source", .type = QKV_OPT_STRING, FIELD(valid_source), .value = "FILE",
     .help = "sentences to evaluate on, never trained on"},
    {.flag = "valid-target", .type = QKV_OPT_STRING, FIELD(valid_target), .value = "FILE",
     .help = "their translations"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "2%", .help = "else: pairs or share held out at the end of the data"},
    {.flag = "norm", .type = QKV_OPT_ENUM, FIELD(norm), .names = norms, .initial = "post",
     .help = "behind each sublayer (marian, as in the paper) or before it"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size"},
    {.flag = "tokens", .key = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 16777216,
     FIELD(tokens),
     .initial = "4096", .help = "tokens in a sample, both sides: as many pairs as fit"},
    {.flag = "smoothing", .key = "smoothing", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(smoothing), .initial = "0.1", .help = "of the labels, in the training loss"},
    {.flag = "rdrop", .key = "rdrop", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(rdrop), .initial = "0",
     .help = "read each pair twice, with other dropout, and pull both readings together "
             "(R-Drop): about 5"},
    {.flag = "separate", .type = QKV_OPT_BOOL, FIELD(separate),
     .help = "each language learns pieces of its own, up to --vocab (unigram, sentencepiece-bpe)"},
    {.flag = "subword-sampling", .key = "subword_sampling", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(sampling), .initial = "0",
     .help = "cut words into tokens anew each time: bpe: share of merges left out, about 0.1; "
             "unigram: sharpness, about 0.2; 0: always the best cut"},
};
static const qkv_option_table table = {"Translation", rows, sizeof rows / sizeof *rows, 0};

static const double RATE_TIMES_WIDTH = 0.45; /* 3.5e-3 at 128 channels */

typedef struct {
    qkv__run base;
    settings s;
    qkv_vocabulary vocabulary;
    qkv_marian_config config;
    qkv__pairs data, valid_data;
    size_t train_lines; /* of data; what follows them is held out */
} job;

static qkv_status translate_open_data(job *j)
{
    const settings *s = &j->s;
    qkv_context *ctx = j->base.ctx;
    size_t held = 0;
    if (!s->valid_source != !s->valid_target)
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                         "--valid-source and --valid-target: both or none expected, found one");
    qkv_status status = qkv__pairs_open(&j->data, ctx, s->source, s->target);
    if (!status && s->valid_source)
        status = qkv__pairs_open(&j->valid_data, ctx, s->valid_source, s->valid_target);
    else if (!status)
        status = qkv__held_out(ctx, s->valid_last, j->data.lines, "pairs", &held);
    j->train_lines = j->data.lines - held;
    return status;
}

static qkv_status write_pairs(job *j, const qkv__pairs *p, size_t from, size_t to,
                              const char *name, qkv_records **out)
{
    const qkv_marian_config *c = qkv_model_config(j->base.model);
    const qkv__pairs_coding coding = {j->base.tokenizer, c->eos, c->positions};
    return qkv__pairs_records(out, p, &coding, from, to, qkv__run_path(&j->base, name).text);
}

/* ---- model -------------------------------------------------------------------------------- */

static qkv_status translate_make_model(job *j)
{
    const qkv_tokenizer *tokenizer = j->base.tokenizer;
    qkv_marian_config *m = &j->config;
    qkv_status status = qkv__run_preset(&j->base, qkv_marian_type(), j->s.model,
                                        &qkv__marian_config, m);
    m->vocab = qkv_tokenizer_vocab_size(tokenizer);
    m->eos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_EOS);
    m->pad = qkv_tokenizer_special(tokenizer, QKV_TOKEN_PAD);
    m->start = m->pad;
    return status ? status : qkv__run_create(&j->base, j->s.norm == PRE_NORM
                                             ? qkv_translator_type() : qkv_marian_type(), m);
}

static qkv_status check_init(const job *j)
{
    if (qkv_model_can(j->base.model, QKV_CAN_TRANSLATE))
        return QKV_OK;
    return qkv_fail(j->base.ctx, QKV_E_UNSUPPORTED, "--init: an encoder-decoder expected, %s "
                     "is a %s model", j->base.o.init,
                     qkv_model_type_name(qkv_model_type_of(j->base.model)));
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status translate_make_tokenizer(job *j)
{
    qkv_context *ctx = j->base.ctx;
    qkv_text_span train[QKV__SIDES];
    qkv_tokenizer *each[QKV__SIDES] = {NULL};
    qkv_status status = QKV_OK;
    for (int i = 0; i < QKV__SIDES; i++)
        train[i] = qkv__pairs_text(&j->data, i, j->train_lines);
    if (!j->s.separate || j->vocabulary.from)
        return qkv__vocabulary_train(ctx, &j->vocabulary, j->base.options, QKV__TRANSLATE_ROLES,
                                     train, QKV__SIDES, NULL, 0, &j->base.tokenizer);
    for (int i = 0; i < QKV__SIDES && !status; i++)
        status = qkv__vocabulary_train(ctx, &j->vocabulary, j->base.options, QKV__TRANSLATE_ROLES,
                                       &train[i], 1, NULL, 0, &each[i]);
    if (!status && qkv_tokenizer_join(&j->base.tokenizer, each[0], each[1]))
        status = qkv_fail_prefix(ctx, "--separate");
    for (int i = 0; i < QKV__SIDES; i++)
        qkv_tokenizer_destroy(each[i]);
    return status;
}

static qkv_status translate_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = translate_open_data(j);
    if (status)
        return status;
    if (base->o.init) {
        status = qkv__run_init(base);
        return status ? status : check_init(j);
    }
    status = translate_make_tokenizer(j);
    return status ? status : translate_make_model(j);
}

static qkv_status translate_write_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv__pairs *valid = j->s.valid_source ? &j->valid_data : &j->data;
    size_t from = j->s.valid_source ? 0 : j->train_lines;
    qkv_status status =
        write_pairs(j, &j->data, 0, j->train_lines, QKV__TRAIN_RECORDS, &base->train);
    if (!status && from < valid->lines)
        status = write_pairs(j, valid, from, valid->lines, QKV__VALID_RECORDS, &base->valid);
    return status;
}

static qkv_status job_translate_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_translate_options o = {.budget = j->s.tokens, .smoothing = j->s.smoothing,
                                     .rdrop = j->s.rdrop,
                                     .sampling = j->s.sampling, .tokenizer = base->tokenizer};
    const qkv_marian_config *config = qkv_model_config(base->model);
    qkv_status status = qkv_task_translate(&base->task, base->model, base->train, base->valid, &o,
                                           base->o.seed);
    if (status)
        return status;
    qkv__run_rate(base, config->width, RATE_TIMES_WIDTH / (double)config->width);
    double pairs = (double)qkv_records_count(base->train);
    qkv__note(base->ctx, "%s, %zu parameters; %zu pairs of %.1f and %.1f tokens to learn from, "
             "%zu held out", qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), qkv_records_count(base->train),
             (double)qkv_records_ids(base->train, QKV__SOURCE) / pairs,
             (double)qkv_records_ids(base->train, QKV__TARGET) / pairs,
             base->valid ? qkv_records_count(base->valid) : 0);
    return QKV_OK;
}

static void translate_close_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv__pairs_close(&j->data);
    qkv__pairs_close(&j->valid_data);
}

static qkv_status translate_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    (void)t;
    return qkv__sample_translations(user, out);
}

static const qkv_option_table *const task_tables[] = {&table, NULL};
static const char *const decided[] = {"vocab_size", "eos_token_id",
                                      "pad_token_id", "decoder_start_token_id", NULL};
static const char *const fixed[] = {"norm", "model", "separate", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", "sentencepiece-bpe", NULL},
    {"vocab", "10000", NULL},
    {"batch", "1", NULL},
    {"ema", "0.999", NULL},
    {"optimizer", "adam", NULL},
    {"weight-decay", "0", NULL},
    {"beta2", "0.98", NULL},
    {"warmup", "1000", "1000, or a tenth of the steps if they are fewer than 10000"},
    {"lr", NULL, "0.45 / channels"},
    {"minutes", NULL, "5 without --steps"},
    {"dropout", "0.3", NULL},
    {"activation_function", "relu", NULL},
    {NULL, NULL, NULL},
};
static const qkv__job_table tables[] = {
    {&table, offsetof(job, s)}, {&qkv__vocabulary_table, offsetof(job, vocabulary)},
    QKV__RUN_TABLES, {&qkv__marian_config, offsetof(job, config)}, {NULL, 0}};

const qkv__job_kind qkv__job_translate = {
    .name = "translate", .size = sizeof(job), .tables = tables, .presets = presets,
    .can = QKV_CAN_TRANSLATE, .read = translate_read_data, .write = translate_write_data,
    .fields = 2, .begin = job_translate_begin, .close = translate_close_data, .has_text = true,
    .sample = translate_sample,
    .fixed = fixed, .task_tables = task_tables, .decided = decided,
    .sizes = {qkv_marian_type}};
