/* bert.h - what the commands that train a BERT share: its making, held-out lines. */
#ifndef QKV_SRC_JOB_BERT_H
#define QKV_SRC_JOB_BERT_H

#include "job/run.h"
#include "text/texts.h"
#include "qkv/bert.h"

/* The texts of a run: what is learnt from, and what is held out. Zeroed: none. */
typedef struct {
    qkv_texts data, valid_file;
    size_t train_count;  /* of data.spans */
    qkv_text_span *held; /* (held_count) */
    size_t held_count;
} qkv__split;

/* Opens the files and holds out those of `valid`, or, with valid NULL, `last` lines ("N" or
 * "N%") at the end. qkv__split_close frees it, after a failure too. */
qkv_status qkv__split_open(qkv__split *x, qkv_context *ctx, const qkv_strings *data,
                           const char *valid, const char *last);
void qkv__split_close(qkv__split *x);

/* A new model for j->tokenizer, with the sizes of a preset but for those that --set gave. */
qkv_status qkv__bert_create(qkv__run *j, const qkv_model_type *type, qkv_bert_config *config,
                           const char *preset);

/* The tokenizer of --init, and its model with the head that `type` has: a new one, for `classes`
 * classes (0: as many as there were), if it had another. --set can change its dropout, no more.
 * config's positions are --length: an error when it was given and the model has fewer. */
qkv_status qkv__bert_init(qkv__run *j, const qkv_model_type *type, const qkv_bert_config *config,
                         size_t classes);

#endif
