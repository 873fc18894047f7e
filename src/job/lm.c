/* lm.c - text files become a GPT that continues text. */
#include <string.h>

#include "text/texts.h"
#include "job/kinds.h"
#include "job/vocabulary.h"
#include "model/gpt_config.h"
#include "pipeline/run_data.h"
#include "qkv/file.h"
#include "qkv/gpt.h"

typedef struct {
    qkv_strings data;
    const char *valid, *valid_last, *model;
    int layout, positions;
    size_t length;
} settings;

enum { LLAMA, GPT2 };
static const char *const layouts[] = {"llama", "gpt2", NULL};
static const char *const positions[] = {"learned", "sinusoid", "none", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_LIST, .flags = QKV_OPT_REQUIRED, FIELD(data), .value = "FILE",
     .help = "text to learn from, one file or more"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "FILE",
     .help = "text to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: bytes or share held out at the end of the data"},
    {.flag = "layout", .type = QKV_OPT_ENUM, FIELD(layout), .names = layouts, .initial = "llama",
     .help = "rotary, RMSNorm, gated; or learned positions, LayerNorm"},
    {.flag = "positions", .type = QKV_OPT_ENUM, FIELD(positions), .names = positions,
     .initial = "learned", .help = "of the gpt2 layout"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "length", .key = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 1048576,
     FIELD(length), .initial = "128", .help = "tokens in a training sample"},
};
static const qkv_option_table table = {"Language model", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    settings s;
    qkv_vocabulary vocabulary;
    qkv_gpt_config config;
    qkv_texts data, valid_file;
    qkv_text_span *valid_parts; /* (valid_count) of the held-out text */
    size_t train_count, valid_count;
    qkv_tokens *train, *valid;
} job;

/* ---- text ------------------------------------------------------------------------------------ */

/* Moves the end of the training text, whole files and a piece of one, to the held-out parts. */
static void cut_end(job *j, size_t bytes)
{
    qkv_text_span *parts = j->data.spans;
    size_t i = j->train_count;
    while (bytes >= parts[i - 1].len)
        bytes -= parts[--i].len;
    qkv_text_span *cut = &parts[i - 1];
    size_t keep = cut->len - bytes;
    while (keep < cut->len && ((unsigned char)cut->data[keep] & 0xC0) == 0x80)
        keep++; /* not within a character */
    if (keep < cut->len)
        j->valid_parts[j->valid_count++] =
            (qkv_text_span){cut->data + keep, cut->len - keep, cut->name, 0};
    cut->len = keep;
    for (size_t n = i; n < j->train_count; n++)
        j->valid_parts[j->valid_count++] = parts[n];
    j->train_count = i;
}

static qkv_status hold_out(job *j)
{
    size_t total = 0, bytes;
    for (size_t i = 0; i < j->train_count; i++)
        total += j->data.spans[i].len;
    qkv_status status = qkv__held_out(j->base.ctx, j->s.valid_last, total, "bytes", &bytes);
    if (!status)
        cut_end(j, bytes);
    return status;
}

static qkv_status open_texts(job *j)
{
    qkv_context *ctx = j->base.ctx;
    qkv_status status = qkv_texts_open(&j->data, ctx, &j->s.data);
    if (status)
        return status;
    j->train_count = j->data.count;
    j->valid_parts = qkv_calloc(ctx, j->train_count, sizeof *j->valid_parts);
    if (!j->valid_parts)
        return QKV_E_MEMORY;
    if (!j->s.valid)
        return hold_out(j);
    status = qkv_texts_open_one(&j->valid_file, ctx, j->s.valid);
    if (!status)
        j->valid_parts[j->valid_count++] = j->valid_file.spans[0];
    return status;
}

static qkv_status pack(job *j, const qkv_text_span *parts, size_t count, const char *name,
                       qkv_tokens **out)
{
    qkv_context *ctx = j->base.ctx;
    char *path = qkv__run_path(&j->base, name);
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status && count)
        status = qkv_tokens_pack(out, ctx, j->base.tokenizer, parts, count, path, NULL, NULL);
    else if (!status && qkv_file_exists(path))
        status = qkv_tokens_open(out, ctx, path);
    qkv_free(ctx, path);
    return status;
}

/* ---- model -------------------------------------------------------------------------------- */

static bool given(const job *j, const char *llama_key, const char *gpt2_key)
{
    return qkv__run_given(&j->base, llama_key) ||
           qkv__run_given(&j->base, gpt2_key);
}

/* The preset's sizes, but for those that --set gave. False when there is no such preset. */
static bool set_sizes(const job *j, qkv_gpt_config *c)
{
    qkv_gpt_config preset = *c;
    if (!qkv_model_type_preset(&qkv_gpt2_type, j->s.model, &preset))
        return false;
    if (!given(j, "hidden_size", "n_embd"))
        c->width = preset.width;
    if (!given(j, "num_hidden_layers", "n_layer"))
        c->layers = preset.layers;
    if (!given(j, "num_attention_heads", "n_head"))
        c->heads = preset.heads;
    return true;
}

static const qkv_model_type *layout_type(const job *j)
{
    return j->s.layout == GPT2 ? &qkv_gpt2_type : &qkv_llama_type;
}

static qkv_status make_model(job *j)
{
    qkv_context *ctx = j->base.ctx;
    qkv_tokenizer *tokenizer = j->base.tokenizer;
    qkv_gpt_config *c = &j->config;
    if (!set_sizes(j, c))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", j->s.model);
    c->vocab = qkv_tokenizer_vocab_size(tokenizer);
    c->positions = j->s.length;
    c->position_kind = (qkv_position_kind)j->s.positions;
    c->bos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_BOS);
    c->eos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_EOS);
    qkv_status status = qkv_model_create(&j->base.model, ctx, layout_type(j), c);
    return status ? status : qkv_model_init(j->base.model, j->base.o.seed);
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = open_texts(j);
    if (status)
        return status;
    if (base->o.init)
        return qkv__run_init(base);
    status =
        qkv__vocabulary_train(base->ctx, &j->vocabulary, base->options, 0, j->data.spans,
                              j->train_count, j->valid_parts, j->valid_count, &base->tokenizer);
    return status ? status : make_model(j);
}

static qkv_status write_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = pack(j, j->data.spans, j->train_count, QKV__TRAIN_TOKENS, &j->train);
    if (!status && j->valid_count)
        status = pack(j, j->valid_parts, j->valid_count, QKV__VALID_TOKENS, &j->valid);
    return status;
}

static qkv_status open_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = pack(j, NULL, 0, QKV__TRAIN_TOKENS, &j->train);
    if (!status)
        status = pack(j, NULL, 0, QKV__VALID_TOKENS, &j->valid);
    if (!status && !j->train)
        status = qkv_fail(base->ctx, QKV_E_IO, "%s/" QKV__TRAIN_TOKENS " is missing",
                           base->o.out);
    return status;
}

/* Tokens in a sample: all positions, or fewer of a model that was there before. */
static qkv_status begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    size_t most = qkv_lm_positions(base->model), T = most;
    if (qkv__run_given(base, "length"))
        T = j->s.length;
    if (T > most)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--length: at most %zu expected, the positions "
                         "of %s, found %zu", most, base->o.init ? base->o.init : base->o.out, T);
    j->s.length = T; /* as the run will keep it */
    qkv_status status =
        qkv_task_lm(&base->task, base->model, j->train, j->valid, T, base->o.seed);
    bool valid = j->s.valid && qkv_tokens_count(j->train) > T; /* then that one is too short */
    if (status)
        return qkv_fail_prefix(ctx, valid ? j->s.valid : j->s.data.items[0]);
    const qkv_gpt_config *config = qkv_model_config(base->model);
    qkv__run_rate(base, config->width, qkv_training_rate(config->width));
    qkv__note(ctx, "%s, %zu parameters; %zu tokens to learn from, %zu held out",
             qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), qkv_tokens_count(j->train),
             j->valid ? qkv_tokens_count(j->valid) : 0);
    return QKV_OK;
}

static void close_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_tokens_close(j->train);
    qkv_tokens_close(j->valid);
    qkv_free(base->ctx, j->valid_parts);
    qkv_texts_close(&j->data);
    qkv_texts_close(&j->valid_file);
}

static const qkv_option_table *const task_tables[] = {&table, NULL};
static const char *const decided[] = {"vocab_size", "max_position_embeddings", "n_positions",
                                      "bos_token_id", "eos_token_id", NULL};
static const char *const fixed[] = {"layout", "positions", "model", NULL};
static const qkv_preset presets[] = {
    QKV__RUN_PRESETS,
    {"lr", NULL, "0.384 / channels"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

/* The layout decides which fields --set reaches. */
static size_t variant(const char *layout) { return strcmp(layout, "gpt2") == 0; }

#define TABLES(config_table)                                                                       \
    {                                                                                              \
        {&table, offsetof(job, s)}, {&qkv__vocabulary_table, offsetof(job, vocabulary)},           \
            QKV__RUN_TABLES, {&config_table, offsetof(job, config)}, {NULL, 0}                     \
    }
static const qkv__job_table llama_tables[] = TABLES(qkv__llama_config);
static const qkv__job_table gpt2_tables[] = TABLES(qkv__gpt2_config);

#define KIND(its_tables)                                                                           \
    {                                                                                              \
        .name = "lm", .size = sizeof(job), .tables = its_tables, .presets = presets,               \
        .decides = "layout", .variant = variant, .can = QKV_CAN_GENERATE, .read = read_data,      \
        .write = write_data, .open = open_data, .begin = begin, .close = close_data,               \
        .has_text = true, .fixed = fixed, .task_tables = task_tables, .decided = decided           \
    }
const qkv__job_kind qkv__job_lm = KIND(llama_tables), qkv__job_lm_gpt2 = KIND(gpt2_tables);
