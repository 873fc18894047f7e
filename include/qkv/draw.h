/* draw.h - drawings: shapes and text recorded once, written as SVG or as pixels.
 * Layer: draw
 *
 *     qkv_drawing *d;
 *     qkv_drawing_create(&d, ctx, 200, 100);
 *     qkv_draw_rect(d, (qkv_frame){10, 10, 80, 40}, qkv_ink_series(0), qkv_ink_none());
 *     qkv_draw_text(d, 50, 70, "a rectangle", &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE});
 *     qkv_drawing_save(d, "drawing.svg");
 *     qkv_drawing_destroy(d);
 *
 * Lengths are in CSS pixels; x grows to the right, y downward. Shapes cover those drawn before.
 * Colours are named by what they are for, so that a drawing fits a light and a dark page.
 * Functions that draw return nothing: the first failure is kept, what follows does nothing, and
 * qkv_drawing_status and the functions that write return it. chart.h draws charts, page.h puts
 * drawings on a page. */
#ifndef QKV_DRAW_H
#define QKV_DRAW_H

#include <qkv/image.h>
#include <qkv/string.h>

QKV_BEGIN_DECLS

/* ---- ink ----------------------------------------------------------------------------------- */

/* What a colour is for. The values are in both themes of every back end. */
typedef enum {
    QKV_INK_NONE,       /* draws nothing */
    QKV_INK_TEXT,       /* text and outlines */
    QKV_INK_FAINT,      /* labels of less weight */
    QKV_INK_GRID,       /* axes, frames, missing values */
    QKV_INK_BACKGROUND, /* of the page */
    QKV_INK_MARK,       /* what is selected or wrong */
    QKV_INK_SERIES,     /* value: which of the 8 series colours, modulo 8 */
    QKV_INK_HEAT,       /* value: 0 .. 1 on the sequential scale, dark to light */
    QKV_INK_DIVERGING,  /* value: -1 .. 1 on the diverging scale, blue to orange */
    QKV_INK_ON_HEAT,    /* text that is read on QKV_INK_HEAT of the same value */
    QKV_INK_ON_DIVERGING
} qkv_ink_role;

/* Zeroed: nothing is drawn. */
typedef struct {
    qkv_ink_role role;
    double value;        /* of SERIES, HEAT, DIVERGING; NaN: the colour of missing values */
    double transparency; /* 0: opaque .. 1 */
} qkv_ink;

enum { QKV_SERIES_COLORS = 8 };
qkv_ink qkv_ink_none(void);
qkv_ink qkv_ink_of(qkv_ink_role role);
qkv_ink qkv_ink_series(size_t i);
qkv_ink qkv_ink_heat(double value);
qkv_ink qkv_ink_diverging(double value);

/* The ink's red, green and blue, 0 .. 255, in the light or the dark theme. The series are those of
 * Okabe and Ito (2008), darkened or lightened to a contrast of 3 with the background. The
 * sequential scale has even steps of lightness (CIE L* 15 to 92) from blue to yellow, which
 * colour-blind readers tell apart. */
void qkv_ink_color(qkv_ink ink, bool dark, uint8_t rgb[3]);

/* ---- the drawing --------------------------------------------------------------------------- */

typedef struct qkv_drawing qkv_drawing;

/* A rectangle by its upper left corner. */
typedef struct {
    double x, y, width, height;
} qkv_frame;

typedef struct {
    double x, y;
} qkv_point;

/* An empty drawing. width and height: more than 0, at most 32768. On failure *out is NULL. */
qkv_status qkv_drawing_create(qkv_drawing **out, qkv_context *ctx, double width, double height);
void qkv_drawing_destroy(qkv_drawing *d); /* d may be NULL */
qkv_status qkv_drawing_status(const qkv_drawing *d);
double qkv_drawing_width(const qkv_drawing *d);
double qkv_drawing_height(const qkv_drawing *d);

/* What the drawing shows, for those who cannot see it: a name, and a sentence (NULL: none). Both
 * are copied. */
void qkv_drawing_describe(qkv_drawing *d, const char *title, const char *description);

/* Fill and outline, either of which may be qkv_ink_none(). Outlines are 1 wide. */
void qkv_draw_rect(qkv_drawing *d, qkv_frame frame, qkv_ink fill, qkv_ink outline);
void qkv_draw_circle(qkv_drawing *d, double x, double y, double radius, qkv_ink fill,
                     qkv_ink outline);
void qkv_draw_line(qkv_drawing *d, double x1, double y1, double x2, double y2, qkv_ink ink,
                   double width);
/* Connected lines; a gap at points that are not finite. */
void qkv_draw_polyline(qkv_drawing *d, const qkv_point *points, size_t count, qkv_ink ink,
                       double width, bool dashed);
/* A filled polygon, by the rule "even-odd". Points that are not finite are left out. */
void qkv_draw_polygon(qkv_drawing *d, const qkv_point *points, size_t count, qkv_ink fill);

typedef enum { QKV_ANCHOR_START, QKV_ANCHOR_MIDDLE, QKV_ANCHOR_END } qkv_anchor;

/* Zeroed: 12 high, in the colour of text, from x to the right. */
typedef struct {
    double size;       /* height of the font; 0: 12 */
    qkv_anchor anchor; /* what of the text is at x */
    qkv_ink ink;       /* role QKV_INK_NONE: QKV_INK_TEXT */
    bool bold;
    bool upward; /* turned by 90 degrees: reads from the bottom up */
} qkv_text_style;

/* Text on the baseline y. It is copied. Control characters, bytes that are not UTF-8 and characters
 * that change the direction of text are shown as escapes ("\n", "\x1b", "\u202e"). style may be
 * NULL. Pixels have letters of ASCII alone; other characters
 * are boxes. */
void qkv_draw_text(qkv_drawing *d, double x, double y, const char *text,
                   const qkv_text_style *style);
/* The same of bytes, which may hold 0. */
void qkv_draw_bytes(qkv_drawing *d, double x, double y, const char *text, size_t length,
                    const qkv_text_style *style);
/* Estimated width of the text in a sans-serif font. */
double qkv_text_width(const char *text, double size);
/* The same of bold letters. */
double qkv_bold_width(const char *text, double size);

/* The image's pixels, copied, scaled to the frame; smooth: interpolated, else as squares. Writing
 * SVG puts them in as a PNG file, which needs a build with images. */
void qkv_draw_image(qkv_drawing *d, qkv_frame frame, const qkv_image *image, bool smooth);

/* Names the shape drawn last: a tooltip, and what a screen reader says. */
void qkv_draw_name(qkv_drawing *d, const char *name);

/* A group of what is drawn until the matching end. Its name and key may be NULL. A page's script
 * finds it by the key: attribute data-key. Groups nest 32 deep at most. */
void qkv_draw_begin(qkv_drawing *d, const char *name, const char *key);
void qkv_draw_end(qkv_drawing *d);

/* ---- back ends ----------------------------------------------------------------------------- */

/* Appends the drawing as one svg element. standalone: a file of its own, with the XML declaration,
 * colours of both themes (by prefers-color-scheme) and a background. Otherwise it takes its colours
 * from the page (page.h) and its ids begin with prefix (NULL: none), so that several fit on a page.
 * QKV_E_UNSUPPORTED for a drawing with images in a build without them. */
qkv_status qkv_drawing_svg(const qkv_drawing *d, qkv_str *out, bool standalone,
                           const char *prefix);

typedef struct {
    double scale; /* pixels per unit; 0: 1. The image has at most 2^26 pixels */
    bool dark;
} qkv_raster_options;

/* The drawing as an image of 3 channels, edges smoothed (4 x 4 samples a pixel). options may be
 * NULL. On failure *out is empty. */
qkv_status qkv_drawing_image(const qkv_drawing *d, qkv_image *out,
                             const qkv_raster_options *options);

/* Writes the drawing to a file, atomically: .svg or .png. QKV_E_ARGUMENT for another ending; a PNG
 * has 2 pixels per unit, and QKV_E_UNSUPPORTED in a build without images. */
qkv_status qkv_drawing_save(const qkv_drawing *d, const char *path);

/* ---- text that is safe to show ------------------------------------------------------------- */

typedef enum {
    QKV_ESCAPE_NOTHING,
    QKV_ESCAPE_XML /* also & < > " ' as references: for XML and HTML, text and attributes */
} qkv_escape;

/* Appends text as a reader should see it: see qkv_draw_text. keep_lines: newlines and tabs stay. */
void qkv_str_visible(qkv_str *out, const char *text, size_t length, qkv_escape escape,
                     bool keep_lines);

QKV_END_DECLS
#endif
