/* pipeline.h - what the files of this folder share. */
#ifndef QKV_SRC_PIPELINE_PIPELINE_H
#define QKV_SRC_PIPELINE_PIPELINE_H

#include "base/base.h"
#include "pipeline/prior.h"
#include "qkv/pipeline.h"

struct qkv_pipeline {
    qkv_context *ctx;
    char *dir;
    qkv_model *model;
    qkv_tokenizer *tokenizer;  /* NULL: the model reads no text */
    qkv_generation generation; /* of translators */
    qkv_tape *tape;            /* never records */
    qkv__prior codecs;         /* of a prior, once a call has asked for them */
    char label[32];            /* of qkv_pipeline_label */
};

/* Opens the VQGANs of a prior's directory, unless they are open. */
qkv_status qkv__pipeline_codecs(qkv_pipeline *p);

/* Records that the model of p does not do that ("continue text") and returns QKV_E_UNSUPPORTED. */
qkv_status qkv__pipeline_refuse(const qkv_pipeline *p, const char *what);

#endif
