/* bert.h - what the commands that train a BERT share: its making, held-out lines. */
#ifndef QKV_CMD_TRAIN_BERT_H
#define QKV_CMD_TRAIN_BERT_H

#include "train/job.h"
#include "text/texts.h"
#include "qkv/bert.h"

/* Special tokens that its vocabulary must have. */
enum {
    CLI_BERT_ROLES = 1 << QKV_TOKEN_PAD | 1 << QKV_TOKEN_UNK | 1 << QKV_TOKEN_CLS |
                     1 << QKV_TOKEN_SEP | 1 << QKV_TOKEN_MASK
};

/* The texts of a run: what is learnt from, and what is held out. Zeroed: none. */
typedef struct {
    qkv_texts data, valid_file;
    size_t train_count;  /* of data.parts */
    qkv_text_part *held; /* (held_count) */
    size_t held_count;
} cli_split;

/* Opens the files and holds out those of `valid`, or, with valid NULL, `last` lines ("N" or
 * "N%") at the end. cli_split_close frees it, after a failure too. */
qkv_status cli_split_open(cli_split *x, cli *c, const qkv_strings *data, const char *valid,
                          const char *last);
void cli_split_close(cli_split *x);

/* A new model for j->tokenizer, with the sizes of a preset but for those that --set gave. */
qkv_status cli_bert_create(cli_job *j, const qkv_model_type *type, qkv_bert_config *config,
                           const char *preset);

/* The tokenizer of --init, and its model with the head that `type` has: a new one, for `classes`
 * classes (0: as many as there were), if it had another. --set can change its dropout, no more.
 * config's positions are --length: an error when it was given and the model has fewer. */
qkv_status cli_bert_init(cli_job *j, const qkv_model_type *type, const qkv_bert_config *config,
                         size_t classes);

#endif
