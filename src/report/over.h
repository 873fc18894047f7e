/* over.h - maps over pictures, as several panels draw them. */
#ifndef QKV_SRC_REPORT_OVER_H
#define QKV_SRC_REPORT_OVER_H

#include "report/looking.h"

/* A pixel of the input by `text`, "X,Y"; the middle without text. option: its name, for the
 * sentence. */
qkv_status qkv__look_pixel(const qkv__looking *l, const char *text, const char *option,
                           const qkv_image *image, size_t *x, size_t *y);

/* Weights from the patch at (row, column) to all patches, (rows, columns) of the axis: layer -1:
 * rollout; the mean of the heads. weights: (rows * columns). */
qkv_status qkv__look_patch_row(const qkv_look *l, int layer, size_t row, size_t column,
                               float *weights);

/* A map (rows, columns) over a picture, with a title above it and a scale beside it. */
typedef struct {
    const char *title;
    const qkv_image *picture;
    const float *values;
    size_t rows, columns;
    const char *key; /* of the cells, for scripts; NULL: none */
} qkv__look_over;
enum { QKV__OVER_SIDE = 200, QKV__OVER_ROOM = 290, QKV__OVER_TITLE = 26 };
/* Draws it at (x, y): QKV__OVER_ROOM wide, at most QKV__OVER_SIDE + QKV__OVER_TITLE + 8 high.
 * *inside (may be NULL): where the picture is. */
void qkv__look_draw_over(qkv_drawing *d, double x, double y, const qkv__look_over *map,
                         qkv_frame *inside);
/* A picture under a title, in the same room. */
void qkv__look_draw_picture(qkv_drawing *d, double x, double y, const char *title,
                            const qkv_image *picture, qkv_frame *inside);
/* A square in an image's colours. */
void qkv__look_draw_swatch(qkv_drawing *d, double x, double y, double side, const uint8_t rgb[3]);

#endif
