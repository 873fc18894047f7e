/* image_list.h - sets of images: folders, tar archives, idx files, fonts; with classes or without.
 * Layer: image */
#ifndef QKV_IMAGE_LIST_H
#define QKV_IMAGE_LIST_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

typedef struct qkv_image_list qkv_image_list;

/* Whether the path holds a folder, an archive, an idx file, a font or an image, by how it begins:
 * what tells them from texts. */
bool qkv_is_image_list(const char *path);

/* Lists what path holds, in the order of names, and reads no image yet:
 *   a folder: its .png, .jpg and .jpeg files; those in a folder of it have that folder for class;
 *   a tar archive: the same, the class is the folder that the file lies in directly;
 *   an idx file of images (gzipped or not): (count, rows, columns), or with channels behind them.
 *     Its classes are in the file beside it whose name has "labels" and "idx1" for "images" and
 *     "idx3", where there is one, and are named by their number;
 *   a font with coloured bitmaps (tables CBLC and CBDT): its characters, sequences left out; the
 *     class is what they show: animals, faces, food .. or, where nothing else fits, things;
 *   an image: itself.
 * No image at all is an error. On failure *out is NULL and the context names the file. */
qkv_status qkv_image_list_open(qkv_image_list **out, qkv_context *ctx, const char *path);
void qkv_image_list_close(qkv_image_list *p); /* NULL is allowed */

size_t qkv_image_list_count(const qkv_image_list *p);
/* Of image i: where it is, for people; its class, or -1. */
const char *qkv_image_list_name(const qkv_image_list *p, size_t i);
int32_t qkv_image_list_class(const qkv_image_list *p, size_t i);

/* Classes are sorted by name (numbers of an idx file by value). 0: there are none. */
size_t qkv_image_list_classes(const qkv_image_list *p);
const char *qkv_image_list_class_name(const qkv_image_list *p, size_t class_);

/* Decodes image i; freed with qkv_image_free. options may be NULL. */
qkv_status qkv_image_list_read(const qkv_image_list *p, size_t i, qkv_image *out,
                               const qkv_image_options *options);

QKV_END_DECLS
#endif
