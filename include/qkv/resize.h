/* resize.h - images in other sizes.
 * Layer: image */
#ifndef QKV_RESIZE_H
#define QKV_RESIZE_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* What a pixel of the result is made of. When the image shrinks, filters widen to the pixels
 * that become one (antialiasing). */
typedef enum {
    QKV_RESIZE_BOX,      /* the mean of the pixels below it */
    QKV_RESIZE_BILINEAR, /* a triangle over 2 pixels */
    QKV_RESIZE_BICUBIC,  /* Keys' cubic with a = -0.5, over 4 (Keys 1981) */
    QKV_RESIZE_FILTERS
} qkv_resize_filter;

/* Part of an image, in pixels; edges may lie within one. */
typedef struct {
    double left, top, right, bottom;
} qkv_box;

/* The box of `in` (NULL: all of it) as width x height: the same bytes as Pillow's
 * Image.resize((width, height), filter, box). A box beyond the image, an empty one or a size
 * of 0 is QKV_E_ARGUMENT. On failure *out is empty. */
qkv_status qkv_image_resize(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t width,
                            size_t height, qkv_resize_filter filter, const qkv_box *box);

QKV_END_DECLS
#endif
