/* axis.c - axes with ticks at round numbers. */
#include "draw/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "draw/encode.h"

qkv_frame qkv__chart_frame(qkv_drawing *d, const qkv_frame *frame, const char *title)
{
    qkv_frame f = frame ? *frame : (qkv_frame){0.0, 0.0, d->width, d->height};
    if (!title)
        return f;
    qkv_draw_text(d, f.x + 4.0, f.y + 17.0, title,
                  &(qkv_text_style){.size = QKV__TITLE_SIZE, .bold = true});
    f.y += QKV__TITLE_ROOM;
    f.height -= QKV__TITLE_ROOM;
    return f;
}

void qkv__draw_label(qkv_drawing *d, double x, double y, const char *text, double room,
                     const qkv_text_style *style)
{
    qkv_str shown;
    double size = style->size > 0.0 ? style->size : 12.0;
    if (qkv_drawing_status(d))
        return;
    qkv_str_init(&shown, d->ctx);
    qkv_str_visible(&shown, text, strlen(text), QKV_ESCAPE_NOTHING, false);
    bool cut = false;
    int32_t cp;
    while (!shown.failed && shown.len && qkv_text_width(shown.data, size) > room) {
        shown.len = qkv__utf8_before(shown.data, shown.len, &cp);
        shown.data[shown.len] = 0;
        cut = true;
    }
    qkv_str_puts(&shown, cut ? "…" : "");
    if (shown.failed)
        qkv__drawing_fail(d, QKV_E_MEMORY);
    else
        qkv_draw_text(d, x, y, shown.data, style);
    qkv_str_free(&shown);
}

/* The distance of ticks: 1, 2 or 5 times a power of 10. */
static double axis_step(double range, size_t wanted)
{
    double raw = range / (double)(wanted ? wanted : 1), unit = pow(10.0, floor(log10(raw)));
    double share = raw / unit;
    return unit * (share <= 1.0 ? 1.0 : share <= 2.0 ? 2.0 : share <= 5.0 ? 5.0 : 10.0);
}

void qkv__axis_settle(qkv__axis *a)
{
    if (!isfinite(a->min) || !isfinite(a->max) || a->min > a->max) {
        a->min = a->log ? 1.0 : 0.0;
        a->max = a->log ? 10.0 : 1.0;
    }
    if (a->log) {
        a->min = a->min > 0.0 ? a->min : 1e-12;
        a->max = a->max > a->min ? a->max : a->min * 10.0;
        return;
    }
    double least = 1e-9 * fmax(fabs(a->min), fabs(a->max));
    if (a->max - a->min <= least) {
        double room = fmax(0.5 * fabs(a->max), least);
        a->min -= room > 0.0 ? room : 0.5;
        a->max += room > 0.0 ? room : 0.5;
    }
    double step = axis_step(a->max - a->min, 5);
    a->min = floor(a->min / step + 1e-9) * step;
    a->max = ceil(a->max / step - 1e-9) * step;
}

double qkv__axis_at(const qkv__axis *a, double value)
{
    double share;
    if (!isfinite(value) || (a->log && value <= 0.0))
        return NAN;
    if (a->log)
        share = log(value / a->min) / log(a->max / a->min);
    else
        share = (value - a->min) / (a->max - a->min);
    return a->from + share * (a->to - a->from);
}

/* A number with as many decimals as a step needs. */
static void axis_text(char out[QKV__TICK_BYTES], double value, double step)
{
    int decimals = (int)fmax(0.0, -floor(log10(step) + 1e-9));
    if (decimals > 6 || fabs(value) >= 1e7)
        (void)snprintf(out, QKV__TICK_BYTES, "%.*e", decimals > 6 ? 0 : 1, value);
    else
        (void)snprintf(out, QKV__TICK_BYTES, "%.*f", decimals, value + 0.0 == 0.0 ? 0.0 : value);
    char *comma = strchr(out, ','); /* a locale's decimal point */
    if (comma)
        *comma = '.';
}

static void axis_add(qkv__ticks *out, double value, double step)
{
    if (out->count == QKV__MAX_TICKS)
        return;
    out->at[out->count] = value;
    axis_text(out->text[out->count++], value, step);
}

/* Powers of 10, with 2 and 5 of each where there are few. */
static void axis_log_ticks(const qkv__axis *a, size_t wanted, qkv__ticks *out)
{
    static const double parts[] = {1.0, 2.0, 5.0};
    double first = floor(log10(a->min) - 1e-9), last = ceil(log10(a->max) + 1e-9);
    double every = ceil((last - first) / (double)wanted);
    size_t some = last - first <= 3.0 ? 3 : 1;
    for (double e = first; e <= last; e += every > 1.0 ? every : 1.0)
        for (size_t i = 0; i < some; i++) {
            double value = parts[i] * pow(10.0, e);
            if (value >= a->min * (1.0 - 1e-9) && value <= a->max * (1.0 + 1e-9))
                axis_add(out, value, value);
        }
}

void qkv__axis_ticks(const qkv__axis *a, size_t wanted, qkv__ticks *out)
{
    out->count = 0;
    if (a->log && a->max >= 10.0 * a->min) {
        axis_log_ticks(a, wanted, out);
        return;
    }
    double step = axis_step(a->max - a->min, wanted), first = ceil(a->min / step - 1e-9);
    for (size_t i = 0; i < QKV__MAX_TICKS; i++) {
        double value = (first + (double)i) * step;
        if (value > a->max + 1e-9 * step)
            break;
        axis_add(out, value, step);
    }
}

double qkv__axis_width(const qkv__axis *a)
{
    qkv__ticks ticks;
    double width = 0.0;
    qkv__axis_ticks(a, 5, &ticks);
    for (size_t i = 0; i < ticks.count; i++)
        width = fmax(width, qkv_text_width(ticks.text[i], QKV__SMALL));
    return width;
}

static void axis_draw_x(qkv_drawing *d, qkv_frame f, const qkv__axis *x)
{
    qkv__ticks ticks;
    double end = -INFINITY;
    qkv__axis_ticks(x, (size_t)fmax(2.0, f.width / 70.0), &ticks);
    for (size_t i = 0; i < ticks.count; i++) {
        double at = qkv__axis_at(x, ticks.at[i]);
        double half = 0.5 * qkv_text_width(ticks.text[i], QKV__SMALL);
        qkv_draw_line(d, at, f.y + f.height, at, f.y + f.height + 4.0, qkv_ink_of(QKV_INK_GRID),
                      1.0);
        if (at - half < end + 6.0)
            continue;
        qkv_draw_text(d, at, f.y + f.height + 15.0, ticks.text[i],
                      &(qkv_text_style){.size = QKV__SMALL, .anchor = QKV_ANCHOR_MIDDLE,
                                        .ink = qkv_ink_of(QKV_INK_FAINT)});
        end = at + half;
    }
}

static void axis_draw_y(qkv_drawing *d, qkv_frame f, const qkv__axis *y)
{
    qkv__ticks ticks;
    qkv__axis_ticks(y, (size_t)fmax(3.0, f.height / 40.0), &ticks);
    for (size_t i = 0; i < ticks.count; i++) {
        double at = qkv__axis_at(y, ticks.at[i]);
        qkv_draw_line(d, f.x, at, f.x + f.width, at, qkv_ink_of(QKV_INK_GRID), 0.75);
        qkv_draw_text(d, f.x - 6.0, at + 4.0, ticks.text[i],
                      &(qkv_text_style){.size = QKV__SMALL, .anchor = QKV_ANCHOR_END,
                                        .ink = qkv_ink_of(QKV_INK_FAINT)});
    }
}

void qkv__draw_axes(qkv_drawing *d, qkv_frame f, const qkv__axis *x, const qkv__axis *y)
{
    if (y)
        axis_draw_y(d, f, y);
    if (x)
        axis_draw_x(d, f, x);
    qkv_draw_line(d, f.x, f.y + f.height, f.x + f.width, f.y + f.height,
                  qkv_ink_of(QKV_INK_FAINT), 1.0);
}

void qkv__draw_axis_labels(qkv_drawing *d, qkv_frame f, double left, const char *x_label,
                           const char *y_label)
{
    if (x_label)
        qkv_draw_text(d, f.x + 0.5 * f.width, f.y + f.height + QKV__TICK_ROOM + 13.0, x_label,
                      &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE});
    if (y_label)
        qkv_draw_text(d, left + 12.0, f.y + 0.5 * f.height, y_label,
                      &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE, .upward = true});
}
