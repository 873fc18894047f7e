/* plot.h - a value in each column, in a few lines of block characters. */
#ifndef QKV_CMD_CORE_PLOT_H
#define QKV_CMD_CORE_PLOT_H

#include <stdio.h>

#include <qkv.h>

enum { CLI_PLOT_COLUMNS = 72, CLI_PLOT_LINE = 3 * (CLI_PLOT_COLUMNS + 1) + 1 };

/* Start with low INFINITY and high -INFINITY, and add values; more than CLI_PLOT_COLUMNS are
 * ignored. */
typedef struct {
    double y[CLI_PLOT_COLUMNS]; /* (count) */
    size_t count, bar;          /* a bar stands in front of column `bar`; 0: none does */
    int rows;                   /* lines */
    double low, high;
} cli_plot;

void cli_plot_add(cli_plot *p, double value);
/* Line `row`, from the bottom, in UTF-8. */
void cli_plot_line(const cli_plot *p, int row, char out[CLI_PLOT_LINE]);

/* The last of `before` values, a bar, then the `after` values, as many as fit: no gaps in either.
 * Values lie `stride` numbers apart. title may be NULL. */
void cli_plot_series(FILE *out, const char *title, const qkv_real *before, size_t before_count,
                     size_t before_stride, const qkv_real *after, size_t after_count,
                     size_t after_stride);

#endif
