/* classify.h - the variants of the job "classify": texts, images, series. */
#ifndef QKV_SRC_JOB_CLASSIFY_H
#define QKV_SRC_JOB_CLASSIFY_H

#include "job/run.h"

/* Settings of all. */
typedef struct {
    const char *data, *valid, *valid_last, *model;
    double smoothing;
} qkv__classify_options;
extern const qkv_option_table qkv__classify_table;

/* The variants of images, which that of texts names, and of series, which that of images names. */
extern const qkv__job_kind qkv__classify_images, qkv__classify_series_kind;

/* Which one the value of "data" is for: 0, 1 for images, 2 for series (.csv). */
extern const char *const qkv__classify_decides[];
size_t qkv__job_classify_variant(const char *const *values);

#endif
