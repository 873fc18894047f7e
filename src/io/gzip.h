/* gzip.h - gzip files, into memory that is there. */
#ifndef QKV_SRC_IO_GZIP_H
#define QKV_SRC_IO_GZIP_H

#include "base/base.h"

bool qkv__gzip_begins(const uint8_t *data, size_t size);

/* The members' contents, one after another, into out (room) until it is full: nothing unfolds
 * beyond it. *n: bytes that came. On failure the sentence names the file. */
qkv_status qkv__gunzip(qkv_context *ctx, const char *name, const uint8_t *data, size_t size,
                       uint8_t *out, size_t room, size_t *n);

#endif
