/* plot.h - a series as an image in the terminal. */
#ifndef QKV_CMD_TOUR_PLOT_H
#define QKV_CMD_TOUR_PLOT_H

#include <stdio.h>

#include <qkv.h>

enum { CLI_PLOT_COLUMNS = 72 };

/* The last of `before` values, a bar, then the `after` values, as many as fit: no gaps in either.
 * Values lie `stride` numbers apart. title may be NULL. */
void cli_plot(FILE *out, const char *title, const qkv_real *before, size_t before_count,
              size_t before_stride, const qkv_real *after, size_t after_count,
              size_t after_stride);

#endif
