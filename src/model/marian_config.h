/* marian_config.h - the two files of the encoder-decoder: fields, and the network. */
#ifndef QKV_SRC_MODEL_MARIAN_CONFIG_H
#define QKV_SRC_MODEL_MARIAN_CONFIG_H

#include "model/model.h"
#include "qkv/marian.h"

extern const qkv_option_table qkv__marian_config;

#endif
