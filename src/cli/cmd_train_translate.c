/* cmd_train_translate.c - `qkv train translate`: two files, line by line translations of each
 * other, become an encoder-decoder. */
#include <string.h>

#include "cli/commands.h"
#include "cli/job.h"
#include "cli/texts.h"
#include "cli/vocabulary.h"
#include "model/marian.h"

typedef struct {
    const char *source, *target, *valid_source, *valid_target, *valid_last, *model;
    int norm;
    size_t tokens;
    double smoothing;
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
     .help = "sentences to judge on, never trained on"},
    {.flag = "valid-target", .type = QKV_OPT_STRING, FIELD(valid_target), .value = "FILE",
     .help = "their translations"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "2%", .help = "else: pairs or share held out at the end of the data"},
    {.flag = "norm", .type = QKV_OPT_ENUM, FIELD(norm), .names = norms, .initial = "post",
     .help = "behind each sublayer (marian, as in the paper) or before it"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size: nano tiny small base big"},
    {.flag = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 16777216, FIELD(tokens),
     .initial = "4096", .help = "tokens in a sample, both sides: as many pairs as fit"},
    {.flag = "smoothing", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1,
     FIELD(smoothing), .initial = "0.1", .help = "of the labels, in the training loss"},
};
static const qkv_option_table table = {"Translation", rows, sizeof rows / sizeof *rows};

enum { SOURCE, TARGET, SIDES };

/* Sentence pairs: two texts of as many lines. */
typedef struct {
    cli_texts text[SIDES];
    size_t lines;
} pairs;

typedef struct {
    cli_job base;
    settings s;
    cli_vocabulary vocabulary;
    qkv_marian_config config;
    pairs data, valid_data;
    size_t train_lines; /* of data; what follows them is held out */
    qkv_records *train, *valid;
} job;

/* ---- pairs -------------------------------------------------------------------------------- */

static qkv_status open_pairs(job *j, pairs *p, const char *source, const char *target)
{
    const char *const paths[] = {source, target};
    qkv_context *ctx = j->base.c->ctx;
    size_t lines[SIDES] = {0};
    for (int i = 0; i < SIDES; i++) {
        qkv_status status = cli_texts_open_one(&p->text[i], ctx, paths[i]);
        if (status)
            return status;
        lines[i] = cli_count_lines(&p->text[i].parts[0]);
    }
    p->lines = lines[SOURCE];
    if (lines[SOURCE] != lines[TARGET])
        return qkv__fail(ctx, QKV_E_FORMAT, "%s has %zu lines and %s has %zu: as many expected, "
                         "each the translation of the same line", source, lines[SOURCE], target,
                         lines[TARGET]);
    return QKV_OK;
}

static void close_pairs(pairs *p)
{
    for (int i = 0; i < SIDES; i++)
        cli_texts_close(&p->text[i]);
}

/* Where line `line` of the text begins. */
static size_t line_start(const qkv_text_part *part, size_t line)
{
    const char *at = part->data;
    cli_line l;
    for (size_t i = 0; i < line; i++)
        cli_next_line(&at, part->data + part->len, &l);
    return (size_t)(at - part->data);
}

static qkv_status open_data(job *j)
{
    const settings *s = &j->s;
    size_t held = 0;
    if (!s->valid_source != !s->valid_target)
        return qkv__fail(j->base.c->ctx, QKV_E_ARGUMENT,
                         "--valid-source and --valid-target: both or none expected, found one");
    qkv_status status = open_pairs(j, &j->data, s->source, s->target);
    if (!status && s->valid_source)
        status = open_pairs(j, &j->valid_data, s->valid_source, s->valid_target);
    else if (!status)
        status = cli_held_out(j->base.c, s->valid_last, j->data.lines, "pairs", &held);
    j->train_lines = j->data.lines - held;
    return status;
}

/* Appends the ids of one side's line and the token that ends it. */
static qkv_status encode(job *j, const cli_line *line, int side, qkv_ids *ids)
{
    const qkv_marian_config *c = qkv_model_config(j->base.model);
    qkv_context *ctx = j->base.c->ctx;
    ids->count = 0;
    qkv_status status = qkv_tokenizer_encode(j->base.tokenizer, line->data, line->len,
                                             side == TARGET ? QKV_ENCODE_TARGET : 0, ids);
    return status ? status : qkv_ids_add(ctx, ids, c->eos);
}

typedef struct {
    size_t kept, empty, longer; /* pairs; left out for an empty side; for a side too long */
} census;

/* Writes the pairs of lines [from, to) that the model can take. */
static qkv_status write_lines(job *j, const pairs *p, size_t from, size_t to,
                              qkv_records_writer *w, census *n)
{
    const qkv_marian_config *c = qkv_model_config(j->base.model);
    const char *at[SIDES], *end[SIDES];
    qkv_ids ids[SIDES] = {{0}, {0}};
    qkv_status status = QKV_OK;
    for (int i = 0; i < SIDES; i++) {
        const qkv_text_part *part = &p->text[i].parts[0];
        at[i] = part->data + line_start(part, from);
        end[i] = part->data + part->len;
    }
    for (size_t k = from; k < to && !status; k++) {
        cli_line line[SIDES];
        for (int i = 0; i < SIDES && !status; i++) {
            cli_next_line(&at[i], end[i], &line[i]);
            if (encode(j, &line[i], i, &ids[i]))
                status = qkv__fail(j->base.c->ctx, qkv_context_status(j->base.c->ctx),
                                   "%s, line %zu: %s", p->text[i].parts[0].name, k + 1,
                                   qkv_context_message(j->base.c->ctx));
        }
        if (status)
            break;
        if (ids[SOURCE].count < 2 || ids[TARGET].count < 2) {
            n->empty++;
        } else if (ids[SOURCE].count > c->positions || ids[TARGET].count > c->positions) {
            n->longer++;
        } else {
            n->kept++;
            for (int i = 0; i < SIDES && !status; i++)
                status = qkv_records_add(w, ids[i].data, ids[i].count);
        }
    }
    for (int i = 0; i < SIDES; i++)
        qkv_ids_free(j->base.c->ctx, &ids[i]);
    return status;
}

static qkv_status write_pairs(job *j, const pairs *p, size_t from, size_t to, const char *name,
                              qkv_records **out)
{
    cli *c = j->base.c;
    const qkv_marian_config *config = qkv_model_config(j->base.model);
    census n = {0};
    qkv_records_writer *w = NULL;
    char *path = cli_job_path(&j->base, name);
    qkv_status status = path ? qkv_records_create(&w, c->ctx, path, SIDES) : QKV_E_MEMORY;
    if (!status)
        status = write_lines(j, p, from, to, w, &n);
    if (!status && !n.kept)
        status = qkv__fail(c->ctx, QKV_E_FORMAT, "%s: no pair of 1 to %zu tokens a side is left",
                           p->text[SOURCE].parts[0].name, config->positions - 1);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, out);
    qkv__free(c->ctx, path);
    if (!status && n.empty + n.longer)
        cli_note(c, "%s: %zu pairs with an empty side and %zu of more than %zu tokens are left out",
                 p->text[SOURCE].parts[0].name, n.empty, n.longer, config->positions);
    return status;
}

/* ---- model -------------------------------------------------------------------------------- */

static bool given(const job *j, const char *key)
{
    return qkv_options_given(j->base.c->options, key);
}

/* The preset's sizes, but for those that --set gave. */
static bool set_sizes(const job *j, qkv_marian_config *c)
{
    qkv_marian_config preset = *c;
    if (!qkv_marian_preset(j->s.model, &preset))
        return false;
    const struct {
        const char *key;
        size_t *to, value;
    } fields[] = {{"d_model", &c->width, preset.width},
                  {"encoder_layers", &c->encoder_layers, preset.encoder_layers},
                  {"decoder_layers", &c->decoder_layers, preset.decoder_layers},
                  {"encoder_attention_heads", &c->encoder_heads, preset.encoder_heads},
                  {"decoder_attention_heads", &c->decoder_heads, preset.decoder_heads},
                  {"encoder_ffn_dim", &c->encoder_ff_width, preset.encoder_ff_width},
                  {"decoder_ffn_dim", &c->decoder_ff_width, preset.decoder_ff_width}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!given(j, fields[i].key))
            *fields[i].to = fields[i].value;
    return true;
}

static qkv_status make_model(job *j)
{
    cli *c = j->base.c;
    qkv_tokenizer *tokenizer = j->base.tokenizer;
    qkv_marian_config *m = &j->config;
    if (!set_sizes(j, m))
        return qkv__fail(c->ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", j->s.model);
    m->vocab = qkv_tokenizer_vocab_size(tokenizer);
    m->eos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_EOS);
    m->pad = qkv_tokenizer_special(tokenizer, QKV_TOKEN_PAD);
    m->start = m->pad;
    qkv_status status = qkv_model_create(
        &j->base.model, c->ctx, j->s.norm == PRE_NORM ? &qkv_translator_type : &qkv_marian_type, m);
    return status ? status : qkv_model_init(j->base.model, c->common.seed);
}

static qkv_status check_init(const job *j)
{
    const qkv_model_type *type = qkv_model_type_of(j->base.model);
    if (type == &qkv_marian_type || type == &qkv_translator_type)
        return QKV_OK;
    return qkv__fail(j->base.c->ctx, QKV_E_UNSUPPORTED, "--init: an encoder-decoder expected, %s "
                     "is a %s model", j->base.o.init, qkv_model_type_name(type));
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = open_data(j);
    if (status)
        return status;
    if (base->o.init) {
        status = cli_job_init(base);
        return status ? status : check_init(j);
    }
    qkv_text_part train[SIDES];
    for (int i = 0; i < SIDES; i++) {
        train[i] = j->data.text[i].parts[0];
        train[i].len = line_start(&train[i], j->train_lines);
    }
    status = cli_vocabulary_train(base->c, &j->vocabulary,
                                  1u << QKV_TOKEN_EOS | 1u << QKV_TOKEN_PAD | 1u << QKV_TOKEN_UNK,
                                  train, SIDES, NULL, 0, &base->tokenizer);
    return status ? status : make_model(j);
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    const pairs *valid = j->s.valid_source ? &j->valid_data : &j->data;
    size_t from = j->s.valid_source ? 0 : j->train_lines;
    qkv_status status =
        write_pairs(j, &j->data, 0, j->train_lines, "train/train.records", &j->train);
    if (!status && from < valid->lines)
        status = write_pairs(j, valid, from, valid->lines, "train/valid.records", &j->valid);
    return status;
}

static qkv_status open_records(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = cli_job_records(base, "train/train.records", true, &j->train);
    return status ? status : cli_job_records(base, "train/valid.records", false, &j->valid);
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    const qkv_translate_options o = {.budget = j->s.tokens, .smoothing = j->s.smoothing};
    const qkv_marian_config *config = qkv_model_config(base->model);
    qkv_status status = qkv_task_translate(&base->task, base->model, j->train, j->valid, &o,
                                           base->c->common.seed);
    if (status)
        return status;
    cli_job_rate(base, config->width, cli_training_rate(config->width));
    cli_note(base->c, "%s, %zu parameters; %zu pairs of %.1f and %.1f tokens to learn from, "
             "%zu held out", qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), qkv_records_count(j->train),
             (double)qkv_records_ids(j->train, SOURCE) / (double)qkv_records_count(j->train),
             (double)qkv_records_ids(j->train, TARGET) / (double)qkv_records_count(j->train),
             j->valid ? qkv_records_count(j->valid) : 0);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_records_close(j->train);
    qkv_records_close(j->valid);
    close_pairs(&j->data);
    close_pairs(&j->valid_data);
}

static const char *const fixed[] = {"tokenizer", "vocab", "norm", "model", NULL};
static const cli_job_type job_type = {read_data, write_data, open_records, begin, close_data, true,
                                      fixed};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &table, &j.s);
    cli_bind(c, &cli_vocabulary_table, &j.vocabulary);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__marian_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &table, &cli_vocabulary_table, &cli_job_table, &qkv_train_table, &qkv_optimizer_table,
    &qkv_schedule_table, &qkv__marian_config, NULL};
static const qkv__preset presets[] = {
    {"tokenizer", "sentencepiece-bpe", NULL},
    {"vocab", "10000", NULL},
    {"batch", "1", NULL},
    {"ema", "0.999", NULL},
    {"optimizer", "adam", NULL},
    {"weight-decay", "0", NULL},
    {"beta2", "0.98", NULL},
    {"warmup", "1000", "1000, or a tenth of the steps if they are fewer than 10000"},
    {"lr", NULL, "0.384 / channels"},
    {"minutes", NULL, "5 without --steps"},
    {"dropout", "0.3", NULL},
    {"activation_function", "relu", NULL},
    {NULL, NULL, NULL},
};
static const char *const examples[] = {
    "qkv train translate --source en.txt --target de.txt --minutes 60 --out runs/ende",
    "qkv train translate --source en.txt --target de.txt --minutes 60 --out runs/ende --resume",
    "qkv train translate --source en.txt --target de.txt --model base --set dropout=0.1 --out runs/b",
    NULL};

const cli_command cli_train_translate = {
    .manual = {.name = "train translate", .summary = "train a translator on pairs of sentences",
               .usage = "--source FILE --target FILE --out DIR [options]", .examples = examples,
               .text = "Line i of the target is the translation of line i of the source. Trains "
                       "an encoder-decoder, with one vocabulary for both, and judges on what it "
                       "holds out. --out becomes a model directory as Hugging Face lays it out; "
                       "train/ in it keeps what --resume needs. Without --steps or --minutes it "
                       "takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
