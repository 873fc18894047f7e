/* captioned.h - images with captions from a user's files, as the pipelines and training jobs read
 * them. */
#ifndef QKV_SRC_PIPELINE_CAPTIONED_H
#define QKV_SRC_PIPELINE_CAPTIONED_H

#include "pipeline/image_set.h"
#include "qkv/records.h"
#include "qkv/tokenizer.h"
#include "text/captions.h"

/* Zeroed: none. Every image has a caption or more: items [begins[i], ends[i]) of captions. */
typedef struct {
    qkv_context *ctx;
    qkv_pixels *images;
    qkv__captions captions;
    size_t *begins, *ends; /* (images) */
} qkv__captioned;

/* Decodes the images of a folder or archive as the format says, and reads their captions: from a
 * table, or from the text files in a folder. Images without caption, and captions without image,
 * are left out with a note; QKV_E_FORMAT where nothing is left. Close c after a failure too. */
qkv_status qkv__captioned_load(qkv__captioned *c, qkv_context *ctx, const char *images,
                               const char *captions, const qkv_image_format *format);
void qkv__captioned_close(qkv__captioned *c);

/* The captions of those images (NULL: the first count), image i here being numbers[i] there: as
 * records for qkv_task_captions in a file at path (NULL: in memory), with at most `length` tokens
 * each. A note says how many were cut. */
qkv_status qkv__captioned_records(qkv_records **out, const qkv__captioned *c, qkv_tokenizer *t,
                                  size_t length, const size_t *numbers, size_t count,
                                  const char *path);

#endif
