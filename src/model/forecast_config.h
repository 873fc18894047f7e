/* forecast_config.h - the two files of the forecaster: fields, and the network. */
#ifndef QKV_SRC_MODEL_FORECAST_CONFIG_H
#define QKV_SRC_MODEL_FORECAST_CONFIG_H

#include "model/model.h"
#include "qkv/forecast.h"

extern const qkv_option_table qkv__forecast_config;

#endif
