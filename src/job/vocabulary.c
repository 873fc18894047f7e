/* vocabulary.c - vocabularies for a model that is about to be, trained or taken from a folder. */
#include "job/vocabulary.h"

#include <string.h>

#include "io/file.h"
#include "qkv/hub.h"
#include "tokenizer/trainers.h"

/* In the order of qkv_tokenizer_kind. */
static const char *const kinds[] = {
#define KIND_NAME(kind, name, trainer) name,
    QKV_TOKENIZER_KINDS(KIND_NAME)
#undef KIND_NAME
    NULL};

/* Special tokens where the kind has none; SentencePiece's have those of Marian. */
static const char *const spelled[QKV_TOKEN_ROLES] = {
    [QKV_TOKEN_EOS] = "</s>",   [QKV_TOKEN_BOS] = "<s>",    [QKV_TOKEN_PAD] = "<pad>",
    [QKV_TOKEN_UNK] = "<unk>",  [QKV_TOKEN_CLS] = "[CLS]",  [QKV_TOKEN_SEP] = "[SEP]",
    [QKV_TOKEN_MASK] = "[MASK]"};

#define FROM "tokenizer-from"
#define FIELD(member) .offset = offsetof(qkv_vocabulary, member)
static const qkv_option rows[] = {
    {.flag = "tokenizer", .type = QKV_OPT_ENUM, FIELD(kind), .names = kinds, .initial = "bpe",
     .help = "what a token is"},
    {.flag = "vocab", .type = QKV_OPT_SIZE, .min = 16, .max = 16777216, FIELD(vocab),
     .initial = "4096", .help = "most tokens, except of characters"},
    {.flag = "coverage", .type = QKV_OPT_REAL, .min = 0.001, .max = 1, FIELD(coverage),
     .initial = "1", .help = "share of the text's characters that have a token, the most frequent "
                             "first; 0.9995 where there are thousands. Not char, bpe"},
    {.flag = "keep-case", .type = QKV_OPT_BOOL, FIELD(keep_case),
     .help = "wordpiece: capitals and accents stay"},
    {.flag = FROM, .type = QKV_OPT_STRING, FIELD(from), .value = "DIR",
     .help = "train none: take the tokenizer that is there"},
};
const qkv_option_table qkv__vocabulary_table = {"Vocabulary", rows, sizeof rows / sizeof *rows,
                                                sizeof(qkv_vocabulary)};

static const char *const role_keys[QKV_TOKEN_ROLES] = {
#define ROLE_KEY(name, key) key,
    QKV_TOKEN_LIST(ROLE_KEY)
#undef ROLE_KEY
};

static qkv_status vocabulary_load(qkv_context *ctx, const char *dir, unsigned roles,
                                  qkv_tokenizer **out)
{
    qkv_status status = qkv_hub_load_tokenizer(out, ctx, dir);
    for (int i = 0; i < QKV_TOKEN_ROLES && !status; i++)
        if ((roles >> i & 1) && qkv_tokenizer_special(*out, (qkv_token_role)i) < 0)
            status = qkv_fail(ctx, QKV_E_ARGUMENT, "--" FROM ": the tokenizer in %s has no %s",
                               dir, role_keys[i]);
    return status;
}

static qkv_status vocabulary_learn(qkv_context *ctx, qkv_tokenizer_trainer *tr,
                                   const qkv_text_span *parts, size_t count)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (qkv_tokenizer_trainer_add(tr, parts[i].data, parts[i].len))
            status = qkv_fail_prefix(ctx, parts[i].name);
    return status;
}

qkv_status qkv__vocabulary_train(qkv_context *ctx, const qkv_vocabulary *v,
                                 const qkv_options *options, unsigned roles,
                                 const qkv_text_span *train, size_t train_count,
                                 const qkv_text_span *valid, size_t valid_count,
                                 qkv_tokenizer **out)
{
    if (v->from) {
        qkv__vocabulary_unused(ctx, options, "--" FROM, v->from);
        return vocabulary_load(ctx, v->from, roles, out);
    }
    qkv_tokenizer_options o = qkv_tokenizer_defaults((qkv_tokenizer_kind)v->kind);
    o.vocab = v->vocab;
    o.coverage = v->coverage;
    o.keep_case = v->keep_case;
    o.add_eos = roles >> QKV_TOKEN_EOS & 1;
    const qkv__trainer_kind *kind = qkv__trainer_kind_of(o.kind);
    for (int i = 0; i < QKV_TOKEN_ROLES && !kind->own_special; i++)
        if (!(roles >> i & 1))
            o.special[i] = o.add_eos ? NULL : o.special[i];
        else if (!o.special[i])
            o.special[i] = spelled[i];
    qkv_tokenizer_trainer *tr = NULL;
    qkv_status status = qkv_tokenizer_trainer_create(&tr, ctx, &o);
    if (!status)
        status = vocabulary_learn(ctx, tr, train, train_count);
    if (!status && kind->exact)
        status = vocabulary_learn(ctx, tr, valid, valid_count);
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, out);
    qkv_tokenizer_trainer_destroy(tr);
    return status;
}

void qkv__vocabulary_unused(qkv_context *ctx, const qkv_options *options, const char *why,
                            const char *place)
{
    for (size_t i = 0; i < qkv__vocabulary_table.count; i++) {
        const char *flag = rows[i].flag;
        if (options && strcmp(why + 2, flag) && qkv_options_given(options, flag))
            qkv__note(ctx, "--%s has no effect: with %s it is as in %s", flag, why, place);
    }
}

/* ---- public ---------------------------------------------------------------------------------- */

static const struct {
    unsigned roles;
    qkv_tokenizer_kind kind;
} needs[] = {
    [QKV_VOCABULARY_LM] = {0, QKV_TOKENIZER_BPE},
    [QKV_VOCABULARY_MLM] = {QKV__BERT_ROLES, QKV_TOKENIZER_WORDPIECE},
    [QKV_VOCABULARY_TRANSLATE] = {QKV__TRANSLATE_ROLES, QKV_TOKENIZER_SENTENCEPIECE_BPE},
};

const qkv_option_table *qkv_vocabulary_table(void) { return &qkv__vocabulary_table; }

qkv_vocabulary qkv_vocabulary_defaults(qkv_vocabulary_use use)
{
    qkv_vocabulary v;
    qkv_option_defaults(&qkv__vocabulary_table, &v);
    v.kind = (int)needs[use].kind;
    return v;
}

qkv_status qkv_train_tokenizer(qkv_tokenizer **out, qkv_context *ctx, const qkv_text_span *parts,
                               size_t count, qkv_vocabulary_use use, const qkv_vocabulary *v,
                               const qkv_options *given)
{
    *out = NULL;
    return qkv__vocabulary_train(ctx, v, given, needs[use].roles, parts, count, NULL, 0, out);
}

qkv_status qkv_train_tokenizer_files(qkv_tokenizer **out, qkv_context *ctx,
                                     const qkv_strings *files, const char *dir,
                                     qkv_vocabulary_use use, const qkv_vocabulary *v,
                                     const qkv_options *given)
{
    qkv_names there = {0};
    qkv_texts x = {0};
    *out = NULL;
    qkv_status status = qkv_dir_exists(dir) ? qkv_dir_list(&there, ctx, dir) : QKV_OK;
    if (there.count)
        status = qkv_fail(ctx, QKV_E_IO, "%s is not empty: give another --out", dir);
    qkv_names_free(&there);
    if (!status)
        status = qkv_texts_open(&x, ctx, files);
    if (!status)
        status = qkv_train_tokenizer(out, ctx, x.spans, x.count, use, v, given);
    qkv_texts_close(&x);
    if (!status)
        status = qkv_tokenizer_save(*out, dir);
    if (!status)
        return QKV_OK;
    qkv_tokenizer_destroy(*out);
    *out = NULL;
    return status;
}
