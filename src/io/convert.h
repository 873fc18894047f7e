/* convert.h - numbers as files store them, little-endian, to and from reals. */
#ifndef QKV_SRC_IO_CONVERT_H
#define QKV_SRC_IO_CONVERT_H

#include "qkv/safetensors.h"

/* n numbers; src and out may be unaligned on the stored side. false for QKV_STORE_OTHER. */
bool qkv__store_read(qkv_real *out, const void *src, qkv_store store, size_t n);
/* Integers and booleans only; false for other types. U64 above 2^63 - 1 wraps. */
bool qkv__store_read_ints(int64_t *out, const void *src, qkv_store store, size_t n);
/* F16, BF16, F32, F64 only, to nearest, ties to even; false for other types. */
bool qkv__store_write(void *out, const qkv_real *src, qkv_store store, size_t n);

float qkv__from_f16(uint16_t h);
uint16_t qkv__to_f16(float x); /* overflow gives infinity; NaN stays NaN */
float qkv__from_bf16(uint16_t b);
uint16_t qkv__to_bf16(float x);

#endif
