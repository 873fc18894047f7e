/* painting.h - images that illustrate a model: enlarged, dimmed by attention weights, coloured by
 * class, side by side.
 * Layer: image */
#ifndef QKV_PAINTING_H
#define QKV_PAINTING_H

#include <qkv/image.h>

QKV_BEGIN_DECLS

/* Enlarges by an integer factor so that the shorter side has at least `least` pixels. On failure
 * *out is empty. */
qkv_status qkv_image_enlarge(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t least);

/* Dims the rows x columns patches of an image with 3 channels in proportion to their weights; the
 * largest weight leaves its patch unchanged. Patch number `framed` gets a red frame. */
void qkv_image_dim(qkv_image *image, const double *weights, size_t rows, size_t columns,
                   size_t framed);

/* A colour for each class, well distinguishable from those of lower classes. */
void qkv_class_color(size_t class_, uint8_t rgb[3]);

/* A sheet: images of one size (height, width) in rows and columns. */
typedef struct {
    qkv_image image;
    size_t height, width; /* of one image, pixels */
    size_t zoom;          /* enlargement factor of each image */
    size_t gap, margin;   /* pixels between images, and around the sheet */
} qkv_sheet;

/* Creates s->image for rows x columns images with `channels`, filled with the level `paper`. Set
 * the other fields of s first. Free s->image with qkv_image_free; on failure it is empty. */
qkv_status qkv_sheet_create(qkv_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                            size_t channels, uint8_t paper);
/* Draws image (height, width, channels) on the sheet. 1 channel is drawn as grey on any sheet. */
void qkv_sheet_put(qkv_sheet *s, size_t row, size_t column, const uint8_t *image,
                   size_t channels);

QKV_END_DECLS
#endif
