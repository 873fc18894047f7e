/* image.h - pictures in files: PNG and JPEG in, PNG out, eight bits a channel.
 * Layer: io */
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

typedef struct {
    size_t channels;       /* 1 or 3: what the picture becomes; 0: as it is in the file   3 */
    uint8_t background[3]; /* red, green, blue: what shows through                    white */
    size_t most;           /* pixels; a larger picture is an error, and so is one of more than
                              65536 on a side                                          2^26 */
} qkv_image_options;
qkv_image_options qkv_image_defaults(void);

/* Reads a file, not a pipe: a PNG (any colour type and depth; transparent parts show the
 * background; 16 bits become the nearest 8) or a JPEG (grey, YCbCr, RGB, CMYK; turned as its Exif
 * data says). What it is says the content, not the name. Grey of colours is 0.299 red + 0.587
 * green + 0.114 blue. Damaged ones, and such as end too early, are refused whole. options may be
 * NULL. On failure *out is empty and the context names the file: QKV_E_IO, QKV_E_FORMAT,
 * QKV_E_UNSUPPORTED (a build without pictures; another kind of file), QKV_E_MEMORY. */
qkv_status qkv_image_read(qkv_image *out, qkv_context *ctx, const char *path,
                          const qkv_image_options *options);
/* The same from memory; name is for the sentence. */
qkv_status qkv_image_decode(qkv_image *out, qkv_context *ctx, const void *data, size_t size,
                            const char *name, const qkv_image_options *options);

/* Writes a PNG. */
qkv_status qkv_image_write(const qkv_image *image, qkv_context *ctx, const char *path);

/* Makes it so many channels, 1 or 3; 0: leaves it. On failure it is empty. */
qkv_status qkv_image_channels(qkv_image *image, qkv_context *ctx, size_t channels);

/* Memory for the pixels, uninitialised. On failure *out is empty. */
qkv_status qkv_image_create(qkv_image *out, qkv_context *ctx, size_t width, size_t height,
                            size_t channels);
void qkv_image_free(qkv_image *image, qkv_context *ctx); /* an empty one is allowed */

QKV_END_DECLS
#endif
