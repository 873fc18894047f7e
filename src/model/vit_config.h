/* vit_config.h - the two files of the Vision Transformers: fields, and the network. */
#ifndef QKV_SRC_MODEL_VIT_CONFIG_H
#define QKV_SRC_MODEL_VIT_CONFIG_H

#include "model/model.h"
#include "qkv/vit.h"

extern const qkv_option_table qkv__vit_config, qkv__cct_config;

#endif
