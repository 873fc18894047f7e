/* bert_config.h - the two files of BERT: fields, and the network. */
#ifndef QKV_SRC_MODEL_BERT_CONFIG_H
#define QKV_SRC_MODEL_BERT_CONFIG_H

#include "model/model.h"
#include "qkv/bert.h"

extern const qkv_option_table qkv__bert_config;

#endif
