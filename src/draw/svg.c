/* svg.c - a drawing as SVG 1.1, alone or inside an HTML page. */
#include <math.h>
#include <string.h>

#include "draw/drawing.h"
#include "draw/encode.h"
#include "draw/ink.h"

typedef struct {
    const qkv_drawing *d;
    qkv_str *out;
    qkv_status status;
} svg;

static void svg_number(const svg *s, const char *before, double v)
{
    qkv_str_puts(s->out, before);
    qkv__put_real(s->out, v, 2, true);
}

/* Text that was made visible when it was recorded. */
static void svg_text(const svg *s, const char *text)
{
    qkv_str_visible(s->out, text, strlen(text), QKV_ESCAPE_XML, false);
}

static void svg_color(const svg *s, const char *attribute, qkv_ink ink)
{
    uint8_t rgb[3];
    if (ink.role == QKV_INK_NONE) {
        qkv_str_printf(s->out, " %s=\"none\"", attribute);
        return;
    }
    if (!qkv__ink_class(ink)) {
        qkv_ink_color(ink, false, rgb);
        qkv_str_printf(s->out, " %s=\"#%02x%02x%02x\"", attribute, rgb[0], rgb[1], rgb[2]);
    }
    if (ink.transparency > 0.0) {
        qkv_str_printf(s->out, " %s-opacity=\"", attribute);
        qkv__put_real(s->out, 1.0 - fmin(ink.transparency, 1.0), 3, true);
        qkv_str_puts(s->out, "\"");
    }
}

/* Attributes of fill and outline: classes for roles, colours for scales. */
static void svg_paint(const svg *s, const qkv__shape *shape, const char *class)
{
    const char *fill = qkv__ink_class(shape->fill), *outline = qkv__ink_class(shape->outline);
    bool filled = fill && shape->fill.role != QKV_INK_NONE;
    bool outlined = outline && shape->outline.role != QKV_INK_NONE;
    if (class || filled || outlined)
        qkv_str_printf(s->out, " class=\"%s%s%s%s%s%s\"", class ? class : "",
                       class && (filled || outlined) ? " " : "", filled ? "qf-" : "",
                       filled ? fill : "", outlined ? (filled ? " qs-" : "qs-") : "",
                       outlined ? outline : "");
    svg_color(s, "fill", shape->fill);
    if (shape->outline.role != QKV_INK_NONE)
        svg_color(s, "stroke", shape->outline);
}

/* Ends a tag that has no content but perhaps a name. */
static void svg_close(const svg *s, const qkv__shape *shape, const char *tag)
{
    const char *name = qkv__drawing_text(s->d, shape->name);
    if (!name) {
        qkv_str_puts(s->out, "/>\n");
        return;
    }
    qkv_str_puts(s->out, "><title>");
    svg_text(s, name);
    qkv_str_printf(s->out, "</title></%s>\n", tag);
}

static void svg_rect(const svg *s, const qkv__shape *shape, const qkv_point *p)
{
    svg_number(s, "<rect x=\"", p[0].x);
    svg_number(s, "\" y=\"", p[0].y);
    svg_number(s, "\" width=\"", fmax(p[1].x, 0.0));
    svg_number(s, "\" height=\"", fmax(p[1].y, 0.0));
    qkv_str_puts(s->out, "\"");
    svg_paint(s, shape, NULL);
    svg_close(s, shape, "rect");
}

static void svg_circle(const svg *s, const qkv__shape *shape, const qkv_point *p)
{
    svg_number(s, "<circle cx=\"", p[0].x);
    svg_number(s, "\" cy=\"", p[0].y);
    svg_number(s, "\" r=\"", fmax(p[1].x, 0.0));
    qkv_str_puts(s->out, "\"");
    svg_paint(s, shape, NULL);
    svg_close(s, shape, "circle");
}

/* A path, which has gaps where points are not finite. */
static void svg_path(const svg *s, const qkv__shape *shape, const qkv_point *p)
{
    bool pen_up = true, polygon = shape->kind == QKV__POLYGON;
    qkv_str_puts(s->out, "<path d=\"");
    for (size_t i = 0; i < shape->count; i++) {
        bool gap = !isfinite(p[i].x) || !isfinite(p[i].y);
        if (!gap) {
            svg_number(s, pen_up ? "M" : "L", p[i].x);
            svg_number(s, " ", p[i].y);
        }
        pen_up = gap;
    }
    qkv_str_puts(s->out, polygon ? "Z\" fill-rule=\"evenodd\"" : "\"");
    if (!polygon) {
        svg_number(s, " stroke-width=\"", shape->width);
        qkv_str_puts(s->out, "\" stroke-linecap=\"round\" stroke-linejoin=\"round\"");
        qkv_str_puts(s->out, shape->flag ? " stroke-dasharray=\"3 6\"" : "");
    }
    svg_paint(s, shape, NULL);
    svg_close(s, shape, "path");
}

static void svg_put_text(const svg *s, const qkv__shape *shape, const qkv_point *p)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    const char *name = qkv__drawing_text(s->d, shape->name);
    svg_number(s, "<text x=\"", p->x);
    svg_number(s, "\" y=\"", p->y);
    svg_number(s, "\" font-size=\"", shape->width);
    qkv_str_printf(s->out, "\"%s%s", anchors[shape->style.anchor],
                   shape->style.bold ? " font-weight=\"bold\"" : "");
    if (shape->style.upward) {
        svg_number(s, " transform=\"rotate(-90 ", p->x);
        svg_number(s, " ", p->y);
        qkv_str_puts(s->out, ")\"");
    }
    svg_paint(s, shape, "qt");
    qkv_str_puts(s->out, ">");
    svg_text(s, qkv__drawing_text(s->d, shape->text));
    if (name) {
        qkv_str_puts(s->out, "<title>");
        svg_text(s, name);
        qkv_str_puts(s->out, "</title>");
    }
    qkv_str_puts(s->out, "</text>\n");
}

static void svg_image(svg *s, const qkv__shape *shape, const qkv_point *p)
{
    svg_number(s, "<image x=\"", p[0].x);
    svg_number(s, "\" y=\"", p[0].y);
    svg_number(s, "\" width=\"", p[1].x);
    svg_number(s, "\" height=\"", p[1].y);
    qkv_str_printf(s->out, "\" preserveAspectRatio=\"none\"%s href=\"",
                   shape->flag ? "" : " image-rendering=\"pixelated\"");
    if (!s->status)
        s->status = qkv__png_uri(s->out, &s->d->images[shape->image]);
    qkv_str_puts(s->out, "\"");
    svg_close(s, shape, "image");
}

static void svg_begin(const svg *s, const qkv__shape *shape)
{
    const char *key = qkv__drawing_text(s->d, shape->text);
    const char *name = qkv__drawing_text(s->d, shape->name);
    qkv_str_puts(s->out, shape->flag ? "<g shape-rendering=\"crispEdges\"" : "<g");
    if (key) {
        qkv_str_puts(s->out, " data-key=\"");
        svg_text(s, key);
        qkv_str_puts(s->out, "\"");
    }
    qkv_str_puts(s->out, ">");
    if (name) {
        qkv_str_puts(s->out, "<title>");
        svg_text(s, name);
        qkv_str_puts(s->out, "</title>");
    }
    qkv_str_puts(s->out, "\n");
}

static void svg_shape(svg *s, const qkv__shape *shape)
{
    const qkv_point *p = shape->count ? s->d->points + shape->first : NULL;
    switch (shape->kind) {
    case QKV__RECT: svg_rect(s, shape, p); break;
    case QKV__CIRCLE: svg_circle(s, shape, p); break;
    case QKV__POLYLINE:
    case QKV__POLYGON: svg_path(s, shape, p); break;
    case QKV__TEXT: svg_put_text(s, shape, p); break;
    case QKV__PIXELS: svg_image(s, shape, p); break;
    case QKV__BEGIN: svg_begin(s, shape); break;
    case QKV__END: qkv_str_puts(s->out, "</g>\n"); break;
    }
}

static void svg_attribute(const svg *s, const char *name, const char *value)
{
    qkv_str_printf(s->out, " %s=\"", name);
    svg_text(s, value);
    qkv_str_puts(s->out, "\"");
}

/* In a file the name is an element, which viewers show; on a page an attribute, since browsers
 * would show the element as a tooltip everywhere. */
static void svg_open(const svg *s, bool standalone, const char *prefix)
{
    const qkv_drawing *d = s->d;
    const char *title = qkv__drawing_text(d, d->title);
    const char *description = qkv__drawing_text(d, d->description);
    if (standalone)
        qkv_str_puts(s->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    svg_number(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", d->width);
    svg_number(s, " ", d->height);
    svg_number(s, "\" width=\"", d->width);
    svg_number(s, "\" height=\"", d->height);
    qkv_str_puts(s->out, "\" role=\"img\"");
    if (title)
        svg_attribute(s, "aria-label", title);
    if (description)
        qkv_str_printf(s->out, " aria-describedby=\"%sdesc\"", prefix ? prefix : "");
    qkv_str_puts(s->out, ">\n");
    if (title && standalone) {
        qkv_str_puts(s->out, "<title>");
        svg_text(s, title);
        qkv_str_puts(s->out, "</title>\n");
    }
    if (description) {
        qkv_str_printf(s->out, "<desc id=\"%sdesc\">", prefix ? prefix : "");
        svg_text(s, description);
        qkv_str_puts(s->out, "</desc>\n");
    }
    if (standalone) {
        qkv_str_puts(s->out, "<style>\n.qt{font-family:system-ui,sans-serif;white-space:pre}\n");
        qkv__ink_css(s->out, true);
        qkv_str_puts(s->out, "</style>\n<rect width=\"100%\" height=\"100%\" class=\"qf-bg\"/>\n");
    }
}

qkv_status qkv_drawing_svg(const qkv_drawing *d, qkv_str *out, bool standalone,
                           const char *prefix)
{
    svg s = {.d = d, .out = out};
    if (d->status)
        return d->status;
    svg_open(&s, standalone, prefix);
    for (size_t i = 0; i < d->count; i++)
        svg_shape(&s, &d->shapes[i]);
    for (size_t i = 0; i < d->depth; i++) /* groups that were left open */
        qkv_str_puts(out, "</g>\n");
    qkv_str_puts(out, "</svg>\n");
    return s.status ? s.status : out->failed ? QKV_E_MEMORY : QKV_OK;
}
