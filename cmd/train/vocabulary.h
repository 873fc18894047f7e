/* vocabulary.h - the options of commands that need a vocabulary, and its making. */
#ifndef QKV_CMD_TRAIN_VOCABULARY_H
#define QKV_CMD_TRAIN_VOCABULARY_H

#include "core/cli.h"
#include "qkv/tokens.h"

typedef struct {
    int kind; /* a qkv_tokenizer_kind */
    size_t vocab;
    double coverage; /* as in qkv_tokenizer_options; 0: all */
    bool keep_case;
    const char *from; /* NULL, or a folder: nothing is learnt, its tokenizer is taken */
} cli_vocabulary;
extern const qkv_option_table cli_vocabulary_table;

/* Special tokens of translators. */
enum { CLI_TRANSLATE_ROLES = 1 << QKV_TOKEN_EOS | 1 << QKV_TOKEN_PAD | 1 << QKV_TOKEN_UNK };

/* Learns from `train`; characters must all be known, so those of `valid` are added. roles: bits
 * (1 << qkv_token_role) of special tokens that there must be; EOS among them ends every text, and
 * there are no others then. A failure begins with the part's name. */
qkv_status cli_vocabulary_train(cli *c, const cli_vocabulary *v, unsigned roles,
                                const qkv_text_part *train,
                                size_t train_count, const qkv_text_part *valid,
                                size_t valid_count, qkv_tokenizer **out);

/* Says which of the flags have no effect, because the tokenizer is the one in `place`. */
void cli_vocabulary_unused(const cli *c, const char *why, const char *place);

#endif
