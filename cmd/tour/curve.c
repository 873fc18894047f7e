/* curve.c - a value over time in a few lines of block characters. */
#include <math.h>
#include <stdio.h>

#include "core/plot.h"
#include "tour/chapter.h"

enum { ROWS = 6 };

void tour_curve_add(tour_curve *c, double share, double value)
{
    int column = (int)(share * TOUR_CURVE_COLUMNS);
    column = column < 0 ? 0 : column >= TOUR_CURVE_COLUMNS ? TOUR_CURVE_COLUMNS - 1 : column;
    c->sum[column] += value;
    c->count[column]++;
}

/* Means by column; one without values repeats the one before it. False when all are empty. */
static bool means(const tour_curve *c, cli_plot *p)
{
    int first = 0;
    while (first < TOUR_CURVE_COLUMNS && !c->count[first])
        first++;
    if (first == TOUR_CURVE_COLUMNS)
        return false;
    double last = c->sum[first] / (double)c->count[first];
    for (int i = 0; i < TOUR_CURVE_COLUMNS; i++) {
        last = c->count[i] ? c->sum[i] / (double)c->count[i] : last;
        cli_plot_add(p, last);
    }
    return true;
}

void tour_curve_show(const tour_curve *c, const tour *t, const char *title)
{
    const page *p = t->page;
    cli_plot plot = {.rows = ROWS, .low = INFINITY, .high = -INFINITY};
    if (!means(c, &plot))
        return;
    tour_index_curve(t, plot.y, plot.count, title);
    if (p->json)
        return;
    page_space(p);
    page_line(p, "%s", title);
    for (int row = ROWS - 1; row >= 0; row--) {
        char line[CLI_PLOT_LINE], label[16] = "";
        cli_plot_line(&plot, row, line);
        if (row == ROWS - 1 || row == 0)
            (void)snprintf(label, sizeof label, "%.2f", row ? plot.high : plot.low);
        page_line(p, "%6s ┤%s", label, line);
    }
}
