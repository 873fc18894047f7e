/* masks.h - what the commands about each pixel's class share: pictures with their masks, and a
 * model's classes as colours. */
#ifndef QKV_CMD_USE_MASKS_H
#define QKV_CMD_USE_MASKS_H

#include "use/pictures.h"
#include "qkv/masks.h"

/* Both, side x side, in memory. On failure out is empty. */
qkv_status cli_masks_read(cli_picture_set *out, cli *c, const char *images, const char *masks,
                          const qkv_mask_palette *palette, size_t side);

/* The colours of the masks at path; of a model's classes. */
qkv_status cli_masks_palette(qkv_mask_palette *out, qkv_context *ctx, const char *path);
qkv_status cli_masks_of_model(qkv_mask_palette *out, const qkv_model *m);
/* Names the model's classes by the palette. */
qkv_status cli_masks_label(qkv_model *m, const qkv_mask_palette *palette);

#endif
