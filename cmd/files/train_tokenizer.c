/* train_tokenizer.c - `qkv train tokenizer`: a vocabulary alone, for models that come later. */
#include "core/cli.h"

typedef struct {
    qkv_strings data;
    const char *out;
    int model;
} settings;

/* In the order of qkv_vocabulary_use. */
static const char *const models[] = {"lm", "mlm", "translate", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_LIST, .flags = QKV_OPT_REQUIRED, FIELD(data), .value = "FILE",
     .help = "text to learn from, one file or more: both languages of a translator"},
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out), .value = "DIR",
     .help = "where the tokenizer goes"},
    {.flag = "for", .type = QKV_OPT_ENUM, FIELD(model), .names = models, .initial = "lm",
     .help = "which `qkv train` it is for: the special tokens that needs (classify: mlm's)"},
};
static const qkv_option_table table = {"Tokenizer", rows, sizeof rows / sizeof *rows, 0};

static int train_tokenizer_answer(cli *c, const qkv_tokenizer *t, const char *dir)
{
    size_t tokens = qkv_tokenizer_vocab_size(t);
    cli_note(c, "%s: %s, %zu tokens", dir, qkv_tokenizer_model(t), tokens);
    if (!c->common.json)
        return CLI_DONE;
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "model", qkv_tokenizer_model(t));
    qkv_json_put_int(&w, "vocab", (int64_t)tokens);
    return cli_answer(c, &w);
}

static int train_tokenizer_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_vocabulary v;
    qkv_tokenizer *t = NULL;
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_vocabulary_table(), &v);
    int refused = cli_parse(c, argc, argv, 0, 0);
    if (refused)
        return refused;
    qkv_vocabulary_use use = (qkv_vocabulary_use)s.model;
    if (!qkv_options_given(c->options, "tokenizer"))
        v.kind = qkv_vocabulary_defaults(use).kind;
    if (qkv_train_tokenizer_files(&t, c->ctx, &s.data, s.out, use, &v, c->options))
        return cli_error(c);
    int code = train_tokenizer_answer(c, t, s.out);
    qkv_tokenizer_destroy(t);
    return code;
}

static const char *const examples[] = {
    "qkv train tokenizer --data book.txt --vocab 8192 --out runs/words",
    "qkv train tokenizer --data en.txt de.txt --for translate --out runs/words",
    "qkv train lm --data book.txt --tokenizer-from runs/words --out runs/book", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", NULL, "bpe; for mlm wordpiece, for translate sentencepiece-bpe"},
    {NULL, NULL, NULL},
};

CLI_COMMAND(cli_train_tokenizer, 300) = {
    .manual = {.name = "train tokenizer", .summary = "train a vocabulary alone",
               .usage = "--data FILE... --out DIR [options]", .examples = examples,
               .presets = presets,
               .text = "Every `qkv train` of texts makes its own vocabulary of what it learns "
                       "from. One that several models share, or that learns from more text than "
                       "they do, is made here and given to them with --tokenizer-from. --out "
                       "becomes a folder that Hugging Face's AutoTokenizer reads."},
    .library[CLI_BEHIND] = qkv_vocabulary_table, .own = {&table}, .run = train_tokenizer_run};
