/* drawing.c - records shapes; nothing is drawn here. */
#include "draw/drawing.h"

#include <math.h>
#include <string.h>

enum { MAX_SIDE = 32768, MAX_DEPTH = 32 };
static const double far_away = 1e6; /* coordinates are cut to +- this */

qkv_status qkv_drawing_create(qkv_drawing **out, qkv_context *ctx, double width, double height)
{
    *out = NULL;
    if (!(width > 0.0 && width <= MAX_SIDE && height > 0.0 && height <= MAX_SIDE))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "a drawing of %g x %g: sides above 0, at most %d",
                        width, height, MAX_SIDE);
    qkv_drawing *d = qkv_malloc(ctx, sizeof *d);
    if (!d)
        return QKV_E_MEMORY;
    *d = (qkv_drawing){.ctx = ctx, .width = width, .height = height, .title = QKV__NO_TEXT,
                       .description = QKV__NO_TEXT};
    qkv_str_init(&d->texts, ctx);
    *out = d;
    return QKV_OK;
}

void qkv_drawing_destroy(qkv_drawing *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->image_count; i++)
        qkv_image_free(&d->images[i], d->ctx);
    qkv_free(d->ctx, d->images);
    qkv_free(d->ctx, d->points);
    qkv_free(d->ctx, d->shapes);
    qkv_str_free(&d->texts);
    qkv_free(d->ctx, d);
}

qkv_status qkv_drawing_status(const qkv_drawing *d) { return d->status; }
double qkv_drawing_width(const qkv_drawing *d) { return d->width; }
double qkv_drawing_height(const qkv_drawing *d) { return d->height; }

void qkv__drawing_fail(qkv_drawing *d, qkv_status status)
{
    d->status = d->status ? d->status : status;
}

const char *qkv__drawing_text(const qkv_drawing *d, ptrdiff_t at)
{
    return at < 0 ? NULL : d->texts.data + at;
}

/* Keeps text as it is shown. */
static ptrdiff_t drawing_keep(qkv_drawing *d, const char *text, size_t length)
{
    size_t at = d->texts.len;
    qkv_str_visible(&d->texts, text, length, QKV_ESCAPE_NOTHING, false);
    qkv_str_add(&d->texts, "", 1);
    if (d->texts.failed)
        qkv__drawing_fail(d, QKV_E_MEMORY);
    return (ptrdiff_t)at;
}

static ptrdiff_t drawing_keep_or_none(qkv_drawing *d, const char *text)
{
    return text ? drawing_keep(d, text, strlen(text)) : QKV__NO_TEXT;
}

void qkv_drawing_describe(qkv_drawing *d, const char *title, const char *description)
{
    d->title = drawing_keep_or_none(d, title);
    d->description = drawing_keep_or_none(d, description);
}

static double drawing_within(double x)
{
    return !isfinite(x) ? NAN : x > far_away ? far_away : x < -far_away ? -far_away : x;
}

static bool drawing_add(qkv_drawing *d, const qkv__shape *shape, const qkv_point *points,
                        size_t count)
{
    if (d->status)
        return false;
    if (!qkv__grow(d->ctx, &d->shapes, &d->capacity, d->count + 1, sizeof *d->shapes) ||
        !qkv__grow(d->ctx, &d->points, &d->point_capacity, d->point_count + count,
                   sizeof *d->points)) {
        qkv__drawing_fail(d, QKV_E_MEMORY);
        return false;
    }
    qkv__shape *s = &d->shapes[d->count++];
    *s = *shape;
    s->first = d->point_count;
    s->count = count;
    s->name = shape->kind == QKV__BEGIN ? shape->name : QKV__NO_TEXT;
    for (size_t i = 0; i < count; i++)
        d->points[d->point_count++] =
            (qkv_point){drawing_within(points[i].x), drawing_within(points[i].y)};
    return true;
}

static bool drawing_finite(const qkv_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(points[i].x) || !isfinite(points[i].y))
            return false;
    return true;
}

/* A shape of points that all have to be finite. */
static void drawing_put(qkv_drawing *d, const qkv__shape *shape, const qkv_point *points,
                        size_t count)
{
    if (drawing_finite(points, count))
        drawing_add(d, shape, points, count);
}

void qkv_draw_rect(qkv_drawing *d, qkv_frame frame, qkv_ink fill, qkv_ink outline)
{
    const qkv_point points[] = {{frame.x, frame.y}, {frame.width, frame.height}};
    drawing_put(d, &(qkv__shape){.kind = QKV__RECT, .fill = fill, .outline = outline, .width = 1.0},
                points, 2);
}

void qkv_draw_circle(qkv_drawing *d, double x, double y, double radius, qkv_ink fill,
                     qkv_ink outline)
{
    const qkv_point points[] = {{x, y}, {radius, 0.0}};
    drawing_put(d,
                &(qkv__shape){.kind = QKV__CIRCLE, .fill = fill, .outline = outline, .width = 1.0},
                points, 2);
}

void qkv_draw_line(qkv_drawing *d, double x1, double y1, double x2, double y2, qkv_ink ink,
                   double width)
{
    const qkv_point points[] = {{x1, y1}, {x2, y2}};
    drawing_put(d, &(qkv__shape){.kind = QKV__POLYLINE, .outline = ink, .width = width}, points,
                2);
}

void qkv_draw_polyline(qkv_drawing *d, const qkv_point *points, size_t count, qkv_ink ink,
                       double width, bool dashed)
{
    drawing_add(d,
                &(qkv__shape){.kind = QKV__POLYLINE, .flag = dashed, .outline = ink,
                              .width = width},
                points, count);
}

void qkv_draw_polygon(qkv_drawing *d, const qkv_point *points, size_t count, qkv_ink fill)
{
    if (!drawing_add(d, &(qkv__shape){.kind = QKV__POLYGON, .fill = fill}, points, count))
        return;
    qkv__shape *s = &d->shapes[d->count - 1];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (drawing_finite(&points[i], 1))
            d->points[s->first + kept++] = d->points[s->first + i];
    s->count = kept;
    d->point_count = s->first + kept;
}

void qkv_draw_bytes(qkv_drawing *d, double x, double y, const char *text, size_t length,
                    const qkv_text_style *style)
{
    const qkv_point at = {x, y};
    qkv__shape s = {.kind = QKV__TEXT};
    if (style)
        s.style = *style;
    s.fill = s.style.ink.role == QKV_INK_NONE ? qkv_ink_of(QKV_INK_TEXT) : s.style.ink;
    s.width = s.style.size > 0.0 ? s.style.size : 12.0;
    if (d->status || !drawing_finite(&at, 1))
        return;
    s.text = drawing_keep(d, text, length);
    drawing_add(d, &s, &at, 1);
}

void qkv_draw_text(qkv_drawing *d, double x, double y, const char *text,
                   const qkv_text_style *style)
{
    qkv_draw_bytes(d, x, y, text, strlen(text), style);
}

void qkv_draw_image(qkv_drawing *d, qkv_frame frame, const qkv_image *image, bool smooth)
{
    const qkv_point points[] = {{frame.x, frame.y}, {frame.width, frame.height}};
    if (d->status || !drawing_finite(points, 2) || !image->width || !image->height)
        return;
    if (!qkv__grow(d->ctx, &d->images, &d->image_capacity, d->image_count + 1,
                   sizeof *d->images)) {
        qkv__drawing_fail(d, QKV_E_MEMORY);
        return;
    }
    qkv_image *copy = &d->images[d->image_count];
    qkv__drawing_fail(d, qkv_image_create(copy, d->ctx, image->width, image->height,
                                          image->channels));
    if (d->status)
        return;
    memcpy(copy->data, image->data, image->width * image->height * image->channels);
    d->image_count++;
    drawing_add(d, &(qkv__shape){.kind = QKV__PIXELS, .flag = smooth, .image = d->image_count - 1},
                points, 2);
}

void qkv_draw_name(qkv_drawing *d, const char *name)
{
    if (!d->status && d->count)
        d->shapes[d->count - 1].name = drawing_keep_or_none(d, name);
}

static void drawing_begin(qkv_drawing *d, const char *name, const char *key, bool cells)
{
    if (!d->status && d->depth == MAX_DEPTH)
        qkv__drawing_fail(d, qkv_fail(d->ctx, QKV_E_ARGUMENT,
                                      "groups of a drawing nest at most %d deep", MAX_DEPTH));
    qkv__shape s = {.kind = QKV__BEGIN, .flag = cells};
    s.name = drawing_keep_or_none(d, name);
    s.text = drawing_keep_or_none(d, key);
    d->depth += drawing_add(d, &s, NULL, 0);
}

void qkv_draw_begin(qkv_drawing *d, const char *name, const char *key)
{
    drawing_begin(d, name, key, false);
}

void qkv__draw_begin_cells(qkv_drawing *d, const char *name, const char *key)
{
    drawing_begin(d, name, key, true);
}

void qkv_draw_end(qkv_drawing *d)
{
    if (!d->status && !d->depth)
        qkv__drawing_fail(d, qkv_fail(d->ctx, QKV_E_ARGUMENT,
                                      "qkv_draw_end without qkv_draw_begin"));
    d->depth -= drawing_add(d, &(qkv__shape){.kind = QKV__END}, NULL, 0);
}
