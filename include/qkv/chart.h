/* chart.h - charts, one call each: curves, bars, heat maps, maps by layer and head, image sheets.
 * Layer: draw
 *
 * A chart is drawn into a frame of a drawing (draw.h); NULL: all of it. Fields that are 0 or NULL
 * take what is said beside them. Labels and data are read during the call and not kept. Failures
 * are the drawing's. */
#ifndef QKV_CHART_H
#define QKV_CHART_H

#include <qkv/draw.h>

QKV_BEGIN_DECLS

/* ---- curves --------------------------------------------------------------------------------- */

typedef struct {
    const char *name; /* in the legend; NULL: not in it */
    const double *x;  /* NULL: 0, 1, 2, .. */
    const double *y;  /* a value that is not finite is a gap */
    size_t count;
    bool dashed;
    bool points; /* circles, no line */
} qkv_curve;

typedef struct {
    const char *title, *x_label, *y_label;
    bool x_log, y_log;   /* values that are not positive are gaps */
    double x_min, x_max; /* both 0: of the data */
    double y_min, y_max; /* both 0: of the data */
    const qkv_curve *curves;
    size_t count;
} qkv_line_chart;

void qkv_draw_lines(qkv_drawing *d, const qkv_frame *frame, const qkv_line_chart *chart);

/* ---- bars ----------------------------------------------------------------------------------- */

typedef struct {
    const char *title, *x_label, *y_label;
    const char *const *labels; /* one a bar; NULL: numbers from 0 */
    const double *edges;       /* of a histogram: count + 1, ascending; NULL: labelled bars */
    const double *values;      /* from 0; not finite: no bar */
    size_t count;
    bool sideways; /* bars to the right, labels beside them; not with edges */
    int decimals;  /* of the numbers at sideways bars; -1: none */
} qkv_bar_chart;

void qkv_draw_bars(qkv_drawing *d, const qkv_frame *frame, const qkv_bar_chart *chart);

/* Counts of values in bins of equal width between the smallest and the largest; values that are not
 * finite are left out. edges: (bins + 1), counts: (bins), written. */
void qkv_histogram(const double *values, size_t count, size_t bins, double *edges,
                   double *counts);

/* ---- heat maps ------------------------------------------------------------------------------ */

typedef struct {
    const char *title, *x_label, *y_label;
    const float *values; /* (rows, columns); NaN: missing */
    size_t rows, columns;
    const char *const *row_labels, *const *column_labels; /* NULL: none */
    double min, max;  /* ends of the scale; both 0: 0 or the smallest, and the largest */
    bool diverging;   /* the scale goes from -max to max, white-grey at 0 */
    bool numbers;     /* each value in its cell, where it fits */
    int decimals;     /* of the numbers; 0: 2 */
    bool no_scale;    /* leaves out the colour scale */
    const qkv_image *beneath; /* an image under the map, whose patches the cells are; NULL: none */
    double transparency;      /* of the cells over the image; 0: 0.4 */
    bool square;              /* cells are squares */
    const char *key;          /* of the group of the cells: row and column are named "r,c" */
} qkv_heat_map;

/* Up to 4096 cells are shapes that have names ("row, column: value"). A map of more cells is an
 * image, or shapes without names in a build without images. */
void qkv_draw_heat(qkv_drawing *d, const qkv_frame *frame, const qkv_heat_map *map);
/* A size at which cells are `cell` units wide and high and labels fit. */
void qkv_heat_size(const qkv_heat_map *map, double cell, double *width, double *height);

/* Small maps in rows and columns, such as the attention of all layers and heads on one scale. */
typedef struct {
    const char *title;
    const char *down, *across; /* names of both directions: "layer", "head" */
    const float *values;       /* (maps_down, maps_across, rows, columns); NaN: missing */
    size_t maps_down, maps_across, rows, columns;
    double min, max; /* ends of the scale; both 0: 0 or the smallest, and the largest */
    bool own_scale;  /* each map from 0 to its largest value */
    bool diverging;
    const char *key; /* maps are groups with the keys "KEY-down-across", from 0 */
} qkv_map_grid;

void qkv_draw_map_grid(qkv_drawing *d, const qkv_frame *frame, const qkv_map_grid *grid);
/* A size at which maps are `cell` wide and labels fit. Cells are square where maps are thereby at
 * most twice and at least half as tall as wide. */
void qkv_map_grid_size(const qkv_map_grid *grid, double cell, double *width, double *height);

/* ---- images --------------------------------------------------------------------------------- */

typedef struct {
    const char *title;
    const qkv_image *images; /* sizes and channels may differ */
    const char *const *labels; /* under the images; NULL: none */
    size_t count, columns;     /* columns 0: as many as make the sheet about square */
    bool smooth;
} qkv_image_sheet;

void qkv_draw_images(qkv_drawing *d, const qkv_frame *frame, const qkv_image_sheet *sheet);
/* A size at which images are `cell` wide and labels fit. */
void qkv_images_size(const qkv_image_sheet *sheet, double cell, double *width, double *height);

QKV_END_DECLS
#endif
