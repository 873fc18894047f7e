/* gpt_config.h - the two files of GPT: fields, and the network. */
#ifndef QKV_SRC_MODEL_GPT_CONFIG_H
#define QKV_SRC_MODEL_GPT_CONFIG_H

#include "model/model.h"
#include "qkv/gpt.h"

extern const qkv_option_table qkv__gpt2_config, qkv__llama_config, qkv__prior_config;

#endif
