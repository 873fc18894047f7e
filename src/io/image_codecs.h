/* image_codecs.h - the kinds of image files, one function each. */
#ifndef QKV_SRC_IO_IMAGE_CODECS_H
#define QKV_SRC_IO_IMAGE_CODECS_H

#include "base/base.h"
#include "qkv/image.h"

/* An image file in memory. */
typedef struct {
    qkv_context *ctx;
    const char *name;
    const uint8_t *data;
    size_t size;
    qkv_image_options o;
} qkv__image_bytes;

/* Makes out as large as the file says, after a look at the limits. */
qkv_status qkv__image_create(const qkv__image_bytes *p, qkv_image *out, size_t width, size_t height,
                             size_t channels);

/* On failure *out may hold memory: the caller frees it. */
qkv_status qkv__png_decode(const qkv__image_bytes *p, qkv_image *out);
qkv_status qkv__jpeg_decode(const qkv__image_bytes *p, qkv_image *out);

/* Hands the file's bytes to put, which returns false to stop. */
qkv_status qkv__png_encode(const qkv_image *image, qkv_context *ctx,
                           bool (*put)(void *user, const void *data, size_t size), void *user);

#endif
