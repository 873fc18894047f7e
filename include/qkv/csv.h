/* csv.h - matrices as comma-separated text.
 * Layer: io */
#ifndef QKV_CSV_H
#define QKV_CSV_H

#include <qkv/array.h>

QKV_BEGIN_DECLS

/* Rows of numbers between commas, semicolons, tabs or blanks (the first line decides); the
 * first line may name the columns; empty lines and lines that begin with # do not count. Rows
 * of unequal length are an error that names the line. -> (rows, columns). */
qkv_status qkv_csv_load(qkv_array *out, qkv_context *ctx, const char *path);

/* The same of some columns, in the order given: of a name in the first line, or of a number from
 * 1; where the first line has no names, names of as many columns as there are stand for them in
 * their order. count 0: all. Values must be finite; the columns that are not read may hold
 * anything, but no separators. */
qkv_status qkv_csv_load_columns(qkv_array *out, qkv_context *ctx, const char *path,
                                const char *const *columns, size_t count);

QKV_END_DECLS
#endif
