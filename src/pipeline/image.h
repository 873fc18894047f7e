/* image.h - what the functions on single images share. */
#ifndef QKV_SRC_PIPELINE_IMAGE_H
#define QKV_SRC_PIPELINE_IMAGE_H

#include "pipeline/pipeline.h"
#include "qkv/pipeline_images.h"
#include "qkv/pixels.h"

/* A copy with 3 channels, as from its file; to be freed with qkv_image_free. On failure *out is
 * empty. */
qkv_status qkv__image_load(qkv_image *out, qkv_context *ctx, const qkv_image_source *in);

/* The same, cut to the largest part in the middle that has the shape and resized to it. */
qkv_status qkv__image_fit(qkv_image *out, qkv_context *ctx, const qkv_image_source *in,
                          size_t height, size_t width, size_t channels);

/* "X,Y" at *text, which moves behind it. false: there is none. */
bool qkv__image_place(const char **text, size_t *x, size_t *y);

/* How the model wants images: as its directory says; else squares of its own size, pixels from
 * -1 to 1, which the model is told. m: a vit, a qkv_cct or a clip. */
const qkv_image_format *qkv__image_format_of(qkv_model *m);

#endif
