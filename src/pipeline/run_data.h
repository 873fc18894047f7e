/* run_data.h - the data that a training run keeps in its directory: jobs write it, evaluation reads
 * what was held out. */
#ifndef QKV_SRC_PIPELINE_RUN_DATA_H
#define QKV_SRC_PIPELINE_RUN_DATA_H

#include "base/base.h"

#define QKV__TRAIN_TOKENS "train/train-tokens.safetensors"
#define QKV__VALID_TOKENS "train/valid-tokens.safetensors"
#define QKV__TRAIN_RECORDS "train/train-records.safetensors"
#define QKV__VALID_RECORDS "train/valid-records.safetensors"
#define QKV__TRAIN_IMAGES "train/train-images.safetensors"
#define QKV__VALID_IMAGES "train/valid-images.safetensors"
#define QKV__TRAIN_MASKS "train/train-masks.safetensors"
#define QKV__VALID_MASKS "train/valid-masks.safetensors"

/* Fails when dir holds a run's data in a format of an earlier version; the sentence ends with the
 * advice. */
qkv_status qkv__run_data_readable(qkv_context *ctx, const char *dir, const char *advice);

#endif
