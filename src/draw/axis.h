/* axis.h - what charts share: frames, titles, axes with ticks, colour scales. */
#ifndef QKV_SRC_DRAW_AXIS_H
#define QKV_SRC_DRAW_AXIS_H

#include "draw/drawing.h"
#include "qkv/chart.h"

enum { QKV__TITLE_ROOM = 26, QKV__LABEL_ROOM = 18, QKV__TICK_ROOM = 18, QKV__SCALE_ROOM = 64,
       QKV__TITLE_SIZE = 14 };
#define QKV__SMALL 11.0 /* size of labels */

/* Values min .. max lie at from .. to of the drawing. */
typedef struct {
    double min, max, from, to;
    bool log;
} qkv__axis;

/* The frame or all of the drawing, less the room of the title, which is drawn. */
qkv_frame qkv__chart_frame(qkv_drawing *d, const qkv_frame *frame, const char *title);

/* Widens a range with nothing in it, and a linear one to whole ticks. */
void qkv__axis_settle(qkv__axis *a);
double qkv__axis_at(const qkv__axis *a, double value); /* NaN where it has no place */

enum { QKV__MAX_TICKS = 24, QKV__TICK_BYTES = 24 };
typedef struct {
    size_t count;
    double at[QKV__MAX_TICKS];
    char text[QKV__MAX_TICKS][QKV__TICK_BYTES];
} qkv__ticks;

/* About `wanted` values at round numbers, from min to max, with their text. */
void qkv__axis_ticks(const qkv__axis *a, size_t wanted, qkv__ticks *out);

/* Text that is cut, and ends in an ellipsis, where it is wider than room. */
void qkv__draw_label(qkv_drawing *d, double x, double y, const char *text, double room,
                     const qkv_text_style *style);

/* Lines of a grid, ticks and labels around the frame; either axis may be NULL. */
void qkv__draw_axes(qkv_drawing *d, qkv_frame inside, const qkv__axis *x, const qkv__axis *y);
/* Labels below the frame's ticks and to the left of `left`. */
void qkv__draw_axis_labels(qkv_drawing *d, qkv_frame inside, double left, const char *x_label,
                           const char *y_label);
/* Width of the widest label of the axis. */
double qkv__axis_width(const qkv__axis *a);

/* ---- colour scales -------------------------------------------------------------------------- */

typedef struct {
    double min, max;
    bool diverging;
} qkv__scale;

/* min and max, or where both are 0 those of the values. */
qkv__scale qkv__scale_of(double min, double max, bool diverging, const float *values,
                         size_t count);
qkv_ink qkv__scale_ink(const qkv__scale *s, double value);
qkv_ink qkv__scale_ink_on(const qkv__scale *s, double value);
/* A strip of its colours with numbers beside it. */
void qkv__draw_scale(qkv_drawing *d, qkv_frame at, const qkv__scale *s);
/* A matrix as an image, a pixel a value, in 256 colours of the scale. */
qkv_status qkv__scale_image(const qkv__scale *s, qkv_image *out, qkv_context *ctx,
                            const float *values, size_t rows, size_t columns);
/* Values as an image where the build can write one, else as rectangles. */
void qkv__draw_matrix(qkv_drawing *d, qkv_frame at, const qkv__scale *s, const float *values,
                      size_t rows, size_t columns);

#endif
