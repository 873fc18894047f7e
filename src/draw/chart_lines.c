/* chart_lines.c - curves over a linear or logarithmic plane. */
#include <math.h>

#include "draw/axis.h"

static double lines_x(const qkv_curve *c, size_t i)
{
    return c->x ? c->x[i] : (double)i;
}

/* Widens both axes to the points of a curve that have a place. */
static void lines_reach(const qkv_curve *c, qkv__axis *x, qkv__axis *y)
{
    for (size_t i = 0; i < c->count; i++) {
        double px = lines_x(c, i), py = c->y[i];
        if (!isfinite(px) || !isfinite(py) || (x->log && px <= 0.0) || (y->log && py <= 0.0))
            continue;
        x->min = fmin(x->min, px);
        x->max = fmax(x->max, px);
        y->min = fmin(y->min, py);
        y->max = fmax(y->max, py);
    }
}

static void lines_axes(const qkv_line_chart *chart, qkv__axis *x, qkv__axis *y)
{
    *x = (qkv__axis){.min = INFINITY, .max = -INFINITY, .log = chart->x_log};
    *y = (qkv__axis){.min = INFINITY, .max = -INFINITY, .log = chart->y_log};
    for (size_t i = 0; i < chart->count; i++)
        lines_reach(&chart->curves[i], x, y);
    double left = x->min, right = x->max;
    qkv__axis_settle(x);
    if (!x->log && left < right) { /* curves reach both sides */
        x->min = left;
        x->max = right;
    }
    qkv__axis_settle(y);
    if (chart->x_min != 0.0 || chart->x_max != 0.0) {
        x->min = chart->x_min;
        x->max = chart->x_max;
    }
    if (chart->y_min != 0.0 || chart->y_max != 0.0) {
        y->min = chart->y_min;
        y->max = chart->y_max;
    }
    if (!(x->min < x->max) || (x->log && x->min <= 0.0))
        qkv__axis_settle(x);
    if (!(y->min < y->max) || (y->log && y->min <= 0.0))
        qkv__axis_settle(y);
}

/* Names beside samples of the lines, in rows above the frame; returns their height. */
static double lines_legend(qkv_drawing *d, qkv_frame f, const qkv_line_chart *chart)
{
    enum { ROW = 18, SAMPLE = 22 };
    double x = f.x + 4.0, y = f.y + 6.0;
    bool any = false;
    for (size_t i = 0; i < chart->count; i++) {
        const qkv_curve *c = &chart->curves[i];
        if (!c->name)
            continue;
        double width = SAMPLE + 6.0 + qkv_text_width(c->name, 12.0) + 18.0;
        if (any && x + width > f.x + f.width) {
            x = f.x + 4.0;
            y += ROW;
        }
        const qkv_point sample[] = {{x, y}, {x + SAMPLE, y}};
        if (c->points)
            qkv_draw_circle(d, x + 0.5 * SAMPLE, y, 3.0, qkv_ink_series(i), qkv_ink_none());
        else
            qkv_draw_polyline(d, sample, 2, qkv_ink_series(i), 2.5, c->dashed);
        qkv_draw_text(d, x + SAMPLE + 6.0, y + 4.0, c->name, NULL);
        x += width;
        any = true;
    }
    return any ? y + ROW - f.y : 6.0;
}

static void lines_curve(qkv_drawing *d, const qkv_curve *c, size_t which, const qkv__axis *x,
                        const qkv__axis *y)
{
    if (!c->count || d->status)
        return;
    qkv_point *points = qkv_malloc(d->ctx, c->count * sizeof *points);
    if (!points) {
        qkv__drawing_fail(d, QKV_E_MEMORY);
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        points[i] = (qkv_point){qkv__axis_at(x, lines_x(c, i)), qkv__axis_at(y, c->y[i])};
        bool outside = points[i].x < fmin(x->from, x->to) - 0.5 ||
                       points[i].x > fmax(x->from, x->to) + 0.5 || points[i].y < y->to - 0.5 ||
                       points[i].y > y->from + 0.5;
        if (outside)
            points[i].y = NAN;
        bool alone = c->count == 1 || c->points;
        if (alone && isfinite(points[i].x + points[i].y))
            qkv_draw_circle(d, points[i].x, points[i].y, 3.0, qkv_ink_series(which),
                            qkv_ink_none());
    }
    if (!c->points && c->count > 1)
        qkv_draw_polyline(d, points, c->count, qkv_ink_series(which), 2.0, c->dashed);
    if (c->name)
        qkv_draw_name(d, c->name);
    qkv_free(d->ctx, points);
}

void qkv_draw_lines(qkv_drawing *d, const qkv_frame *frame, const qkv_line_chart *chart)
{
    qkv__axis x, y;
    qkv_frame f = qkv__chart_frame(d, frame, chart->title);
    lines_axes(chart, &x, &y);
    double legend = lines_legend(d, f, chart);
    double left = qkv__axis_width(&y) + 12.0 + (chart->y_label ? QKV__LABEL_ROOM : 0);
    double below = QKV__TICK_ROOM + (chart->x_label ? QKV__LABEL_ROOM : 0) + 4.0;
    qkv_frame inside = {f.x + left, f.y + legend, f.width - left - 18.0,
                        f.height - legend - below};
    x.from = inside.x;
    x.to = inside.x + inside.width;
    y.from = inside.y + inside.height;
    y.to = inside.y;
    qkv__draw_axes(d, inside, &x, &y);
    qkv__draw_axis_labels(d, inside, f.x, chart->x_label, chart->y_label);
    for (size_t i = 0; i < chart->count; i++)
        lines_curve(d, &chart->curves[i], i, &x, &y);
}
