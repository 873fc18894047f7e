/* vit.h - the two files of the Vision Transformer: fields, and the network. */
#ifndef QKV_SRC_MODEL_VIT_H
#define QKV_SRC_MODEL_VIT_H

#include "model/model.h"
#include "qkv/vit.h"

extern const qkv_option_table qkv__vit_config;

#endif
