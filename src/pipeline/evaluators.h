/* evaluators.h - the functions of evaluation. Each evaluates some kinds of models and has a
 * row in evaluate.c. */
#ifndef QKV_SRC_PIPELINE_EVALUATORS_H
#define QKV_SRC_PIPELINE_EVALUATORS_H

#include "pipeline/pipeline.h"

/* Adds the measures to out; scored counts what was evaluated, in the row's unit. The data that o
 * names are of the row's kind. */
typedef qkv_status qkv__evaluate_fn(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_metrics *out);
qkv__evaluate_fn qkv__evaluate_lm, qkv__evaluate_translate, qkv__evaluate_mlm,
    qkv__evaluate_classify, qkv__evaluate_forecast, qkv__evaluate_classify_images,
    qkv__evaluate_colorize, qkv__evaluate_reconstruct, qkv__evaluate_segment,
    qkv__evaluate_codes, qkv__evaluate_prior, qkv__evaluate_perceptual;

#endif
