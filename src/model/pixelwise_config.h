/* pixelwise_config.h - the two files of models of every pixel: fields, and the network. */
#ifndef QKV_SRC_MODEL_PIXELWISE_CONFIG_H
#define QKV_SRC_MODEL_PIXELWISE_CONFIG_H

#include "model/model.h"
#include "qkv/pixelwise.h"

extern const qkv_option_table qkv__segmenter_config, qkv__colorizer_config;

#endif
