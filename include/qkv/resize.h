/* resize.h - resizing images.
 * Layer: image */
#ifndef QKV_RESIZE_H
#define QKV_RESIZE_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* Resampling filters. When the image shrinks, the filter widens in proportion (antialiasing). */
typedef enum {
    QKV_RESIZE_BOX,      /* mean of the covered pixels */
    QKV_RESIZE_BILINEAR, /* triangle, support of 2 pixels */
    QKV_RESIZE_BICUBIC,  /* Keys' cubic with a = -0.5, support of 4 pixels (Keys 1981) */
    QKV_RESIZE_FILTERS
} qkv_resize_filter;

/* A region of an image, in pixels; edges may be fractional. */
typedef struct {
    double left, top, right, bottom;
} qkv_box;

/* Resizes the box of `in` (NULL: all of it) to width x height, with the same bytes as Pillow's
 * Image.resize((width, height), filter, box). QKV_E_ARGUMENT for a box outside the image, an empty
 * box or a size of 0. On failure *out is empty. */
qkv_status qkv_image_resize(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t width,
                            size_t height, qkv_resize_filter filter, const qkv_box *box);

QKV_END_DECLS
#endif
