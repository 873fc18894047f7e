/* npy.h - arrays in files: NumPy's .npy, and matrices as comma-separated text.
 * Layer: io */
#ifndef QKV_NPY_H
#define QKV_NPY_H

#include <qkv/base.h>
#include <qkv/safetensors.h>

QKV_BEGIN_DECLS

enum { QKV_ARRAY_DIMS = 32 };

/* Numbers in memory, row-major, with their shape. Freed with qkv_array_free. */
typedef struct {
    qkv_context *ctx;
    int ndim; /* 0: one number */
    size_t shape[QKV_ARRAY_DIMS];
    size_t count;
    qkv_real *data;
    char **names; /* of the columns, when the text had a header: (shape[1]); else NULL */
} qkv_array;

void qkv_array_free(qkv_array *a); /* a zeroed one is allowed */

/* An .npy file, or text: told apart by the first bytes. On failure out is zeroed. */
qkv_status qkv_array_load(qkv_array *out, qkv_context *ctx, const char *path);

/* Versions 1 to 3; f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, b1, little-endian, in C or Fortran
 * order. Anything else is QKV_E_UNSUPPORTED or QKV_E_FORMAT. */
qkv_status qkv_npy_load(qkv_array *out, qkv_context *ctx, const char *path);

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

/* Writes an .npy file of version 1, atomically. store: F16, F32, F64, or I32 for
 * whole numbers that fit. */
qkv_status qkv_npy_save(qkv_context *ctx, const char *path, int ndim, const size_t *shape,
                        const qkv_real *data, qkv_store store);

QKV_END_DECLS
#endif
