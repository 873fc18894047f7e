/* lm.c - text files become a GPT that continues text. */
#include <string.h>

#include "text/texts.h"
#include "job/conversations.h"
#include "job/run.h"
#include "job/sample.h"
#include "job/vocabulary.h"
#include "model/tables.h"
#include "pipeline/run_data.h"
#include "qkv/file.h"
#include "qkv/gpt.h"

typedef struct {
    qkv_strings data;
    const char *valid, *valid_last, *model;
    int layout, positions;
    size_t length;
} settings;

/* The layouts, the default first: option values, types of models and variants of the job follow. */
#define OTHER_LAYOUTS(USE) USE(gpt2) USE(mistral) USE(phi3) USE(qwen2) USE(qwen3)
#define LAYOUTS(USE) USE(llama) OTHER_LAYOUTS(USE)
#define LAYOUT_NAME(layout) #layout,
#define LAYOUT_TYPE(layout) qkv_##layout##_type,
static const char *const layouts[] = {LAYOUTS(LAYOUT_NAME) NULL};
static qkv_model_type_fn *const types[] = {LAYOUTS(LAYOUT_TYPE)};
static const char *const positions[] = {"learned", "sinusoid", "none", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_LIST, FIELD(data), .value = "FILE",
     .help = "text to learn from, one file or more"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "FILE",
     .help = "text to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%",
     .help = "else: bytes (conversations: lines) or share held out at the end of the data"},
    {.flag = "layout", .type = QKV_OPT_ENUM, FIELD(layout), .names = layouts, .initial = "llama",
     .help = "gpt2: learned positions, LayerNorm; else rotary, RMSNorm, gated"},
    {.flag = "positions", .type = QKV_OPT_ENUM, FIELD(positions), .names = positions,
     .initial = "learned", .help = "of the gpt2 layout"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size"},
    {.flag = "length", .key = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 1048576,
     FIELD(length), .initial = "128", .help = "tokens in a training sample"},
};
static const qkv_option_table table = {"Language model", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    settings s;
    qkv__conversations talks; /* instead of s.data */
    qkv_vocabulary vocabulary;
    qkv_gpt_config config;
    qkv__text_split texts;
    qkv_tokens *train, *valid;
} job;

static qkv_status lm_pack(job *j, const qkv_text_span *parts, size_t count, const char *name,
                          qkv_tokens **out)
{
    const qkv_path path = qkv__run_path(&j->base, name);
    if (count)
        return qkv_tokens_pack(out, j->base.ctx, j->base.tokenizer, parts, count, path.text, NULL,
                               NULL);
    return qkv_file_exists(path.text) ? qkv_tokens_open(out, j->base.ctx, path.text) : QKV_OK;
}

/* ---- model -------------------------------------------------------------------------------- */

static qkv_status lm_make_model(job *j)
{
    const qkv_model_type *type = types[j->s.layout]();
    const qkv_tokenizer *tokenizer = j->base.tokenizer;
    qkv_gpt_config *c = &j->config;
    qkv_status status = qkv__run_preset(&j->base, type, j->s.model, qkv_model_type_config(type),
                                        c);
    c->vocab = qkv_tokenizer_vocab_size(tokenizer);
    c->positions = j->s.length;
    c->position_kind = (qkv_position_kind)j->s.positions;
    c->bos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_BOS);
    c->eos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_EOS);
    return status ? status : qkv__run_create(&j->base, type, c);
}

/* ---- the run ------------------------------------------------------------------------------ */

static qkv_status lm_check(qkv__run *base)
{
    const job *j = (const job *)base;
    if (!j->s.data.count == !j->talks.files.count)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "--data and --conversations: one of them "
                        "expected, found %s", j->s.data.count ? "both" : "none");
    return QKV_OK;
}

/* The tokenizer and the model of a new run. */
static qkv_status lm_vocabulary(job *j, const qkv_text_span *train, size_t train_count,
                                const qkv_text_span *held, size_t held_count)
{
    qkv_status status = qkv__vocabulary_train(j->base.ctx, &j->vocabulary, j->base.options, 0,
                                              train, train_count, held, held_count,
                                              &j->base.tokenizer);
    return status ? status : lm_make_model(j);
}

static qkv_status lm_read_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv__text_split *x = &j->texts;
    bool talks = j->talks.files.count > 0;
    qkv_text_span texts[2];
    qkv_status status = qkv__text_split_open(&j->texts, base->ctx,
                                             talks ? &j->talks.files : &j->s.data, j->s.valid,
                                             j->s.valid_last, talks);
    if (!status && talks)
        status = qkv__conversations_open(&j->talks, base);
    if (status)
        return status;
    if (base->o.init)
        return qkv__run_init(base);
    if (!talks)
        return lm_vocabulary(j, x->data.spans, x->train_count, x->held, x->held_count);
    status = qkv__conversations_texts(&j->talks, x, texts);
    return status ? status : lm_vocabulary(j, &texts[0], 1, &texts[1], x->held_count > 0);
}

/* Tokens in a sample: all positions, or fewer of a model that was there before. */
static qkv_status lm_length(job *j, size_t *out)
{
    const qkv__run *base = &j->base;
    size_t most = qkv_lm_positions(base->model);
    *out = qkv__run_given(base, "length") ? j->s.length : most;
    if (*out <= most)
        return QKV_OK;
    return qkv_fail(base->ctx, QKV_E_ARGUMENT, "--length: at most %zu expected, the positions of "
                    "%s, found %zu", most, base->o.init ? base->o.init : base->o.out, *out);
}

static qkv_status lm_write_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv__text_split *x = &j->texts;
    if (j->talks.files.count) {
        size_t T;
        qkv_status status = lm_length(j, &T);
        return status ? status : qkv__conversations_write(&j->talks, base, x, T);
    }
    qkv_status status = lm_pack(j, x->data.spans, x->train_count, QKV__TRAIN_TOKENS, &j->train);
    if (!status && x->held_count)
        status = lm_pack(j, x->held, x->held_count, QKV__VALID_TOKENS, &j->valid);
    return status;
}

static qkv_status lm_open_data(qkv__run *base)
{
    job *j = (job *)base;
    if (j->talks.files.count)
        return qkv__conversations_reopen(base);
    qkv_status status = lm_pack(j, NULL, 0, QKV__TRAIN_TOKENS, &j->train);
    if (!status)
        status = lm_pack(j, NULL, 0, QKV__VALID_TOKENS, &j->valid);
    if (!status && !j->train)
        status = qkv_fail(base->ctx, QKV_E_IO, "%s/" QKV__TRAIN_TOKENS " is missing",
                           base->o.out);
    return status;
}

static qkv_status lm_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    size_t T;
    qkv_status status = lm_length(j, &T);
    if (status)
        return status;
    j->s.length = T; /* as the run will keep it */
    if (j->talks.files.count)
        return qkv__conversations_task(base, T);
    status = qkv_task_lm(&base->task, base->model, j->train, j->valid, T, base->o.seed);
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

static void lm_close_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_tokens_close(j->train);
    qkv_tokens_close(j->valid);
    qkv__text_split_close(&j->texts);
    qkv__conversations_close(&j->talks, base->ctx);
}

static qkv_status lm_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    const job *j = user;
    (void)t;
    if (j->talks.files.count)
        return qkv__sample_answers(&j->base, out);
    return qkv__sample_continuations(&j->base, j->valid ? j->valid : j->train, out);
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
static const char *const decides[] = {"layout", NULL};
static size_t variant(const char *const *values)
{
    size_t i = 0;
    while (layouts[i] && strcmp(values[0], layouts[i]) != 0)
        i++;
    return layouts[i] ? i : 0;
}

#define LAYOUT_TABLES(layout)                                                                      \
    static const qkv__job_table layout##_tables[] = {                                              \
        {&table, offsetof(job, s)}, {&qkv__conversations_table, offsetof(job, talks)},             \
        {&qkv__vocabulary_table, offsetof(job, vocabulary)}, QKV__RUN_TABLES,                      \
        {&qkv__##layout##_config, offsetof(job, config)}, {NULL, 0}};
LAYOUTS(LAYOUT_TABLES)

#define LAYOUT_KIND(layout)                                                                        \
    .name = "lm", .size = sizeof(job), .tables = layout##_tables, .presets = presets,              \
    .decides = decides, .variant = variant, .about = "--layout " #layout,                          \
    .can = QKV_CAN_GENERATE, .check = lm_check, .read = lm_read_data, .write = lm_write_data,      \
    .open = lm_open_data, .begin = lm_begin, .sample = lm_sample, .close = lm_close_data,          \
    .has_text = true, .fixed = fixed, .decided = decided, .task_tables = task_tables
#define LAYOUT_PLACE(layout) PLACE_##layout,
#define LAYOUT_VARIANT(layout)                                                                     \
    {LAYOUT_KIND(layout),                                                                          \
     .other = PLACE_##layout + 1 < PLACES ? &others[PLACE_##layout + 1] : NULL},
enum { OTHER_LAYOUTS(LAYOUT_PLACE) PLACES };
static const qkv__job_kind others[] = {OTHER_LAYOUTS(LAYOUT_VARIANT)};
const qkv__job_kind qkv__job_lm = {LAYOUT_KIND(llama), .other = others, .sizes = {qkv_gpt2_type}};
