/* base64.h - bytes as text, RFC 4648, padded. */
#ifndef QKV_SRC_BASE_BASE64_H
#define QKV_SRC_BASE_BASE64_H

#include "base/base.h"

void qkv__base64_put(qkv_str *out, const void *data, size_t size);
/* Appends the text's bytes; false: it is no base64, or memory is out. */
bool qkv__base64_take(qkv_str *out, const char *text);

#endif
