/* evaluators.h - who evaluates which models: a qkv__evaluator_NAME in a file of this folder, which
 * the build adds to qkv__evaluators. */
#ifndef QKV_SRC_PIPELINE_EVALUATORS_H
#define QKV_SRC_PIPELINE_EVALUATORS_H

#include "pipeline/pipeline.h"

/* Adds the metrics to out; scored counts what was evaluated, in the evaluator's unit. The data that
 * o names are of the evaluate's kind. */
typedef qkv_status qkv__evaluate_fn(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_metrics *out);

/* What data is named with; ON_TEXT_PAIRS: as ON_FILE or as ON_PAIRS. */
enum { QKV__ON_FILE, QKV__ON_PAIRS, QKV__ON_MASKS, QKV__ON_TEXT_PAIRS };

typedef struct {
    unsigned can;    /* QKV_CAN_* of the models that it evaluates .. */
    unsigned unless; /* .. but for those with these; can 0: it evaluates .. */
    qkv_model_type_fn *type; /* .. models of this type */
    qkv__evaluate_fn *evaluate;
    const char *unit; /* "tokens" */
    int data;         /* QKV__ON_FILE, .. */
    bool text;        /* it wants a tokenizer */
    bool lpips;       /* it can ask another network */
} qkv__evaluator;

extern const qkv__evaluator *const qkv__evaluators[]; /* NULL at the end */

#endif
