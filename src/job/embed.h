/* embed.h - the variants of the job "embed": texts, images, images with captions. */
#ifndef QKV_SRC_JOB_EMBED_H
#define QKV_SRC_JOB_EMBED_H

#include "job/run.h"

/* Settings of all. */
typedef struct {
    const char *data, *valid, *valid_last, *model;
    double temperature;
} qkv__embed_options;
extern const qkv_option_table qkv__embed_table;

/* The variants that those of texts and of images name. */
extern const qkv__job_kind qkv__embed_images, qkv__embed_captions;

/* Which one the values of "data" and "captions" are for: 0, 1, 2. */
extern const char *const qkv__embed_decides[];
size_t qkv__embed_variant(const char *const *values);

#endif
