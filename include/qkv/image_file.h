/* image_file.h - images in files: PNG and JPEG in, PNG out, eight bits a channel.
 * Layer: io */
#ifndef QKV_IMAGE_FILE_H
#define QKV_IMAGE_FILE_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* Reads a file, not a pipe: a PNG (any colour type and depth; transparent parts show the
 * background; 16 bits become the nearest 8) or a JPEG (grey, YCbCr, RGB, CMYK; turned as its Exif
 * data says). What it is says the content, not the name. Grey of colours is 0.299 red + 0.587
 * green + 0.114 blue. Damaged ones, and such as end too early, are refused whole. options may be
 * NULL. On failure *out is empty and the context names the file: QKV_E_IO, QKV_E_FORMAT,
 * QKV_E_UNSUPPORTED (a build without images; another kind of file), QKV_E_MEMORY. */
qkv_status qkv_image_read(qkv_image *out, qkv_context *ctx, const char *path,
                          const qkv_image_options *options);
/* The same from memory; name is for the sentence. */
qkv_status qkv_image_decode(qkv_image *out, qkv_context *ctx, const void *data, size_t size,
                            const char *name, const qkv_image_options *options);

/* Writes a PNG. */
qkv_status qkv_image_write(const qkv_image *image, qkv_context *ctx, const char *path);

QKV_END_DECLS
#endif
