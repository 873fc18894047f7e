/* npy.h - NumPy's .npy files.
 * Layer: io */
#ifndef QKV_NPY_H
#define QKV_NPY_H

#include <qkv/csv.h>
#include <qkv/safetensors.h>

QKV_BEGIN_DECLS

/* Reads an .npy file or text (qkv_csv_load), by its first bytes. On failure *out is zeroed. */
qkv_status qkv_array_load(qkv_array *out, qkv_context *ctx, const char *path);

/* Reads .npy versions 1 to 3, little-endian, C or Fortran order; f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8
 * and b1. Anything else is QKV_E_UNSUPPORTED or QKV_E_FORMAT. */
qkv_status qkv_npy_load(qkv_array *out, qkv_context *ctx, const char *path);

/* Writes .npy version 1, atomically. store: F16, F32, F64, or I32 for integers in its range. */
qkv_status qkv_npy_save(qkv_context *ctx, const char *path, int ndim, const size_t *shape,
                        const qkv_real *data, qkv_store store);

QKV_END_DECLS
#endif
