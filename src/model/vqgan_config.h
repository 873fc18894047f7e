/* vqgan_config.h - the files of VQGAN: fields, its two halves, the discriminator. */
#ifndef QKV_SRC_MODEL_VQGAN_CONFIG_H
#define QKV_SRC_MODEL_VQGAN_CONFIG_H

#include "model/model.h"
#include "qkv/vqgan.h"

extern const qkv_option_table qkv__vqgan_config;

#endif
