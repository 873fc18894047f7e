/* bert.h - what the jobs that train a BERT share: its making. */
#ifndef QKV_SRC_JOB_BERT_H
#define QKV_SRC_JOB_BERT_H

#include "job/run.h"
#include "text/texts.h"
#include "qkv/bert.h"

/* A new model for j->tokenizer, with the sizes of a preset but for those that --set gave. */
qkv_status qkv__bert_create(qkv__run *j, const qkv_model_type *type, qkv_bert_config *config,
                           const char *preset);

/* The tokenizer of --init, and its model with the head that `type` has: a new one, for `classes`
 * classes (0: as many as there were), if it had another. --set can change its dropout, no more.
 * config's positions are --length: an error when it was given and the model has fewer. */
qkv_status qkv__bert_init(qkv__run *j, const qkv_model_type *type, const qkv_bert_config *config,
                         size_t classes);

#endif
