/* bert_config.h - the two files of BERT: fields, and the network. */
#ifndef QKV_SRC_MODEL_BERT_CONFIG_H
#define QKV_SRC_MODEL_BERT_CONFIG_H

#include "model/model.h"
#include "qkv/bert.h"

extern const qkv_option_table qkv__bert_config;

const char *qkv__bert_preset(const qkv_model_type *type, size_t i, const char **summary,
                             void *config);

#endif
