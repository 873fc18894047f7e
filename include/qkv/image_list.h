/* image_list.h - sets of images, with or without classes: folders, tar archives, idx files, fonts.
 * Layer: image */
#ifndef QKV_IMAGE_LIST_H
#define QKV_IMAGE_LIST_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

typedef struct qkv_image_list qkv_image_list;

/* True if the path is a folder, or a file that begins like an archive, idx file, font or image.
 * Distinguishes images from texts. */
bool qkv_is_image_list(const char *path);

/* Lists the images at path, sorted by name, without decoding them. path is one of:
 *   a folder: its .png, .jpg and .jpeg files. A subfolder's name is the class of the files in it;
 *   a tar archive: as a folder. The folder directly above a file is its class;
 *   an idx file of images, gzipped or not: (count, rows, columns) or (count, rows, columns,
 *     channels). The classes are numbers, from the file beside it with "labels" and "idx1" in its
 *     name instead of "images" and "idx3", if there is one;
 *   a font with coloured bitmaps (tables CBLC and CBDT): its single characters. The class is the
 *     kind of thing shown: animals, faces, food .., or things;
 *   one image file.
 * A path without images is an error. On failure *out is NULL and the message names the file. */
qkv_status qkv_image_list_open(qkv_image_list **out, qkv_context *ctx, const char *path);
void qkv_image_list_close(qkv_image_list *p); /* NULL is allowed */

size_t qkv_image_list_count(const qkv_image_list *p);
/* Image i: its location, for messages; its class, or -1 if it has none. */
const char *qkv_image_list_name(const qkv_image_list *p, size_t i);
int32_t qkv_image_list_class(const qkv_image_list *p, size_t i);

/* The number of classes, which are sorted by name (an idx file's by value); 0: no classes. */
size_t qkv_image_list_classes(const qkv_image_list *p);
const char *qkv_image_list_class_name(const qkv_image_list *p, size_t class_);

/* Decodes image i. Free with qkv_image_free. options may be NULL. */
qkv_status qkv_image_list_read(const qkv_image_list *p, size_t i, qkv_image *out,
                               const qkv_image_options *options);

QKV_END_DECLS
#endif
