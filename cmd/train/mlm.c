/* mlm.c - `qkv train mlm`: a text becomes a BERT that guesses its hidden words. */
#include "train/bert.h"
#include "core/commands.h"
#include "eval/eval.h"
#include "train/vocabulary.h"
#include "model/bert.h"
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
     .help = "text to judge on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: lines or share held out at the end of the data"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size: nano tiny mini small medium base large"},
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
static const qkv_option_table table = {"Hidden words", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli_job base;
    settings s;
    cli_vocabulary vocabulary;
    qkv_bert_config config;
    cli_split texts;
} job;

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    cli_split *x = &j->texts;
    qkv_status status = cli_split_open(x, base->c, &j->s.data, j->s.valid, j->s.valid_last);
    if (status)
        return status;
    j->config.positions = j->s.length;
    if (base->o.init)
        return cli_bert_init(base, &qkv_bert_masked_type, &j->config, 0);
    status = cli_vocabulary_train(base->c, &j->vocabulary, CLI_BERT_ROLES, x->data.parts,
                                  x->train_count, x->held, x->held_count, &base->tokenizer);
    if (!status && qkv_tokenizer_special(base->tokenizer, QKV_TOKEN_MASK) < 0)
        status = qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "--tokenizer: wordpiece, bpe or char "
                           "expected, which have a token to hide words with");
    return status ? status
                  : cli_bert_create(base, &qkv_bert_masked_type, &j->config, j->s.model);
}

static qkv_status pack(job *j, const qkv_text_part *parts, size_t count, const char *name,
                       qkv_records **out)
{
    qkv_context *ctx = j->base.c->ctx;
    const qkv_bert_config *c = qkv_model_config(j->base.model);
    size_t length = j->s.length < c->positions ? j->s.length : c->positions;
    char *path = cli_job_path(&j->base, name);
    qkv_records_writer *w = NULL;
    qkv_status status = path ? qkv_records_create(&w, ctx, path, 1) : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        status = qkv_corpus_add_lines(w, ctx, j->base.tokenizer, &parts[i], length, !j->s.lines);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, out);
    qkv__free(ctx, path);
    return status;
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    const cli_split *x = &j->texts;
    qkv_status status =
        pack(j, x->data.parts, x->train_count, CLI_JOB_TRAIN, &base->train);
    if (!status && x->held_count)
        status = pack(j, x->held, x->held_count, CLI_JOB_VALID, &base->valid);
    return status;
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_mlm_options o = {j->s.tokens, j->s.mask};
    qkv_status status = qkv_task_mlm(&base->task, base->model, base->train, base->valid,
                                     base->tokenizer, &o, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, j->s.data.items[0]);
    const qkv_bert_config *config = qkv_model_config(base->model);
    cli_job_rate(base, config->width, cli_training_rate(config->width));
    cli_note(c, "bert, %zu parameters, %zu tokens in its vocabulary; %zu tokens to learn from, "
             "%zu held out", qkv_params_elements(qkv_model_params(base->model)), config->vocab,
             qkv_records_ids(base->train, 0),
             base->valid ? qkv_records_ids(base->valid, 0) : 0);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    cli_split_close(&j->texts);
}

static const qkv_option_table *const lesson[] = {&table, NULL};
static const char *const decided[] = {"vocab_size",
                                      "max_position_embeddings", "pad_token_id", NULL};
static const char *const fixed[] = {"model", NULL};
static const cli_job_type job_type = {
    .name = "mlm", .takes = eval_takes_mlm, .read = read_data, .write = write_data,
    .fields = 1, .begin = begin, .close = close_data, .has_text = true, .fixed = fixed,
    .lesson = lesson, .decided = decided};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &table, &j.s);
    cli_bind(c, &cli_vocabulary_table, &j.vocabulary);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__bert_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &table, &cli_vocabulary_table, &cli_job_table, &qkv_train_table, &qkv_optimizer_table,
    &qkv_schedule_table, &qkv__bert_config, NULL};
static const char *const examples[] = {
    "qkv train mlm --data book.txt --minutes 5 --out runs/words",
    "qkv train mlm --data book.txt --minutes 5 --out runs/words --resume",
    "qkv train mlm --data lines.txt --lines --vocab 8192 --steps 500 --out runs/l",
    "qkv train mlm --data other.txt --init runs/words --minutes 2 --out runs/other", NULL};

static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"weight-decay", "0.01", NULL},
    {"beta2", "0.98", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

const cli_command cli_train_mlm = {
    .manual = {.name = "train mlm", .summary = "train a BERT to guess hidden words",
               .usage = "--data FILE... --out DIR [options]", .examples = examples,
               .text = "Hides words of UTF-8 text, other ones each time a text comes along, and "
                       "learns to guess them from both sides. Judges on what it holds out: loss "
                       "and perplexity of the hidden words, accuracy of the best guess. qkv fill "
                       "and qkv train classify --init use the model. Without --steps or "
                       "--minutes it takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
