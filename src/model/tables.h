/* tables.h - the models' configurations as option tables, for lists that are constant, and their
 * presets, as qkv_model_type has them. */
#ifndef QKV_SRC_MODEL_TABLES_H
#define QKV_SRC_MODEL_TABLES_H

#include "model/model.h"

extern const qkv_option_table qkv__gpt2_config, qkv__llama_config, qkv__prior_config;
extern const qkv_option_table qkv__mistral_config, qkv__phi3_config, qkv__qwen2_config,
    qkv__qwen3_config;
extern const qkv_option_table qkv__bert_config, qkv__roberta_config, qkv__distilbert_config;
extern const qkv_option_table qkv__marian_config, qkv__t5_config, qkv__forecast_config;
extern const qkv_option_table qkv__dinov2_config, qkv__dinov2_registers_config;
extern const qkv_option_table qkv__vit_config, qkv__cct_config, qkv__mae_config, qkv__vqgan_config;
extern const qkv_option_table qkv__clip_config, qkv__segmenter_config, qkv__colorizer_config;
extern const qkv_option_table qkv__series_filler_config, qkv__series_classifier_config;

/* A type's, of those that qkv_model_type_preset lists. */
typedef const char *qkv__preset_fn(const qkv_model_type *type, size_t i, const char **summary,
                                   void *config);
qkv__preset_fn qkv__gpt_preset, qkv__bert_preset, qkv__marian_preset, qkv__vit_preset,
    qkv__mae_preset, qkv__vqgan_preset, qkv__clip_preset;

#endif
