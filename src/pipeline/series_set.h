/* series_set.h - series of a class each: files of them, and what training keeps. */
#ifndef QKV_SRC_PIPELINE_SERIES_SET_H
#define QKV_SRC_PIPELINE_SERIES_SET_H

#include "base/base.h"
#include "qkv/series.h"

/* A set that owns its arrays. names: of the classes that the file has, in the order in which they
 * come. */
typedef struct {
    qkv_context *ctx;
    qkv_series_set set;
    qkv_real *data;
    size_t *start, values, value_room, start_room, label_room, name_room;
    int32_t *labels;
    char **names;
    size_t classes;
} qkv__series_file;

/* Reads lines LABEL,V1,V2,.. (labelled) or V1,V2,.. : the values of a series, step after step, of
 * `columns` each; commas, semicolons or tabs between. Empty cells at the end are left out, others
 * and NaN are missing. Labels are numbered as in names (class_count), where that has some, and
 * another one is an error. Lines that are empty or begin with # are skipped. most: rows that are
 * read of a series. Freed with qkv__series_file_free, after a failure, too. */
qkv_status qkv__series_file_load(qkv__series_file *out, qkv_context *ctx, const char *path,
                                 bool labelled, size_t columns, size_t most,
                                 const char *const *names, size_t class_count);
void qkv__series_file_free(qkv__series_file *f);

/* Series from .. from + count - 1 as an .npy file (rows, 1 + columns), whose first column is a
 * series' class + 1 in its first row, else 0. */
qkv_status qkv__series_set_save(qkv_context *ctx, const char *path, const qkv_series_set *s,
                                size_t from, size_t count);
qkv_status qkv__series_set_open(qkv__series_file *out, qkv_context *ctx, const char *path,
                                size_t columns, size_t classes);

#endif
