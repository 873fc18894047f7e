/* sampling_run.h - drawing images from a prior: what is asked for, and what comes of it. */
#ifndef QKV_SRC_PIPELINE_SAMPLING_RUN_H
#define QKV_SRC_PIPELINE_SAMPLING_RUN_H

#include "pipeline/pipeline.h"
#include "qkv/pipeline_images.h"

/* Where a call of qkv_pipeline_sample_images stands. */
typedef struct {
    qkv_pipeline *p;
    qkv_pipeline_sample_options o;
    qkv_sampled_images *out;
    size_t given_rows;   /* of codes that o.complete gives */
    int32_t *given;      /* (rows, columns) or NULL */
    uint8_t *kept;       /* (height, width, channels): those codes' image */
    int32_t *conditions; /* (count, tokens of each) */
    size_t tokens;
    qkv_real *chances;   /* (count, vocabulary) the model's own, at the place that is shown; NULL
                            without */
    size_t first;        /* image of the part that is being drawn */
} qkv__sampling_run;

size_t qkv__sample_vocab(const qkv__sampling_run *r);
size_t qkv__sample_bytes(const qkv_sampled_images *s); /* of an image */

/* The token of r->o.class_; -1: none was asked for. Reads r->p and r->o alone. */
qkv_status qkv__sample_class(const qkv__sampling_run *r, int32_t *out);

/* Checks the options and reads the images that they name; fills all but chances and first. */
qkv_status qkv__sample_prepare(qkv__sampling_run *r);

/* From chances: the likeliest codes of each image's place, into out->next. */
void qkv__sample_rank(qkv__sampling_run *r);
/* out->sheet: all images; or what there is of each at the place, and what these codes make. */
qkv_status qkv__sample_sheet(qkv__sampling_run *r);

#endif
