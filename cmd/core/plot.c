/* plot.c - a value in each column, in a few lines of block characters. */
#include "core/plot.h"

#include <math.h>
#include <string.h>

enum { ROWS = 8, STEPS = 8 }; /* lines of a series; heights of a block within a line */

void cli_plot_add(cli_plot *p, double value)
{
    if (p->count == CLI_PLOT_COLUMNS)
        return;
    p->y[p->count++] = value;
    p->low = fmin(p->low, value);
    p->high = fmax(p->high, value);
}

void cli_plot_line(const cli_plot *p, int row, char out[CLI_PLOT_LINE])
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    out[0] = 0;
    for (size_t i = 0; i < p->count; i++) {
        double share = p->high > p->low ? (p->y[i] - p->low) / (p->high - p->low) : 0;
        int height = 1 + (int)(share * (p->rows * STEPS - 1) + 0.5) - row * STEPS;
        strcat(out, i && i == p->bar ? "│" : "");
        strcat(out, blocks[height < 0 ? 0 : height > STEPS ? STEPS : height]);
    }
}

void cli_plot_series(FILE *out, const char *title, const qkv_real *before, size_t before_count,
                     size_t before_stride, const qkv_real *after, size_t after_count,
                     size_t after_stride)
{
    cli_plot p = {.rows = ROWS, .low = INFINITY, .high = -INFINITY};
    size_t half = CLI_PLOT_COLUMNS / 2, shown = after_count < half ? after_count : half;
    size_t room = CLI_PLOT_COLUMNS - shown, first = before_count > room ? before_count - room : 0;
    for (size_t i = first; i < before_count; i++)
        cli_plot_add(&p, (double)before[i * before_stride]);
    p.bar = p.count;
    for (size_t i = 0; i < shown; i++)
        cli_plot_add(&p, (double)after[i * after_stride]);
    if (title)
        fprintf(out, "%s\n", title);
    for (int row = ROWS - 1; row >= 0; row--) {
        char line[CLI_PLOT_LINE];
        cli_plot_line(&p, row, line);
        if (row == ROWS - 1 || row == 0)
            fprintf(out, "%9.4g ┤%s\n", row ? p.high : p.low, line);
        else
            fprintf(out, "%9s ┤%s\n", "", line);
    }
}
