/* types.c - the list of model types. */
#include <string.h>

#include "model/model.h"
#include "qkv/bert.h"
#include "qkv/dense.h"
#include "qkv/forecast.h"
#include "qkv/gpt.h"
#include "qkv/mae.h"
#include "qkv/marian.h"
#include "qkv/perceptual.h"
#include "qkv/vit.h"
#include "qkv/vqgan.h"

static const qkv_model_type *const types[] = {&qkv_gpt2_type, &qkv_llama_type,
                                              &qkv_bert_masked_type, &qkv_bert_classifier_type,
                                              &qkv_marian_type, &qkv_translator_type,
                                              &qkv_forecast_type, &qkv_vit_type, &qkv_cct_type,
                                              &qkv_segmenter_type, &qkv_colorizer_type,
                                              &qkv_mae_type, &qkv_vqgan_type,
                                              &qkv_perceptual_type, &qkv_prior_type};

const qkv_model_type *qkv_model_type_at(size_t i)
{
    return i < sizeof types / sizeof *types ? types[i] : NULL;
}

const qkv_model_type *qkv_model_type_find(const char *name, const char *architecture)
{
    const qkv_model_type *first = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i]->name, name) != 0)
            continue;
        if (architecture && strcmp(types[i]->architecture, architecture) == 0)
            return types[i];
        first = first ? first : types[i];
    }
    return first;
}
