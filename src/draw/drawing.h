/* drawing.h - what a drawing has recorded, for its back ends. */
#ifndef QKV_SRC_DRAW_DRAWING_H
#define QKV_SRC_DRAW_DRAWING_H

#include "base/base.h"
#include "qkv/draw.h"

typedef enum {
    QKV__RECT,     /* points: corner; width and height */
    QKV__CIRCLE,   /* points: centre; radius, 0 */
    QKV__POLYLINE, /* points that may be not finite; drawn with outline */
    QKV__POLYGON,
    QKV__TEXT,     /* points: where it begins */
    QKV__PIXELS,   /* points: corner; width and height */
    QKV__BEGIN,
    QKV__END
} qkv__shape_kind;

enum { QKV__NO_TEXT = -1 };

typedef struct {
    qkv__shape_kind kind;
    bool flag; /* polyline: dashed; pixels: smooth; begin: edges on whole pixels */
    qkv_ink fill, outline;
    double width;         /* of the outline; of text: the size */
    size_t first, count;  /* of its points */
    ptrdiff_t text, name; /* offsets into the texts; QKV__NO_TEXT. Of a begin: key and name */
    size_t image;
    qkv_text_style style;
} qkv__shape;

struct qkv_drawing {
    qkv_context *ctx;
    qkv_status status; /* of the first failure */
    double width, height;
    ptrdiff_t title, description; /* in texts; QKV__NO_TEXT */
    qkv__shape *shapes;
    size_t count, capacity;
    qkv_point *points;
    size_t point_count, point_capacity;
    qkv_image *images;
    size_t image_count, image_capacity;
    qkv_str texts; /* one after another, each with its 0 */
    size_t depth;  /* of open groups */
};

/* The text at an offset; NULL for QKV__NO_TEXT. */
const char *qkv__drawing_text(const qkv_drawing *d, ptrdiff_t at);

/* A group whose shapes have their edges on whole pixels in a browser: cells without seams. */
void qkv__draw_begin_cells(qkv_drawing *d, const char *name, const char *key);
/* Keeps the first failure. */
void qkv__drawing_fail(qkv_drawing *d, qkv_status status);

#endif
