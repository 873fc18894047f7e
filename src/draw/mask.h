/* mask.h - which samples of a band of an image a shape covers. */
#ifndef QKV_SRC_DRAW_MASK_H
#define QKV_SRC_DRAW_MASK_H

#include "base/base.h"
#include "qkv/draw.h"

/* Rows top .. top + rows of samples, width wide; coordinates are in samples. Filling sets samples
 * to 1 and widens the bounds of what is set. */
typedef struct {
    qkv_context *ctx;
    uint8_t *set; /* (rows, width) */
    size_t width, rows, top;
    size_t left, right, first, last; /* set samples lie in columns left .. right - 1, rows first ..
                                        last - 1 of the band */
    double *crossings;
    size_t capacity;
    bool failed;
} qkv__mask;

void qkv__mask_clear(qkv__mask *m); /* what is set, and the bounds */
void qkv__mask_polygon(qkv__mask *m, const qkv_point *points, size_t count); /* even-odd */
void qkv__mask_disc(qkv__mask *m, double x, double y, double radius);
/* A line with round ends. */
void qkv__mask_line(qkv__mask *m, qkv_point from, qkv_point to, double width);

#endif
