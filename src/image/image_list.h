/* image_list.h - reading images of a set on several threads. */
#ifndef QKV_SRC_IMAGE_IMAGE_LIST_H
#define QKV_SRC_IMAGE_IMAGE_LIST_H

#include "qkv/image_list.h"

/* qkv_image_list_read with memory and sentences of ctx: threads may read at once, each with a
 * context of its own. */
qkv_status qkv__image_list_read(const qkv_image_list *p, qkv_context *ctx, size_t i, qkv_image *out,
                                const qkv_image_options *options);

#endif
