/* series.h - series of numbers in files: the columns of a CSV file as a model has them. */
#ifndef QKV_SRC_PIPELINE_SERIES_H
#define QKV_SRC_PIPELINE_SERIES_H

#include "base/base.h"
#include "qkv/forecast.h"
#include "qkv/npy.h"
#include "qkv/series.h"

/* The rows in an array of two dimensions. */
qkv_series qkv__series(const qkv_array *a);

/* The columns of the file that a forecaster or a filler was trained on, in its order: of the names
 * in the model's directory, or all where it has none. In a filler's, values may be missing
 * (qkv_csv_load_gaps). Freed with qkv_array_free. */
qkv_status qkv__series_load(qkv_array *out, const qkv_model *m, const char *path);

/* Rows that training keeps in dir/name, an .npy file; none where it is not there and not
 * required. */
qkv_status qkv__series_open(qkv_array *out, qkv_context *ctx, const char *dir, const char *name,
                            bool required);

/* An array (rows, columns) of zeros with the first names of another, where that has some. On
 * failure free it all the same. */
qkv_status qkv__series_make(qkv_array *out, qkv_context *ctx, size_t rows, size_t columns,
                            char *const *names);

#endif
