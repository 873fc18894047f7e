/* patches.h - what the panels on patches share: how a model of images reads patches, and lists
 * of the best of many. */
#ifndef QKV_SRC_REPORT_PATCHES_H
#define QKV_SRC_REPORT_PATCHES_H

#include "report/looking.h"
#include "qkv/pixels.h"

/* How a model makes tokens of an image. */
typedef struct {
    qkv_image_format format; /* of images as bytes, and as the model's numbers */
    size_t side;             /* tokens in a row of the grid */
    size_t cell;             /* pixels of an image that a token stands for, on a side */
    qkv_param *weight, *bias; /* (filters, window, window, inputs); (filters) or NULL */
    size_t filters, window, inputs;
    size_t step;             /* pixels between the windows that filters read */
    bool lab;                /* a colourer's inputs: lightness, a, b, whether they are known */
    /* pixels (1, height, width, inputs) -> (1, side * side, width), without positions */
    qkv_tensor *(*embed)(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
} qkv__look_reading;

/* false: the model reads no patches. */
bool qkv__look_reading_of(qkv__look_reading *out, const qkv_pipeline *p);
/* The input in the model's size; to be freed with qkv_image_free. */
qkv_status qkv__look_reading_input(const qkv__look_reading *r, const qkv__looking *l,
                                   qkv_image *out);
/* An image of the model's size as the model's numbers, (height, width, inputs). A colourer's
 * colours are unknown. */
void qkv__look_reading_values(const qkv__look_reading *r, const uint8_t *bytes, qkv_real *out);
/* A window's bytes as an image that lies in data, (window, window, channels). */
qkv_image qkv__look_window(const qkv__look_reading *r, const uint8_t *image, size_t x, size_t y,
                           size_t side, uint8_t *data);

uint64_t qkv__look_window_hash(const qkv__look_reading *r, const uint8_t *image, size_t x,
                               size_t y, size_t side);

/* A patch or filter in a frame, as squares. */
void qkv__look_draw_tile(qkv_drawing *d, double x, double y, double width, double height,
                         const qkv_image *image, const char *name);

enum { QKV__TILE = 30 }; /* the side of a tile in drawings of tiles */

/* Rows of tiles in two columns, `wide` each, one under another. */
typedef struct {
    size_t count; /* of rows */
    double wide;
    size_t pixels; /* of the largest tile */
    const void *self;
    /* What stands above a column that begins at x. */
    void (*head)(const void *self, qkv_drawing *d, double x);
    /* Row i; data has room for a tile's pixels, (pixels, 3). */
    void (*row)(const void *self, qkv_drawing *d, size_t i, double x, double y, uint8_t *data);
} qkv__look_tiles;
/* On failure *out is NULL. */
qkv_status qkv__look_draw_tiles(qkv_context *ctx, const qkv__look_tiles *t, qkv_drawing **out);

/* ---- the best of many ------------------------------------------------------------------------ */

/* A window of an image: of the input (image 0) or of the set (from 1). */
typedef struct {
    double value;
    size_t image, x, y; /* pixels */
    uint64_t hash;      /* of its pixels */
} qkv__look_found;

/* At most `room` windows, largest value first, of which no two overlap or have the same pixels. */
typedef struct {
    size_t count, room;
    qkv__look_found *items; /* (room) */
} qkv__look_best;
/* `count` empty lists, one block that qkv_free frees. NULL: out of memory. */
qkv__look_best *qkv__look_bests(qkv_context *ctx, size_t count, size_t room);
void qkv__look_best_add(qkv__look_best *b, const qkv__look_found *f, size_t side);
/* The window, side x side pixels, of the input or the set, as a tile that is named by its place and
 * the value. */
void qkv__look_draw_found(qkv_drawing *d, const qkv__look_reading *r, const qkv__look_found *f,
                          const uint8_t *input, const qkv_pixels *set, size_t side, double value,
                          double x, double y, uint8_t *data);

/* ---- principal components, components.c ------------------------------------------------------ */

/* The `count` leading principal components of rows (n, width): components (count, width), of length
 * 1, the largest entry of each positive; shares (count) of the total variance. count <= n and
 * width. */
qkv_status qkv__look_components(qkv_context *ctx, const double *rows, size_t n, size_t width,
                                size_t count, double *components, double *shares);

/* ---- panels ---------------------------------------------------------------------------------- */

/* Filters, and patches of the input (in the model's size) and of the set (NULL: none) that excite
 * them. */
qkv_status qkv__look_filters(qkv__looking *l, const qkv__look_reading *r, const qkv_pixels *set,
                             const qkv_image *input);
/* Nearest patches by embedding. */
qkv_status qkv__look_nearest(qkv__looking *l, const qkv__look_reading *r, const qkv_pixels *set,
                             const qkv_image *input);

/* Those of positions, filters and neighbours. */
qkv_status qkv__look_patch_panels(qkv__looking *l);

/* A table of positions. */
typedef struct {
    qkv_param *param;        /* (lead + positions, width) */
    const char *name, *title; /* of the panel */
    size_t lead;             /* rows before the first position */
    size_t rows, columns;    /* grid of positions; 0: a sequence */
} qkv__look_table;
/* The similarity of all its positions. */
qkv_status qkv__look_add_table(qkv__looking *l, const qkv__look_table *t);
/* relative.c: the biases of a model with relative positions; *found: it is one. */
qkv_status qkv__look_relative(qkv__looking *l, bool *found);
/* Of the model's tables, whatever kind it is; rotary models have none. */
qkv_status qkv__look_positions(qkv__looking *l);

qkv_status qkv__look_segments(qkv__looking *l); /* classes; where a pixel's came from; IoU */
qkv_status qkv__look_hints(qkv__looking *l);    /* what a patch's colours came from */
qkv_status qkv__look_reconstruction(qkv__looking *l); /* what was masked, the error of patches */

#endif
