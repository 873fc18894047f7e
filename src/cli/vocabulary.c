/* vocabulary.c - vocabularies trained for a model that is about to be. */
#include "cli/vocabulary.h"

#include "base/base.h"

/* In the order of qkv_tokenizer_kind. */
static const char *const kinds[] = {"char", "bpe", "wordpiece", "unigram", "sentencepiece-bpe",
                                    NULL};

/* Special tokens where the kind has none; SentencePiece's have those of Marian. */
static const char *const spelled[QKV_TOKEN_ROLES] = {
    [QKV_TOKEN_EOS] = "</s>",   [QKV_TOKEN_BOS] = "<s>",    [QKV_TOKEN_PAD] = "<pad>",
    [QKV_TOKEN_UNK] = "<unk>",  [QKV_TOKEN_CLS] = "[CLS]",  [QKV_TOKEN_SEP] = "[SEP]",
    [QKV_TOKEN_MASK] = "[MASK]"};

#define FIELD(member) .offset = offsetof(cli_vocabulary, member)
static const qkv_option rows[] = {
    {.flag = "tokenizer", .type = QKV_OPT_ENUM, FIELD(kind), .names = kinds, .initial = "bpe",
     .help = "what a token is"},
    {.flag = "vocab", .type = QKV_OPT_SIZE, .min = 16, .max = 16777216, FIELD(vocab),
     .initial = "4096", .help = "most tokens, except of characters"},
};
const qkv_option_table cli_vocabulary_table = {"Vocabulary", rows, sizeof rows / sizeof *rows};

static qkv_status learn(cli *c, qkv_tokenizer_trainer *tr, const qkv_text_part *parts,
                        size_t count)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (qkv_tokenizer_trainer_add(tr, parts[i].data, parts[i].len))
            status = qkv__fail_prefix(c->ctx, parts[i].name);
    return status;
}

qkv_status cli_vocabulary_train(cli *c, const cli_vocabulary *v, unsigned roles,
                                const qkv_text_part *train, size_t train_count,
                                const qkv_text_part *valid, size_t valid_count,
                                qkv_tokenizer **out)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults((qkv_tokenizer_kind)v->kind);
    o.vocab = v->vocab;
    o.ends = roles >> QKV_TOKEN_EOS & 1;
    bool own = o.kind == QKV_TOKENIZER_UNIGRAM || o.kind == QKV_TOKENIZER_SENTENCEPIECE_BPE;
    for (int i = 0; i < QKV_TOKEN_ROLES && !own; i++)
        if (!(roles >> i & 1))
            o.special[i] = o.ends ? NULL : o.special[i];
        else if (!o.special[i])
            o.special[i] = spelled[i];
    qkv_tokenizer_trainer *tr = NULL;
    qkv_status status = qkv_tokenizer_trainer_create(&tr, c->ctx, &o);
    if (!status)
        status = learn(c, tr, train, train_count);
    if (!status && o.kind == QKV_TOKENIZER_CHAR)
        status = learn(c, tr, valid, valid_count);
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, out);
    qkv_tokenizer_trainer_destroy(tr);
    return status;
}
