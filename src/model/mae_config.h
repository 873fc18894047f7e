/* mae_config.h - the two files of the masked autoencoder: fields, and the network. */
#ifndef QKV_SRC_MODEL_MAE_CONFIG_H
#define QKV_SRC_MODEL_MAE_CONFIG_H

#include "model/model.h"
#include "qkv/mae.h"

extern const qkv_option_table qkv__mae_config;

#endif
