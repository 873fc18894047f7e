/* kinds.h - the kinds of training jobs, one a file. */
#ifndef QKV_SRC_JOB_KINDS_H
#define QKV_SRC_JOB_KINDS_H

#include "job/run.h"

extern const qkv__job_kind qkv__job_lm, qkv__job_lm_gpt2, qkv__job_translate, qkv__job_mlm;
extern const qkv__job_kind qkv__job_classify, qkv__job_classify_images, qkv__job_forecast;
extern const qkv__job_kind qkv__job_colorize, qkv__job_segment, qkv__job_reconstruct;
extern const qkv__job_kind qkv__job_vqgan, qkv__job_imagine;

#endif
