/* list.c - every kind of training job; variants of one stand together. */
#include "job/kinds.h"

static const qkv__job_kind *const kinds[] = {
    &qkv__job_lm,
    &qkv__job_lm_gpt2,
    &qkv__job_translate,
    &qkv__job_mlm,
    &qkv__job_classify,
    &qkv__job_classify_images,
    &qkv__job_forecast,
    &qkv__job_colorize,
    &qkv__job_segment,
    &qkv__job_reconstruct,
    &qkv__job_vqgan,
    &qkv__job_imagine,
};

const qkv__job_kind *qkv__job_kind_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? kinds[i] : NULL;
}
