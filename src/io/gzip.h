/* gzip.h - gzip files, whole. */
#ifndef QKV_SRC_IO_GZIP_H
#define QKV_SRC_IO_GZIP_H

#include "base/base.h"

bool qkv__gzip_begins(const uint8_t *data, size_t size);

/* The members' contents one after another; more than `limit` bytes are an error. *out is freed with
 * qkv__free; on failure it is NULL and the sentence names the file. */
qkv_status qkv__gunzip(qkv_context *ctx, const char *name, const uint8_t *data, size_t size,
                       size_t limit, uint8_t **out, size_t *out_size);

#endif
