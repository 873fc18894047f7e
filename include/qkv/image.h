/* image.h - images in memory, 8 bits per channel.
 * Layer: base */
#ifndef QKV_IMAGE_H
#define QKV_IMAGE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* An image: rows from the top, pixels from the left, channels last. Zeroed: empty. */
typedef struct {
    size_t width, height;
    size_t channels; /* 1: grey; 3: red, green, blue */
    uint8_t *data;   /* (height, width, channels) */
} qkv_image;

/* Options for reading an image file (image_file.h). */
typedef struct {
    size_t channels;       /* convert to 1 or 3 channels; 0: as in the file             3 */
    uint8_t background[3]; /* red, green, blue behind transparent pixels            white */
    size_t most;           /* maximum number of pixels; a larger image, or one with a side above
                              65536 pixels, is an error                              2^26 */
} qkv_image_options;
qkv_image_options qkv_image_defaults(void);

/* Converts the image to 1 or 3 channels; 0: unchanged. On failure the image is empty. */
qkv_status qkv_image_channels(qkv_image *image, qkv_context *ctx, size_t channels);

/* Allocates uninitialised pixels. Free with qkv_image_free. On failure *out is empty. */
qkv_status qkv_image_create(qkv_image *out, qkv_context *ctx, size_t width, size_t height,
                            size_t channels);
void qkv_image_free(qkv_image *image, qkv_context *ctx); /* the image may be empty */

QKV_END_DECLS
#endif
