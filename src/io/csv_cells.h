/* csv_cells.h - what stands in a cell of a table. */
#ifndef QKV_SRC_IO_CSV_CELLS_H
#define QKV_SRC_IO_CSV_CELLS_H

#include <stdbool.h>

/* Does it stand for a missing value: empty, NaN, NA, .. ? */
bool qkv__csv_missing(const char *cell);

#endif
