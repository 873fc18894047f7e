/* classify.h - the two variants of the job "classify": texts and images. */
#ifndef QKV_SRC_JOB_CLASSIFY_H
#define QKV_SRC_JOB_CLASSIFY_H

#include "job/run.h"

/* Settings of both. */
typedef struct {
    const char *data, *valid, *valid_last, *model;
    double smoothing;
} qkv__classify_options;
extern const qkv_option_table qkv__classify_table;

/* The variant of images, which that of texts names. */
extern const qkv__job_kind qkv__classify_images;

/* Which one the value of "data" is for: 0, or 1 for images. */
extern const char *const qkv__classify_decides[];
size_t qkv__job_classify_variant(const char *const *values);

#endif
