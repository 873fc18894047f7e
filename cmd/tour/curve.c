/* curve.c - a value over time in a few lines of block characters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tour/chapter.h"

enum { ROWS = 6, STEPS = 8 }; /* lines, and heights of a block within one */

void tour_curve_add(tour_curve *c, double share, double value)
{
    int column = (int)(share * TOUR_CURVE_COLUMNS);
    column = column < 0 ? 0 : column >= TOUR_CURVE_COLUMNS ? TOUR_CURVE_COLUMNS - 1 : column;
    c->sum[column] += value;
    c->count[column]++;
}

/* Means by column; one without values repeats the one before it. False when all are empty. */
static bool means(const tour_curve *c, double y[TOUR_CURVE_COLUMNS], double *low, double *high)
{
    int first = 0;
    while (first < TOUR_CURVE_COLUMNS && !c->count[first])
        first++;
    if (first == TOUR_CURVE_COLUMNS)
        return false;
    double last = c->sum[first] / (double)c->count[first];
    *low = *high = last;
    for (int i = 0; i < TOUR_CURVE_COLUMNS; i++) {
        last = c->count[i] ? c->sum[i] / (double)c->count[i] : last;
        y[i] = last;
        *low = fmin(*low, last);
        *high = fmax(*high, last);
    }
    return true;
}

void tour_curve_show(const tour_curve *c, const tour *t, const char *title)
{
    const page *p = t->page;
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double y[TOUR_CURVE_COLUMNS], low, high;
    if (!means(c, y, &low, &high))
        return;
    tour_index_curve(t, y, TOUR_CURVE_COLUMNS, title);
    if (p->json)
        return;
    page_space(p);
    page_line(p, "%s", title);
    for (int row = ROWS - 1; row >= 0; row--) {
        char line[TOUR_CURVE_COLUMNS * 3 + 1] = "", label[16] = "";
        for (int i = 0; i < TOUR_CURVE_COLUMNS; i++) {
            double share = high > low ? (y[i] - low) / (high - low) : 0;
            int height = 1 + (int)(share * (ROWS * STEPS - 1) + 0.5) - row * STEPS;
            strcat(line, blocks[height < 0 ? 0 : height > STEPS ? STEPS : height]);
        }
        if (row == ROWS - 1 || row == 0)
            (void)snprintf(label, sizeof label, "%.2f", row ? high : low);
        page_line(p, "%6s ┤%s", label, line);
    }
}
