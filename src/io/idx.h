/* idx.h - arrays of bytes as the MNIST family stores them, gzipped or not. */
#ifndef QKV_SRC_IO_IDX_H
#define QKV_SRC_IO_IDX_H

#include "io/file.h"

enum { QKV__IDX_DIMS = 4 };

typedef struct {
    qkv__map map;
    uint8_t *owned; /* when it was gzipped */
    size_t ndim, shape[QKV__IDX_DIMS];
    const uint8_t *data; /* (shape) */
} qkv__idx;

/* True when the bytes begin as an idx file or a gzip file does. */
bool qkv__idx_begins(const uint8_t *data, size_t size);

/* Unsigned bytes of 1 to 4 dimensions, none 0 but the first. On failure nothing is open. */
qkv_status qkv__idx_open(qkv__idx *x, qkv_context *ctx, const char *path);
void qkv__idx_close(qkv__idx *x); /* a zeroed one is allowed */

#endif
