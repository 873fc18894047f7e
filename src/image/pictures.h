/* pictures.h - reading pictures of a set on several threads. */
#ifndef QKV_SRC_IMAGE_PICTURES_H
#define QKV_SRC_IMAGE_PICTURES_H

#include "qkv/pictures.h"

/* qkv_pictures_read with memory and sentences of ctx: threads may read at once, each with a
 * context of its own. */
qkv_status qkv__pictures_read(const qkv_pictures *p, qkv_context *ctx, size_t i, qkv_image *out,
                              const qkv_image_options *options);

#endif
