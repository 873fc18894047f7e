/* image_file.h - image files: reads PNG and JPEG, writes PNG, 8 bits per channel.
 * Layer: io */
#ifndef QKV_IMAGE_FILE_H
#define QKV_IMAGE_FILE_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* Reads a regular file (not a pipe): PNG of any colour type and depth (the background fills
 * transparent pixels; 16 bits are rounded to 8), or JPEG (grey, YCbCr, RGB, CMYK; rotated as its
 * Exif data says). The format is detected from the content. Grey is 0.299 red + 0.587 green + 0.114
 * blue. A damaged or truncated file is an error. options may be NULL. On failure *out is empty and
 * the message names the file: QKV_E_IO, QKV_E_FORMAT, QKV_E_MEMORY, QKV_E_UNSUPPORTED (another
 * format, or a build without images). */
qkv_status qkv_image_read(qkv_image *out, qkv_context *ctx, const char *path,
                          const qkv_image_options *options);
/* qkv_image_read from memory. name: used in error messages. */
qkv_status qkv_image_decode(qkv_image *out, qkv_context *ctx, const void *data, size_t size,
                            const char *name, const qkv_image_options *options);

/* Writes a PNG file. */
qkv_status qkv_image_write(const qkv_image *image, qkv_context *ctx, const char *path);

QKV_END_DECLS
#endif
