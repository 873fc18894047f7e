/* pipeline.h - what the files of this folder share. */
#ifndef QKV_SRC_PIPELINE_PIPELINE_H
#define QKV_SRC_PIPELINE_PIPELINE_H

#include "base/base.h"
#include "qkv/pipeline.h"

struct qkv_pipeline {
    qkv_context *ctx;
    char *dir;
    qkv_model *model;
    qkv_tokenizer *tokenizer; /* NULL: the model reads no text */
    qkv_tape *tape;           /* never records */
};

/* Records that the model of p does not do that ("continue text") and returns QKV_E_UNSUPPORTED. */
qkv_status qkv__pipeline_refuse(const qkv_pipeline *p, const char *what);

#endif
