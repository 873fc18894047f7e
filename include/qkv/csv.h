/* csv.h - matrices in delimited text.
 * Layer: io */
#ifndef QKV_CSV_H
#define QKV_CSV_H

#include <qkv/array.h>
#include <qkv/string.h>

QKV_BEGIN_DECLS

/* Reads rows of numbers -> (rows, columns). The separator is a comma, a semicolon, a tab or blanks,
 * as in the first line. The first line may contain column names. Empty lines and lines that begin
 * with # are skipped. Rows of unequal length are an error whose message names the line. */
qkv_status qkv_csv_load(qkv_array *out, qkv_context *ctx, const char *path);

/* Reads selected columns, in the given order. A column is given by its name in the header, or its
 * number, from 1. If the file has no header and `columns` has one name for each column of the file,
 * the names are assigned in order. count 0: all columns. Selected values must be finite. Other
 * columns may contain anything but separators. */
qkv_status qkv_csv_load_columns(qkv_array *out, qkv_context *ctx, const char *path,
                                const char *const *columns, size_t count);

/* The same of columns in which values may be missing: an empty cell, NaN, NA, N/A, null, ? or - is
 * NaN; in a file of one column so is an empty line, but not at the end. */
qkv_status qkv_csv_load_gaps(qkv_array *out, qkv_context *ctx, const char *path,
                             const char *const *columns, size_t count);

/* Appends rows (rows, columns) as text that qkv_csv_load_gaps reads: the names, if there are any,
 * then a line a row, with seven digits, which is what a float is good for. Names are in quotes
 * where they need them. A failed allocation is kept in out->failed. */
void qkv_csv_text(qkv_str *out, const qkv_array *rows);

QKV_END_DECLS
#endif
