/* painting.h - images that show what a model of images does: larger, dimmed where little
 * attention lies, coloured by class, side by side.
 * Layer: image */
#ifndef QKV_PAINTING_H
#define QKV_PAINTING_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* Every pixel becomes so many a side that the shorter side has at least `least` pixels. On failure
 * *out is empty. */
qkv_status qkv_image_enlarge(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t least);

/* Dims the rows x columns patches of an image with 3 channels by their weights: the largest stays
 * as it is. The patch of that number gets a red frame. */
void qkv_image_dim(qkv_image *image, const double *weights, size_t rows, size_t columns,
                   size_t framed);

/* A colour for each class, far from those of the classes before it. */
void qkv_class_color(size_t class_, uint8_t rgb[3]);

/* Images of one size (height, width) in rows and columns, on paper. */
typedef struct {
    qkv_image image;
    size_t height, width; /* of an image */
    size_t zoom;          /* pixels a side that each of its pixels becomes */
    size_t gap, margin;   /* pixels between images, and around all of them */
} qkv_sheet;

/* image is made for rows x columns images in `channels` of the level `paper`; all else in s has
 * been set. Freed with qkv_image_free; empty on failure. */
qkv_status qkv_sheet_create(qkv_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                            size_t channels, uint8_t paper);
/* image: (height, width, channels), where 1 channel is grey on any sheet. */
void qkv_sheet_put(qkv_sheet *s, size_t row, size_t column, const uint8_t *image,
                   size_t channels);

QKV_END_DECLS
#endif
