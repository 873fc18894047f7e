/* chart_bars.c - bars upward or sideways, and histograms. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/axis.h"
#include "draw/encode.h"

void qkv_histogram(const double *values, size_t count, size_t bins, double *edges, double *counts)
{
    double min = INFINITY, max = -INFINITY;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) {
            min = fmin(min, values[i]);
            max = fmax(max, values[i]);
        }
    if (!(min < max)) {
        min = isfinite(min) ? min - 0.5 : 0.0;
        max = min + 1.0;
    }
    for (size_t i = 0; i <= bins; i++)
        edges[i] = min + (max - min) * (double)i / (double)bins;
    memset(counts, 0, bins * sizeof *counts);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) {
            size_t bin = (size_t)((values[i] - min) / (max - min) * (double)bins);
            counts[bin < bins ? bin : bins - 1] += 1.0;
        }
}

static qkv__axis bars_axis(const qkv_bar_chart *chart)
{
    qkv__axis a = {0};
    for (size_t i = 0; i < chart->count; i++)
        if (isfinite(chart->values[i])) {
            a.min = fmin(a.min, chart->values[i]);
            a.max = fmax(a.max, chart->values[i]);
        }
    qkv__axis_settle(&a);
    return a;
}

/* The label of a bar, in room where it is a number. */
static const char *bars_label(const qkv_bar_chart *chart, size_t i, char room[QKV__TICK_BYTES])
{
    if (chart->labels)
        return chart->labels[i] ? chart->labels[i] : "";
    (void)snprintf(room, QKV__TICK_BYTES, "%zu", i);
    return room;
}

static void bars_put(qkv_drawing *d, qkv_frame bar, const char *label, double value)
{
    qkv_str name;
    if (qkv_drawing_status(d) || !isfinite(value))
        return;
    qkv_str_init(&name, d->ctx);
    qkv_str_puts(&name, label);
    qkv_str_puts(&name, ": ");
    qkv__put_real(&name, value, 6, true);
    qkv_draw_rect(d, bar, qkv_ink_series(0), qkv_ink_none());
    if (name.failed)
        qkv__drawing_fail(d, QKV_E_MEMORY);
    else
        qkv_draw_name(d, name.data);
    qkv_str_free(&name);
}

static void bars_sideways(qkv_drawing *d, qkv_frame f, const qkv_bar_chart *chart)
{
    char room[QKV__TICK_BYTES];
    double left = 0.0, row = (f.height - 8.0) / (double)chart->count;
    qkv__axis a = bars_axis(chart);
    for (size_t i = 0; i < chart->count; i++)
        left = fmax(left, qkv_text_width(bars_label(chart, i, room), 12.0));
    left = fmin(left, 0.5 * f.width) + 14.0;
    a.from = f.x + left;
    a.to = f.x + f.width - (chart->decimals < 0 ? 8.0 : 60.0);
    for (size_t i = 0; i < chart->count; i++) {
        double y = f.y + 4.0 + row * (double)i, zero = qkv__axis_at(&a, 0.0);
        double end = qkv__axis_at(&a, chart->values[i]);
        const char *label = bars_label(chart, i, room);
        qkv__draw_label(d, f.x + left - 8.0, y + 0.5 * row + 4.0, label, left - 13.0,
                        &(qkv_text_style){.anchor = QKV_ANCHOR_END});
        bars_put(d, (qkv_frame){fmin(zero, end), y + 0.12 * row, fabs(end - zero), 0.76 * row},
                 label, chart->values[i]);
        qkv_str number;
        qkv_str_init(&number, d->ctx);
        qkv__put_real(&number, chart->values[i], chart->decimals, false);
        if (chart->decimals >= 0 && !number.failed && isfinite(end))
            qkv_draw_text(d, fmax(zero, end) + 6.0, y + 0.5 * row + 4.0, number.data,
                          &(qkv_text_style){.size = QKV__SMALL,
                                            .ink = qkv_ink_of(QKV_INK_FAINT)});
        if (number.failed)
            qkv__drawing_fail(d, QKV_E_MEMORY);
        qkv_str_free(&number);
    }
}

static void bars_labels(qkv_drawing *d, qkv_frame inside, const qkv_bar_chart *chart)
{
    char room[QKV__TICK_BYTES];
    double step = inside.width / (double)chart->count, end = -INFINITY;
    for (size_t i = 0; i < chart->count; i++) {
        const char *label = bars_label(chart, i, room);
        double at = inside.x + step * ((double)i + 0.5);
        double half = 0.5 * qkv_text_width(label, QKV__SMALL);
        if (at - half < end + 4.0)
            continue;
        qkv_draw_text(d, at, inside.y + inside.height + 15.0, label,
                      &(qkv_text_style){.size = QKV__SMALL, .anchor = QKV_ANCHOR_MIDDLE,
                                        .ink = qkv_ink_of(QKV_INK_FAINT)});
        end = at + half;
    }
}

static void bars_upward(qkv_drawing *d, qkv_frame f, const qkv_bar_chart *chart)
{
    char room[2 * QKV__TICK_BYTES];
    qkv__axis y = bars_axis(chart), x = {0};
    double left = qkv__axis_width(&y) + 12.0 + (chart->y_label ? QKV__LABEL_ROOM : 0);
    double below = QKV__TICK_ROOM + (chart->x_label ? QKV__LABEL_ROOM : 0) + 4.0;
    qkv_frame inside = {f.x + left, f.y + 8.0, f.width - left - 18.0, f.height - below - 8.0};
    y.from = inside.y + inside.height;
    y.to = inside.y;
    if (chart->edges)
        x = (qkv__axis){chart->edges[0], chart->edges[chart->count], inside.x,
                        inside.x + inside.width, false};
    qkv__draw_axes(d, inside, chart->edges ? &x : NULL, &y);
    qkv__draw_axis_labels(d, inside, f.x, chart->x_label, chart->y_label);
    double step = inside.width / (double)chart->count, zero = qkv__axis_at(&y, 0.0);
    for (size_t i = 0; i < chart->count; i++) {
        double from = inside.x + step * ((double)i + 0.12), width = 0.76 * step;
        const char *label = chart->edges ? room : bars_label(chart, i, room);
        if (chart->edges) {
            from = qkv__axis_at(&x, chart->edges[i]);
            width = qkv__axis_at(&x, chart->edges[i + 1]) - from;
            (void)snprintf(room, sizeof room, "%.4g to %.4g", chart->edges[i],
                           chart->edges[i + 1]);
        }
        double end = qkv__axis_at(&y, chart->values[i]);
        bars_put(d, (qkv_frame){from + 0.5, fmin(zero, end), fmax(width - 1.0, 0.5),
                                fabs(end - zero)},
                 label, chart->values[i]);
    }
    if (!chart->edges)
        bars_labels(d, inside, chart);
}

void qkv_draw_bars(qkv_drawing *d, const qkv_frame *frame, const qkv_bar_chart *chart)
{
    qkv_frame f = qkv__chart_frame(d, frame, chart->title);
    if (!chart->count)
        return;
    if (chart->sideways && !chart->edges)
        bars_sideways(d, f, chart);
    else
        bars_upward(d, f, chart);
}
