/* cmd_train_lm.c - `qkv train lm`: a text file becomes a GPT that continues it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/training.h"
#include "io/file.h"
#include "model/gpt.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"

typedef struct {
    qkv_strings data;
    const char *valid, *valid_last, *out, *init, *model;
    int tokenizer, layout, positions;
    size_t vocab, length;
    bool resume;
} settings;

static const char *const tokenizers[] = {"char", "bpe", NULL};
static const char *const layouts[] = {"llama", "gpt2", NULL};
static const char *const positions[] = {"learned", "sinusoid", "none", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_LIST, .flags = QKV_OPT_REQUIRED, FIELD(data), .value = "FILE",
     .help = "text to learn from, one file or more"},
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out), .value = "DIR",
     .help = "where the model goes"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "FILE",
     .help = "text to judge on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: bytes or share held out at the end of the data"},
    {.flag = "tokenizer", .type = QKV_OPT_ENUM, FIELD(tokenizer), .names = tokenizers,
     .initial = "bpe", .help = "what a token is"},
    {.flag = "vocab", .type = QKV_OPT_SIZE, .min = 257, .max = 16777216, FIELD(vocab),
     .initial = "4096", .help = "tokens of a bpe vocabulary"},
    {.flag = "layout", .type = QKV_OPT_ENUM, FIELD(layout), .names = layouts, .initial = "llama",
     .help = "rotary, RMSNorm, gated; or learned positions, LayerNorm"},
    {.flag = "positions", .type = QKV_OPT_ENUM, FIELD(positions), .names = positions,
     .initial = "learned", .help = "of the gpt2 layout"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 1048576, FIELD(length),
     .initial = "128", .help = "tokens in a training sample"},
    {.flag = "resume", .type = QKV_OPT_BOOL, FIELD(resume),
     .help = "go on from the last checkpoint in --out"},
    {.flag = "init", .type = QKV_OPT_STRING, FIELD(init), .value = "DIR",
     .help = "start from this model and its tokenizer"},
};
static const qkv_option_table table = {"Language model", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    cli_training t;
    qkv_gpt_config config;
    const qkv_model_type *type;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    qkv_tokens *train, *valid;
    qkv_task task;
} job;

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct {
    qkv__map *maps; /* data files, then the valid file if there is one */
    size_t count;
    qkv_text_part *train, *valid;
    size_t train_count, valid_count;
} texts;

static void close_texts(job *j, texts *x)
{
    for (size_t i = 0; x->maps && i < x->count; i++)
        qkv__map_close(&x->maps[i]);
    qkv__free(j->c->ctx, x->maps);
    qkv__free(j->c->ctx, x->train);
    qkv__free(j->c->ctx, x->valid);
}

static qkv_status open_text(qkv_context *ctx, qkv__map *m, const char *path, qkv_text_part *part)
{
    qkv_status status = qkv__map_open(m, ctx, path);
    if (!status && m->size == 0)
        status = qkv__fail(ctx, QKV_E_FORMAT, "%s: the file is empty", path);
    *part = (qkv_text_part){(const char *)m->data, m->size, path};
    return status;
}

/* Moves the end of the training text, whole files and a piece of one, to the held-out parts. */
static void cut_end(texts *x, size_t bytes)
{
    size_t i = x->train_count;
    while (bytes >= x->train[i - 1].len)
        bytes -= x->train[--i].len;
    qkv_text_part *cut = &x->train[i - 1];
    size_t keep = cut->len - bytes;
    while (keep < cut->len && ((unsigned char)cut->data[keep] & 0xC0) == 0x80)
        keep++; /* not within a character */
    if (keep < cut->len)
        x->valid[x->valid_count++] = (qkv_text_part){cut->data + keep, cut->len - keep, cut->name};
    cut->len = keep;
    for (size_t n = i; n < x->train_count; n++)
        x->valid[x->valid_count++] = x->train[n];
    x->train_count = i;
}

static qkv_status hold_out(job *j, texts *x)
{
    char *end;
    double n = strtod(j->s.valid_last, &end);
    size_t total = 0;
    for (size_t i = 0; i < x->train_count; i++)
        total += x->train[i].len;
    bool percent = strcmp(end, "%") == 0;
    if (end == j->s.valid_last || (*end && !percent) || !(n >= 0) || (percent && n >= 100))
        return qkv__fail(j->c->ctx, QKV_E_ARGUMENT,
                         "--valid-last: bytes or a share below 100%% expected, %s found",
                         j->s.valid_last);
    double bytes = percent ? (double)total - floor((double)total * (1 - n / 100)) : n;
    if (bytes >= (double)total)
        return qkv__fail(j->c->ctx, QKV_E_ARGUMENT,
                         "--valid-last: %.0f bytes to hold out, the text has only %zu", bytes,
                         total);
    cut_end(x, (size_t)bytes);
    return QKV_OK;
}

static qkv_status open_texts(job *j, texts *x)
{
    qkv_context *ctx = j->c->ctx;
    x->train_count = j->s.data.count;
    x->count = x->train_count + (j->s.valid ? 1 : 0);
    x->maps = qkv__calloc(ctx, x->count, sizeof *x->maps);
    x->train = qkv__calloc(ctx, x->train_count, sizeof *x->train);
    x->valid = qkv__calloc(ctx, x->train_count, sizeof *x->valid);
    qkv_status status = x->maps && x->train && x->valid ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < x->train_count && !status; i++)
        status = open_text(ctx, &x->maps[i], j->s.data.items[i], &x->train[i]);
    if (!status && j->s.valid)
        status = open_text(ctx, &x->maps[x->count - 1], j->s.valid, &x->valid[x->valid_count++]);
    else if (!status)
        status = hold_out(j, x);
    return status;
}

/* ---- tokens ------------------------------------------------------------------------------- */

static qkv_status learn(job *j, qkv_tokenizer_trainer *tr, const qkv_text_part *part)
{
    qkv_status status = qkv_tokenizer_trainer_add(tr, part->data, part->len);
    return status ? qkv__fail_prefix(j->c->ctx, part->name) : QKV_OK;
}

/* A BPE vocabulary learns from the training text alone; characters must all be known. */
static qkv_status make_tokenizer(job *j, const texts *x)
{
    bool chars = j->s.tokenizer == 0;
    qkv_tokenizer_options o =
        qkv_tokenizer_defaults(chars ? QKV_TOKENIZER_CHAR : QKV_TOKENIZER_BPE);
    o.vocab = j->s.vocab;
    qkv_tokenizer_trainer *tr = NULL;
    qkv_status status = qkv_tokenizer_trainer_create(&tr, j->c->ctx, &o);
    for (size_t i = 0; i < x->train_count && !status; i++)
        status = learn(j, tr, &x->train[i]);
    for (size_t i = 0; i < x->valid_count && chars && !status; i++)
        status = learn(j, tr, &x->valid[i]);
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, &j->tokenizer);
    qkv_tokenizer_trainer_destroy(tr);
    return status;
}

static qkv_status pack(job *j, const qkv_text_part *parts, size_t count, const char *name,
                       qkv_tokens **out)
{
    char *path = qkv__path_join(j->c->ctx, j->s.out, name);
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status && count)
        status = qkv_tokens_pack(j->c->ctx, j->tokenizer, parts, count, path, NULL, NULL);
    if (!status && (count || qkv__file_exists(path)))
        status = qkv_tokens_open(out, j->c->ctx, path);
    qkv__free(j->c->ctx, path);
    return status;
}

/* ---- model -------------------------------------------------------------------------------- */

static bool given(const job *j, const char *llama_key, const char *gpt2_key)
{
    return qkv_options_given(j->c->options, llama_key) ||
           qkv_options_given(j->c->options, gpt2_key);
}

/* The preset's sizes, but for those that --set gave. False when there is no such preset. */
static bool set_sizes(const job *j, qkv_gpt_config *c)
{
    qkv_gpt_config preset = *c;
    if (!qkv_gpt_preset(j->s.model, &preset))
        return false;
    if (!given(j, "hidden_size", "n_embd"))
        c->width = preset.width;
    if (!given(j, "num_hidden_layers", "n_layer"))
        c->layers = preset.layers;
    if (!given(j, "num_attention_heads", "n_head"))
        c->heads = preset.heads;
    return true;
}

static qkv_status make_model(job *j)
{
    qkv_context *ctx = j->c->ctx;
    if (j->s.init)
        return qkv_hub_load(&j->model, ctx, j->s.init);
    qkv_gpt_config *c = &j->config;
    if (!set_sizes(j, c))
        return qkv__fail(ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", j->s.model);
    c->vocab = qkv_tokenizer_vocab_size(j->tokenizer);
    c->positions = j->s.length;
    c->position_kind = (qkv_position_kind)j->s.positions;
    c->bos = qkv_tokenizer_special(j->tokenizer, QKV_TOKEN_BOS);
    c->eos = qkv_tokenizer_special(j->tokenizer, QKV_TOKEN_EOS);
    qkv_status status = qkv_model_create(&j->model, ctx, j->type, c);
    return status ? status : qkv_model_init(j->model, j->c->common.seed);
}

/* ---- the run ------------------------------------------------------------------------------ */

/* Tokens in a sample: all positions, or fewer of a model that was there before. */
static qkv_status make_task(job *j)
{
    size_t most = qkv_lm_positions(j->model), T = most;
    if (j->s.init && qkv_options_given(j->c->options, "length"))
        T = j->s.length;
    if (T > most)
        return qkv__fail(j->c->ctx, QKV_E_ARGUMENT, "--length: at most %zu expected, the positions "
                         "of %s, found %zu", most, j->s.init, T);
    qkv_status status =
        qkv_task_lm(&j->task, j->model, j->train, j->valid, T, j->c->common.seed);
    bool valid = j->s.valid && qkv_tokens_count(j->train) > T; /* then that one is too short */
    return status ? qkv__fail_prefix(j->c->ctx, valid ? j->s.valid : j->s.data.items[0]) : QKV_OK;
}

static qkv_status write_all(job *j, const texts *x)
{
    qkv_status status = pack(j, x->train, x->train_count, "train/train.tokens", &j->train);
    if (!status && x->valid_count)
        status = pack(j, x->valid, x->valid_count, "train/valid.tokens", &j->valid);
    if (!status)
        status = make_task(j);
    if (!status)
        status = qkv_tokenizer_save(j->tokenizer, j->s.out);
    return status ? status : qkv_hub_save(j->model, j->s.out, NULL);
}

/* Nothing is written before all that can be checked without writing is, and what was written is
 * removed again if the rest fails. */
static qkv_status begin(job *j)
{
    texts x = {0};
    bool existed = qkv__dir_exists(j->s.out);
    qkv_status status = open_texts(j, &x);
    if (!status)
        status = j->s.init ? qkv_tokenizer_load(&j->tokenizer, j->c->ctx, j->s.init)
                           : make_tokenizer(j, &x);
    if (!status)
        status = make_model(j);
    if (!status)
        status = cli_training_dir(j->c, j->s.out);
    if (!status) {
        status = write_all(j, &x);
        if (status)
            cli_training_undo(j->c, j->s.out, existed);
    }
    close_texts(j, &x);
    return status;
}

/* What a run that is there already has: nothing but the run's place is read from flags. */
static qkv_status reopen(job *j)
{
    qkv_status status = cli_training_dir(j->c, j->s.out);
    if (!status)
        status = qkv_tokenizer_load(&j->tokenizer, j->c->ctx, j->s.out);
    if (!status)
        status = pack(j, NULL, 0, "train/train.tokens", &j->train);
    if (!status)
        status = pack(j, NULL, 0, "train/valid.tokens", &j->valid);
    if (!status && !j->train)
        status = qkv__fail(j->c->ctx, QKV_E_IO, "%s/train/train.tokens is missing", j->s.out);
    if (!status)
        status = qkv_hub_load_config(&j->model, j->c->ctx, j->s.out);
    return status ? status : make_task(j);
}

/* The rate and the width of Noam's schedule are the model's, unless they were given. */
static void set_schedule(job *j)
{
    const qkv_gpt_config *config = qkv_model_config(j->model);
    qkv_schedule *s = &j->t.schedule;
    bool noam = s->kind == QKV_SCHEDULE_NOAM;
    if (!qkv_options_given(j->c->options, "lr"))
        s->lr = noam ? 1 : cli_training_rate(config->width);
    if (!qkv_options_given(j->c->options, "width"))
        s->width = config->width;
}

static qkv_status prepare(job *j)
{
    bool again = j->s.resume && cli_training_exists(j->c, j->s.out);
    qkv_status status = again ? reopen(j) : begin(j);
    if (status)
        return status;
    set_schedule(j);
    cli_note(j->c, "%s, %zu parameters; %zu tokens to learn from, %zu held out",
             qkv_model_type_name(qkv_model_type_of(j->model)),
             qkv_params_elements(qkv_model_params(j->model)), qkv_tokens_count(j->train),
             j->valid ? qkv_tokens_count(j->valid) : 0);
    return QKV_OK;
}

static void clean_up(job *j)
{
    qkv_task_destroy(&j->task);
    qkv_model_destroy(j->model);
    qkv_tokens_close(j->train);
    qkv_tokens_close(j->valid);
    qkv_tokenizer_destroy(j->tokenizer);
}

/* The layout decides which table of fields --set reaches, so it is looked for first. */
static const qkv_model_type *layout_of(int argc, char **argv)
{
    const qkv_model_type *type = &qkv_llama_type;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--layout=gpt2") == 0 ||
            (strcmp(argv[i], "--layout") == 0 && i + 1 < argc && strcmp(argv[i + 1], "gpt2") == 0))
            type = &qkv_gpt2_type;
    return type;
}

/* What comes with the model that --init starts from cannot be chosen. */
static void note_unused(const job *j)
{
    static const char *const fixed[] = {"tokenizer", "vocab", "layout", "positions", "model"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && j->s.init; i++)
        if (qkv_options_given(j->c->options, fixed[i]))
            cli_note(j->c, "--%s has no effect: with --init it is as in %s", fixed[i], j->s.init);
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c, .type = layout_of(argc, argv)};
    cli_bind(c, &table, &j.s);
    cli_training_bind(c, &j.t);
    cli_bind(c, qkv_model_type_config(j.type), &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    int code = cli_training_check(c, &j.t, j.s.out, j.s.resume);
    if (code)
        return code;
    note_unused(&j);
    if (prepare(&j))
        code = cli_error(c);
    else
        code = cli_training_run(c, &j.t, &j.task, j.s.out, j.s.resume);
    clean_up(&j);
    return code;
}

static const qkv_option_table *const tables[] = {
    &table, &qkv_train_table, &qkv_optimizer_table, &qkv_schedule_table, &qkv__llama_config,
    &qkv__gpt2_config, NULL};
static const char *const examples[] = {
    "qkv train lm --data book.txt --tokenizer char --minutes 5 --out runs/book",
    "qkv train lm --data book.txt --minutes 5 --out runs/book --resume",
    "qkv train lm --data *.txt --vocab 8192 --model tiny --steps 500 --out runs/all",
    "qkv train lm --data book.txt --init runs/all --minutes 2 --out runs/tuned",
    "qkv train lm --data book.txt --set num_hidden_layers=2 --out runs/shallow", NULL};

const cli_command cli_train_lm = {
    .manual = {.name = "train lm", .summary = "train a GPT on text",
               .usage = "--data FILE... --out DIR [options]", .examples = examples,
               .text = "Trains on UTF-8 text and judges on what it holds out. --out becomes a "
                       "model directory as Hugging Face lays it out; train/ in it keeps what "
                       "--resume needs. Without --steps or --minutes it takes 5 minutes.",
               .tables = tables, .presets = cli_training_presets},
    .run = run};
