/* painting.h - pictures that show what a model of pictures does: larger, dimmed where little
 * attention lies, coloured by class, side by side.
 * Layer: image */
#ifndef QKV_PAINTING_H
#define QKV_PAINTING_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* Every pixel becomes so many a side that the shorter side has at least `least` pixels. On failure
 * *out is empty. */
qkv_status qkv_image_enlarge(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t least);

/* Dims the rows x columns patches of a picture with 3 channels by their weights: the largest stays
 * as it is. The patch of that number gets a red frame. */
void qkv_image_dim(qkv_image *image, const double *weights, size_t rows, size_t columns,
                   size_t framed);

/* A colour for each class, far from those of the classes before it. */
void qkv_class_color(size_t class_, uint8_t rgb[3]);

/* Pictures of one size (height, width) in rows and columns, on paper. */
typedef struct {
    qkv_image image;
    size_t height, width; /* of a picture */
    size_t zoom;          /* pixels a side that each of its pixels becomes */
    size_t gap, margin;   /* pixels between pictures, and around all of them */
} qkv_sheet;

/* image is made for rows x columns pictures in `channels` of the level `paper`; all else in s has
 * been set. Freed with qkv_image_free; empty on failure. */
qkv_status qkv_sheet_create(qkv_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                            size_t channels, uint8_t paper);
/* picture: (height, width, channels), where 1 channel is grey on any sheet. */
void qkv_sheet_put(qkv_sheet *s, size_t row, size_t column, const uint8_t *picture,
                   size_t channels);

QKV_END_DECLS
#endif
