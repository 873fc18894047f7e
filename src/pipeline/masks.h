/* masks.h - images with the masks that tell each pixel's class, and a model's classes as
 * colours. */
#ifndef QKV_SRC_PIPELINE_MASKS_H
#define QKV_SRC_PIPELINE_MASKS_H

#include "pipeline/image_set.h"
#include "qkv/masks.h"

/* Both, side x side, in memory. On failure out is empty. */
qkv_status qkv__masks_load(qkv__image_set *out, qkv_context *ctx, const char *images,
                           const char *masks, const qkv_mask_palette *palette, size_t side);

/* The colours of the masks at path; of a model's classes. */
qkv_status qkv__masks_palette(qkv_mask_palette *out, qkv_context *ctx, const char *path);
qkv_status qkv__masks_of_model(qkv_mask_palette *out, const qkv_model *m);
/* Names the model's classes by the palette. */
qkv_status qkv__masks_label(qkv_model *m, const qkv_mask_palette *palette);

#endif
