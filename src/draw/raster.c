/* raster.c - a drawing as pixels: each shape covers samples, 4 x 4 a pixel, and colours them; a
 * pixel is the mean of its samples. The image is made in bands of rows. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "draw/drawing.h"
#include "draw/font.h"
#include "draw/mask.h"

enum { SAMPLES = 4, BAND = 32, COLORS = 3 };
static const double most_pixels = 67108864.0; /* 2^26 */

typedef struct {
    const qkv_drawing *d;
    qkv__mask mask;
    uint8_t *paint; /* (rows, width, 3) of the band's samples */
    double scale;   /* samples per unit */
    bool dark;
} raster;

/* Gives the samples that are set the ink's colour, and clears them. */
static void raster_paint(raster *r, qkv_ink ink)
{
    uint8_t rgb[COLORS];
    qkv__mask *m = &r->mask;
    double cover = 1.0 - fmin(fmax(ink.transparency, 0.0), 1.0);
    qkv_ink_color(ink, r->dark, rgb);
    for (size_t row = m->first; row < m->last; row++)
        for (size_t x = m->left; x < m->right; x++) {
            uint8_t *p = r->paint + (row * m->width + x) * COLORS;
            for (size_t c = 0; m->set[row * m->width + x] && c < COLORS; c++)
                p[c] = cover >= 1.0 ? rgb[c]
                                    : (uint8_t)(p[c] + cover * ((double)rgb[c] - p[c]) + 0.5);
        }
    qkv__mask_clear(m);
}

static qkv_point raster_at(const raster *r, double x, double y)
{
    return (qkv_point){x * r->scale, y * r->scale};
}

static void raster_line(raster *r, qkv_point from, qkv_point to, double width)
{
    qkv__mask_line(&r->mask, raster_at(r, from.x, from.y), raster_at(r, to.x, to.y),
                   fmax(width * r->scale, SAMPLES / 2.0));
}

static void raster_rect(raster *r, const qkv__shape *s, const qkv_point *p)
{
    const qkv_point corner[] = {{p[0].x, p[0].y}, {p[0].x + p[1].x, p[0].y},
                                {p[0].x + p[1].x, p[0].y + p[1].y}, {p[0].x, p[0].y + p[1].y}};
    qkv_point at[4];
    for (int i = 0; i < 4; i++)
        at[i] = raster_at(r, corner[i].x, corner[i].y);
    if (s->fill.role != QKV_INK_NONE) {
        qkv__mask_polygon(&r->mask, at, 4);
        raster_paint(r, s->fill);
    }
    for (int i = 0; s->outline.role != QKV_INK_NONE && i < 4; i++)
        raster_line(r, corner[i], corner[(i + 1) % 4], s->width);
    if (s->outline.role != QKV_INK_NONE)
        raster_paint(r, s->outline);
}

/* An outline is a disc of its ink with one of the fill's, or of nothing, in it. */
static void raster_circle(raster *r, const qkv__shape *s, const qkv_point *p)
{
    enum { SIDES = 48 };
    qkv_point c = raster_at(r, p[0].x, p[0].y), ring[2 * SIDES + 2];
    double radius = p[1].x * r->scale, half = 0.5 * s->width * r->scale;
    if (s->fill.role != QKV_INK_NONE) {
        qkv__mask_disc(&r->mask, c.x, c.y, radius);
        raster_paint(r, s->fill);
    }
    if (s->outline.role == QKV_INK_NONE)
        return;
    for (int i = 0; i <= SIDES; i++) {
        double angle = 2.0 * acos(-1.0) * i / SIDES;
        ring[i] = (qkv_point){c.x + (radius + half) * cos(angle),
                              c.y + (radius + half) * sin(angle)};
        ring[2 * SIDES + 1 - i] = (qkv_point){c.x + (radius - half) * cos(angle),
                                              c.y + (radius - half) * sin(angle)};
    }
    qkv__mask_polygon(&r->mask, ring, 2 * SIDES + 2);
    raster_paint(r, s->outline);
}

/* One segment of a dashed line; *along: how far the line has come. */
static void raster_dashes(raster *r, qkv_point from, qkv_point to, double width, double *along)
{
    const double on = 3.0, period = 9.0; /* round ends make them longer */
    double length = hypot(to.x - from.x, to.y - from.y);
    for (double at = 0.0; at < length;) {
        double phase = fmod(*along + at, period);
        double next = fmin(at + (phase < on ? on - phase : period - phase) + 1e-9, length);
        double a = at / length, b = next / length;
        if (phase < on)
            raster_line(r,
                        (qkv_point){from.x + a * (to.x - from.x), from.y + a * (to.y - from.y)},
                        (qkv_point){from.x + b * (to.x - from.x), from.y + b * (to.y - from.y)},
                        width);
        at = next;
    }
    *along += length;
}

static void raster_polyline(raster *r, const qkv__shape *s, const qkv_point *p)
{
    double along = 0.0;
    for (size_t i = 0; i + 1 < s->count; i++) {
        bool gap = !isfinite(p[i].x + p[i].y) || !isfinite(p[i + 1].x + p[i + 1].y);
        if (!gap && s->flag)
            raster_dashes(r, p[i], p[i + 1], s->width, &along);
        else if (!gap)
            raster_line(r, p[i], p[i + 1], s->width);
    }
    raster_paint(r, s->outline);
}

static void raster_polygon(raster *r, const qkv__shape *s, const qkv_point *p)
{
    qkv_point *scaled = qkv_malloc(r->d->ctx, s->count * sizeof *scaled);
    if (!scaled) {
        r->mask.failed = true;
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        scaled[i] = raster_at(r, p[i].x, p[i].y);
    qkv__mask_polygon(&r->mask, scaled, s->count);
    qkv_free(r->d->ctx, scaled);
    raster_paint(r, s->fill);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The strokes of one character that begins `along` the baseline from origin. */
static void raster_glyph(raster *r, const qkv__shape *s, qkv_point origin, double along,
                         const char *strokes)
{
    const double x_unit = QKV__GLYPH_X * s->width, y_unit = QKV__GLYPH_Y * s->width;
    double pen = s->width * (s->style.bold ? 0.13 : 0.085);
    qkv_point before = {0.0, 0.0};
    bool down = false;
    for (const char *c = strokes; *c; c += *c == ' ' ? 1 : 2) {
        if (*c == ' ') {
            down = false;
            continue;
        }
        double x = along + (c[0] - '0') * x_unit, y = (c[1] - '2') * y_unit;
        qkv_point at = s->style.upward ? (qkv_point){origin.x - y, origin.y - x}
                                       : (qkv_point){origin.x + x, origin.y - y};
        raster_line(r, down ? before : at, at, pen);
        before = at;
        down = true;
    }
}

static void raster_text(raster *r, const qkv__shape *s, const qkv_point *p)
{
    const char *text = qkv__drawing_text(r->d, s->text);
    size_t length = strlen(text);
    static const double shares[] = {0.0, 0.5, 1.0};
    double along = -shares[s->style.anchor] * qkv_text_width(text, s->width);
    for (size_t i = 0; i < length;) {
        int32_t cp;
        i += qkv__utf8_next(text + i, length - i, &cp);
        qkv__glyph g = qkv__glyph_of(cp);
        raster_glyph(r, s, *p, along, g.strokes);
        along += QKV__GLYPH_X * s->width * (g.width + QKV__GLYPH_GAP);
    }
    raster_paint(r, s->fill);
}

/* ---- images ---------------------------------------------------------------------------------- */

static double raster_pixel(const qkv_image *image, double x, double y, size_t c)
{
    double px = fmin(fmax(x, 0.0), (double)image->width - 1.0);
    double py = fmin(fmax(y, 0.0), (double)image->height - 1.0);
    size_t at = ((size_t)py * image->width + (size_t)px) * image->channels;
    return image->data[at + (image->channels == COLORS ? c : 0)];
}

/* At (x, y) in pixels of the image. */
static uint8_t raster_sample(const qkv_image *image, double x, double y, size_t c, bool smooth)
{
    if (!smooth)
        return (uint8_t)raster_pixel(image, x, y, c);
    double fx = floor(x - 0.5), fy = floor(y - 0.5), a = x - 0.5 - fx, b = y - 0.5 - fy;
    double upper = (1.0 - a) * raster_pixel(image, fx, fy, c) +
                   a * raster_pixel(image, fx + 1.0, fy, c);
    double lower = (1.0 - a) * raster_pixel(image, fx, fy + 1.0, c) +
                   a * raster_pixel(image, fx + 1.0, fy + 1.0, c);
    return (uint8_t)((1.0 - b) * upper + b * lower + 0.5);
}

static void raster_image(raster *r, const qkv__shape *s, const qkv_point *p)
{
    const qkv_image *image = &r->d->images[s->image];
    qkv__mask *m = &r->mask;
    qkv_point a = raster_at(r, p[0].x, p[0].y), size = raster_at(r, p[1].x, p[1].y);
    const qkv_point box[] = {a, {a.x + size.x, a.y}, {a.x + size.x, a.y + size.y},
                             {a.x, a.y + size.y}};
    qkv__mask_polygon(m, box, 4);
    for (size_t row = m->first; row < m->last; row++)
        for (size_t x = m->left; x < m->right; x++)
            for (size_t c = 0; m->set[row * m->width + x] && c < COLORS; c++)
                r->paint[(row * m->width + x) * COLORS + c] = raster_sample(
                    image, ((double)x + 0.5 - a.x) / size.x * (double)image->width,
                    ((double)(m->top + row) + 0.5 - a.y) / size.y * (double)image->height, c,
                    s->flag);
    qkv__mask_clear(m);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void raster_shape(raster *r, const qkv__shape *s)
{
    const qkv_point *p = s->count ? r->d->points + s->first : NULL;
    switch (s->kind) {
    case QKV__RECT: raster_rect(r, s, p); break;
    case QKV__CIRCLE: raster_circle(r, s, p); break;
    case QKV__POLYLINE: raster_polyline(r, s, p); break;
    case QKV__POLYGON: raster_polygon(r, s, p); break;
    case QKV__TEXT: raster_text(r, s, p); break;
    case QKV__PIXELS: raster_image(r, s, p); break;
    case QKV__BEGIN:
    case QKV__END: break;
    }
}

/* The band's samples as rows of pixels. */
static void raster_reduce(const raster *r, uint8_t *out, size_t rows, size_t width)
{
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t c = 0; c < COLORS; c++) {
                unsigned sum = 0;
                for (size_t i = 0; i < SAMPLES * SAMPLES; i++)
                    sum += r->paint[((y * SAMPLES + i / SAMPLES) * r->mask.width + x * SAMPLES +
                                     i % SAMPLES) * COLORS + c];
                out[(y * width + x) * COLORS + c] =
                    (uint8_t)((sum + SAMPLES * SAMPLES / 2) / (SAMPLES * SAMPLES));
            }
}

static void raster_band(raster *r, qkv_image *out, size_t top)
{
    size_t rows = out->height - top < BAND ? out->height - top : BAND;
    uint8_t background[COLORS];
    qkv_ink_color(qkv_ink_of(QKV_INK_BACKGROUND), r->dark, background);
    for (size_t i = 0; i < BAND * SAMPLES * r->mask.width * COLORS; i++)
        r->paint[i] = background[i % COLORS];
    r->mask.top = top * SAMPLES;
    for (size_t i = 0; i < r->d->count; i++)
        raster_shape(r, &r->d->shapes[i]);
    raster_reduce(r, out->data + top * out->width * COLORS, rows, out->width);
}

qkv_status qkv_drawing_image(const qkv_drawing *d, qkv_image *out,
                             const qkv_raster_options *options)
{
    double scale = options && options->scale > 0.0 ? options->scale : 1.0;
    double width = ceil(d->width * scale - 1e-9), height = ceil(d->height * scale - 1e-9);
    *out = (qkv_image){0};
    if (d->status)
        return d->status;
    if (!(width >= 1.0 && height >= 1.0 && width * height <= most_pixels))
        return qkv_fail(d->ctx, QKV_E_ARGUMENT,
                        "a drawing as %g x %g pixels: 1 to 2^26 pixels expected", width, height);
    qkv_status status = qkv_image_create(out, d->ctx, (size_t)width, (size_t)height, COLORS);
    if (status)
        return status;
    size_t wide = out->width * SAMPLES, rows = BAND * SAMPLES;
    raster r = {.d = d, .scale = scale * SAMPLES, .dark = options && options->dark,
                .mask = {.ctx = d->ctx, .width = wide, .rows = rows}};
    r.mask.set = qkv_calloc(d->ctx, wide, rows);
    r.paint = r.mask.set ? qkv_malloc(d->ctx, wide * rows * COLORS) : NULL;
    r.mask.failed = !r.paint;
    qkv__mask_clear(&r.mask);
    for (size_t top = 0; top < out->height && !r.mask.failed; top += BAND)
        raster_band(&r, out, top);
    qkv_free(d->ctx, r.mask.crossings);
    qkv_free(d->ctx, r.mask.set);
    qkv_free(d->ctx, r.paint);
    if (r.mask.failed)
        qkv_image_free(out, d->ctx);
    return r.mask.failed ? QKV_E_MEMORY : QKV_OK;
}
