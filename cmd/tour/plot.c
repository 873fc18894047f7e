/* plot.c - a value in each column, in a few lines of block characters. */
#include "tour/plot.h"

#include <math.h>

enum { ROWS = 8, STEPS = 8 }; /* lines, and heights of a block within one */

typedef struct {
    double y[CLI_PLOT_COLUMNS]; /* (count) */
    size_t count, bar;          /* the bar stands in front of column `bar` */
    double low, high;
} image;

static void plot_add(image *p, double value)
{
    p->y[p->count++] = value;
    p->low = fmin(p->low, value);
    p->high = fmax(p->high, value);
}

static void print_line(FILE *out, const image *p, int row)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    if (row == ROWS - 1 || row == 0)
        fprintf(out, "%9.4g ┤", row ? p->high : p->low);
    else
        fprintf(out, "%9s ┤", "");
    for (size_t i = 0; i < p->count; i++) {
        double share = p->high > p->low ? (p->y[i] - p->low) / (p->high - p->low) : 0;
        int height = 1 + (int)(share * (ROWS * STEPS - 1) + 0.5) - row * STEPS;
        fprintf(out, "%s%s", i == p->bar ? "│" : "",
                blocks[height < 0 ? 0 : height > STEPS ? STEPS : height]);
    }
    fputc('\n', out);
}

void cli_plot(FILE *out, const char *title, const qkv_real *before, size_t before_count,
              size_t before_stride, const qkv_real *after, size_t after_count,
              size_t after_stride)
{
    image p = {.low = INFINITY, .high = -INFINITY};
    size_t half = CLI_PLOT_COLUMNS / 2, shown = after_count < half ? after_count : half;
    size_t room = CLI_PLOT_COLUMNS - shown, first = before_count > room ? before_count - room : 0;
    for (size_t i = first; i < before_count; i++)
        plot_add(&p, (double)before[i * before_stride]);
    p.bar = p.count;
    for (size_t i = 0; i < shown; i++)
        plot_add(&p, (double)after[i * after_stride]);
    if (title)
        fprintf(out, "%s\n", title);
    for (int row = ROWS - 1; row >= 0; row--)
        print_line(out, &p, row);
}
