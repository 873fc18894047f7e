/* embed.h - the two variants of the job "embed": texts and images. */
#ifndef QKV_SRC_JOB_EMBED_H
#define QKV_SRC_JOB_EMBED_H

#include "job/run.h"

/* Settings of both. */
typedef struct {
    const char *data, *valid, *valid_last, *model;
    double temperature;
} qkv__embed_options;
extern const qkv_option_table qkv__embed_table;

/* The variant of images, which that of texts names. */
extern const qkv__job_kind qkv__embed_images;

#endif
