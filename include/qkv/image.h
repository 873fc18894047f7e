/* image.h - images in memory, eight bits a channel.
 * Layer: base */
#ifndef QKV_IMAGE_H
#define QKV_IMAGE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Rows from the top, pixels from the left, channels last. Zeroed: none. */
typedef struct {
    size_t width, height;
    size_t channels; /* 1: grey, 3: red, green, blue */
    uint8_t *data;   /* (height, width, channels) */
} qkv_image;

/* How a file is read: see image_file.h. */
typedef struct {
    size_t channels;       /* 1 or 3: what the image becomes; 0: as it is in the file   3 */
    uint8_t background[3]; /* red, green, blue: what shows through                    white */
    size_t most;           /* pixels; a larger image is an error, and so is one of more than
                              65536 on a side                                          2^26 */
} qkv_image_options;
qkv_image_options qkv_image_defaults(void);

/* Makes it so many channels, 1 or 3; 0: leaves it. On failure it is empty. */
qkv_status qkv_image_channels(qkv_image *image, qkv_context *ctx, size_t channels);

/* Memory for the pixels, uninitialised. On failure *out is empty. */
qkv_status qkv_image_create(qkv_image *out, qkv_context *ctx, size_t width, size_t height,
                            size_t channels);
void qkv_image_free(qkv_image *image, qkv_context *ctx); /* an empty one is allowed */

QKV_END_DECLS
#endif
