/* npy.h - arrays in files: NumPy's .npy.
 * Layer: io */
#ifndef QKV_NPY_H
#define QKV_NPY_H

#include <qkv/csv.h>
#include <qkv/safetensors.h>

QKV_BEGIN_DECLS

/* An .npy file, or text: told apart by the first bytes. On failure out is zeroed. */
qkv_status qkv_array_load(qkv_array *out, qkv_context *ctx, const char *path);

/* Versions 1 to 3; f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, b1, little-endian, in C or Fortran
 * order. Anything else is QKV_E_UNSUPPORTED or QKV_E_FORMAT. */
qkv_status qkv_npy_load(qkv_array *out, qkv_context *ctx, const char *path);

/* Writes an .npy file of version 1, atomically. store: F16, F32, F64, or I32 for
 * whole numbers that fit. */
qkv_status qkv_npy_save(qkv_context *ctx, const char *path, int ndim, const size_t *shape,
                        const qkv_real *data, qkv_store store);

QKV_END_DECLS
#endif
