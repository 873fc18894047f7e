/* embed_text.c - `qkv train embed` on texts: pairs become a BERT that gives texts vectors. */
#include <math.h>

#include "job/bert.h"
#include "job/embed.h"
#include "job/vocabulary.h"
#include "model/tables.h"
#include "qkv/corpus.h"
#include "qkv/embed.h"
#include "text/pairs.h"

typedef struct {
    const char *source, *target, *valid_source, *valid_target;
    size_t length;
    double drop;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "source", .type = QKV_OPT_STRING, FIELD(source), .value = "FILE",
     .help = "instead of --data: texts, one a line"},
    {.flag = "target", .type = QKV_OPT_STRING, FIELD(target), .value = "FILE",
     .help = "and the texts that belong to them, line by line"},
    {.flag = "valid-source", .type = QKV_OPT_STRING, FIELD(valid_source), .value = "FILE",
     .help = "instead of --valid: texts to evaluate on"},
    {.flag = "valid-target", .type = QKV_OPT_STRING, FIELD(valid_target), .value = "FILE",
     .help = "and the texts that belong to them"},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 3, .max = 1048576, FIELD(length),
     .initial = "128", .help = "most tokens that are read of a text"},
    {.flag = "drop-words", .key = "drop_words", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(drop), .initial = "0", .help = "share of the words that training hides"},
};
static const qkv_option_table table = {"Pairs of texts", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    qkv__embed_options c;
    settings s;
    qkv_vocabulary vocabulary;
    qkv_bert_config config;
    qkv__text_split lines;     /* of TSV files */
    qkv__pairs pairs, valid;   /* of two files each */
    size_t train_lines;        /* of pairs; what follows them is held out */
} job;

/* ---- data --------------------------------------------------------------------------------- */

static qkv_status embed_check(qkv__run *base)
{
    const settings *s = &((job *)base)->s;
    const qkv__embed_options *c = &((job *)base)->c;
    const char *wrong = NULL;
    if (!c->data && !s->source && !s->target)
        wrong = "--data, or --source and --target, expected";
    else if (c->data && (s->source || s->target))
        wrong = "--data, or --source and --target: one of them expected, found both";
    else if (!s->source != !s->target)
        wrong = "--source and --target: both or none expected, found one";
    else if (!s->valid_source != !s->valid_target)
        wrong = "--valid-source and --valid-target: both or none expected, found one";
    else if (c->data && s->valid_source)
        wrong = "--valid expected with --data, found --valid-source and --valid-target";
    else if (!c->data && c->valid)
        wrong = "--valid-source and --valid-target expected with --source and --target, found "
                "--valid";
    return wrong ? qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s", wrong) : QKV_OK;
}

static qkv_status embed_open_pairs(job *j)
{
    const settings *s = &j->s;
    qkv_context *ctx = j->base.ctx;
    size_t held = 0;
    qkv_status status = qkv__pairs_open(&j->pairs, ctx, s->source, s->target);
    if (!status && s->valid_source)
        status = qkv__pairs_open(&j->valid, ctx, s->valid_source, s->valid_target);
    else if (!status)
        status = qkv__held_out(ctx, j->c.valid_last, j->pairs.lines, "pairs", &held);
    j->train_lines = j->pairs.lines - held;
    return status;
}

static qkv_status embed_open_data(job *j)
{
    const qkv_strings data = {.items = &j->c.data, .count = 1};
    return j->c.data ? qkv__text_split_open(&j->lines, j->base.ctx, &data, j->c.valid,
                                            j->c.valid_last, true)
                     : embed_open_pairs(j);
}

static qkv_status embed_make_tokenizer(job *j)
{
    qkv_text_span train[QKV__SIDES];
    size_t count = QKV__SIDES;
    if (j->c.data)
        train[0] = j->lines.data.spans[count = 0];
    for (int i = 0; i < QKV__SIDES && count; i++)
        train[i] = qkv__pairs_text(&j->pairs, i, j->train_lines);
    return qkv__vocabulary_train(j->base.ctx, &j->vocabulary, j->base.options, QKV__BERT_ROLES,
                                 train, count ? count : 1, NULL, 0, &j->base.tokenizer);
}

static qkv_status embed_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = embed_open_data(j);
    if (status)
        return status;
    j->config.positions = j->s.length;
    if (base->o.init)
        return qkv__bert_init(base, qkv_bert_encoder_type(), &j->config, 0);
    status = embed_make_tokenizer(j);
    return status ? status
                  : qkv__bert_create(base, qkv_bert_encoder_type(), &j->config, j->c.model);
}

/* ---- records ------------------------------------------------------------------------------ */

/* Lines from `from` on, and up to `to`, of a side. */
static qkv_text_span embed_side(const qkv__pairs *p, int side, size_t from, size_t to)
{
    qkv_text_span before = qkv__pairs_text(p, side, from), all = qkv__pairs_text(p, side, to);
    all.data += before.len;
    all.len -= before.len;
    all.before += from;
    return all;
}

static qkv_status embed_write(job *j, const qkv_text_span *a, const qkv_text_span *b,
                              const char *name, qkv_records **out)
{
    qkv__run *r = &j->base;
    size_t most = qkv_bert_longest(r->model), length = j->s.length < most ? j->s.length : most;
    qkv_partners_count count = {0};
    qkv_records_writer *w = NULL;
    qkv_status status = qkv_records_create(&w, r->ctx, qkv__run_path(r, name).text, QKV__SIDES);
    if (!status)
        status = qkv_corpus_add_partners(w, r->ctx, r->tokenizer, a, b, length, &count);
    if (!status && !count.pairs)
        status = qkv_fail(r->ctx, QKV_E_FORMAT, "%s: no pair of texts is there", a->name);
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    if (count.empty)
        qkv__note(r->ctx, "%s: %zu pairs with an empty side are left out", a->name, count.empty);
    if (count.cut)
        qkv__note(r->ctx, "%s: %zu of %zu pairs have a text of more than %zu tokens, whose end is "
                  "not read", a->name, count.cut, count.pairs, length);
    return qkv_records_finish(w, out);
}

static qkv_status embed_write_pairs(job *j)
{
    const qkv__pairs *held = j->s.valid_source ? &j->valid : &j->pairs;
    const size_t from[] = {0, j->s.valid_source ? 0 : j->train_lines};
    const size_t to[] = {j->train_lines, held->lines};
    qkv_status status = QKV_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const qkv__pairs *p = i ? held : &j->pairs;
        if (from[i] == to[i])
            continue;
        const qkv_text_span a = embed_side(p, QKV__SOURCE, from[i], to[i]);
        const qkv_text_span b = embed_side(p, QKV__TARGET, from[i], to[i]);
        status = i ? embed_write(j, &a, &b, QKV__VALID_RECORDS, &j->base.valid)
                   : embed_write(j, &a, &b, QKV__TRAIN_RECORDS, &j->base.train);
    }
    return status;
}

static qkv_status embed_write_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv__text_split *x = &j->lines;
    if (!j->c.data)
        return embed_write_pairs(j);
    qkv_status status = embed_write(j, &x->data.spans[0], NULL, QKV__TRAIN_RECORDS, &base->train);
    return status || !x->held_count
               ? status
               : embed_write(j, &x->held[0], NULL, QKV__VALID_RECORDS, &base->valid);
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status job_embed_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_embed_options o = {.temperature = j->c.temperature, .drop = j->s.drop};
    qkv_status status = qkv_task_embed(&base->task, base->model, base->train, base->valid,
                                       base->tokenizer, &o, base->o.seed);
    if (status)
        return status;
    const qkv_bert_config *c = qkv_model_config(base->model);
    double pairs = (double)qkv_records_count(base->train);
    qkv__run_tuned_rate(base, c->width, INFINITY);
    qkv__note(base->ctx, "bert, %zu parameters, %zu tokens in its vocabulary; %zu pairs of %.1f "
              "and %.1f tokens to learn from, %zu held out",
              qkv_params_elements(qkv_model_params(base->model)), c->vocab,
              qkv_records_count(base->train),
              (double)qkv_records_ids(base->train, QKV__SOURCE) / pairs,
              (double)qkv_records_ids(base->train, QKV__TARGET) / pairs,
              base->valid ? qkv_records_count(base->valid) : 0);
    return QKV_OK;
}

static void embed_close_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv__pairs_close(&j->pairs);
    qkv__pairs_close(&j->valid);
    qkv__text_split_close(&j->lines);
}

static const qkv_option_table *const task_tables[] = {&qkv__embed_table, &table, NULL};
static const char *const decided[] = {"vocab_size", "max_position_embeddings", "pad_token_id",
                                      NULL};
static const char *const fixed[] = {"model", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"batch", "256", NULL},
    {"weight-decay", "0.01", NULL},
    {"beta2", "0.98", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size, a quarter of it with --init"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};
static const qkv__job_table tables[] = {
    {&qkv__embed_table, offsetof(job, c)}, {&table, offsetof(job, s)},
    {&qkv__vocabulary_table, offsetof(job, vocabulary)}, QKV__RUN_TABLES,
    {&qkv__bert_config, offsetof(job, config)}, {NULL, 0}};

const qkv__job_kind qkv__job_embed = {
    .name = "embed", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = qkv__embed_decides, .variant = qkv__embed_variant, .other = &qkv__embed_images,
    .about = "texts", .can = QKV_CAN_EMBED_TEXT, .check = embed_check, .read = embed_read_data,
    .write = embed_write_data, .fields = QKV__SIDES, .begin = job_embed_begin,
    .close = embed_close_data, .has_text = true, .fixed = fixed, .task_tables = task_tables,
    .decided = decided, .sizes = {qkv_bert_masked_type}};
