/* painting.h - pictures that show what a model of pictures does: made larger, dimmed where little
 * attention lies, coloured by class. */
#ifndef QKV_CMD_USE_PAINTING_H
#define QKV_CMD_USE_PAINTING_H

#include "core/cli.h"
#include "qkv/image.h"

/* Every pixel becomes so many a side that the shorter side has at least `least` pixels. On failure
 * *out is empty. */
qkv_status cli_enlarge(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t least);

/* Dims the picture's rows x columns patches by their weights: the largest stays as it is. The one
 * of that number gets a red frame. */
void cli_dim(qkv_image *image, const double *weights, size_t rows, size_t columns, size_t framed);

/* A colour for each class, far from those of the classes before it. */
void cli_class_color(size_t class_, uint8_t rgb[3]);

#endif
