/* encode.h - images as text, and the fingerprints that a content-security policy names. */
#ifndef QKV_SRC_DRAW_ENCODE_H
#define QKV_SRC_DRAW_ENCODE_H

#include "base/base.h"
#include "qkv/image.h"

/* Appends data:image/png;base64,.. */
qkv_status qkv__png_uri(qkv_str *out, const qkv_image *image);
void qkv__sha256(uint8_t out[32], const void *data, size_t size); /* FIPS 180-4 */
/* Appends bytes that zlib's inflate reads. False: memory is out, or a build without zlib. */
bool qkv__deflate(qkv_str *out, const void *data, size_t size);

/* Appends a number with a point whatever the locale: exactly `decimals` digits behind it, or with
 * trim without zeros at their end. Large ones have an exponent; "NaN", "∞", "−∞" else. */
void qkv__put_real(qkv_str *out, double value, int decimals, bool trim);

#endif
