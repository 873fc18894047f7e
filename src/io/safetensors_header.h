/* safetensors_header.h - what the files of the reader, and the writer, share. */
#ifndef QKV_SRC_IO_SAFETENSORS_HEADER_H
#define QKV_SRC_IO_SAFETENSORS_HEADER_H

#include "base/base.h"
#include "io/file.h"
#include "qkv/safetensors.h"

enum { QKV__MAX_HEADER = 100000000 }; /* bytes; the reference reader's limit */

typedef struct {
    char *path;
    qkv__map map;
} qkv__shard;

struct qkv_safetensors {
    qkv_context *ctx;
    qkv__arena *arena; /* names, shapes, paths, tensors, metadata */
    qkv__shard *shards;
    size_t shard_count;
    qkv_safetensor *tensors; /* sorted by name once open */
    size_t count;
    const char **metadata; /* key, value, .. */
    size_t metadata_count;
};

/* Maps the shard's file, checks it, and appends its tensors and metadata to s. */
qkv_status qkv__shard_read(qkv_safetensors *s, qkv__shard *from);

/* A copy in s->arena; NULL when memory is out. */
char *qkv__safetensors_text(qkv_safetensors *s, const char *text);

/* The product of a shape; false when it does not fit. */
bool qkv__file_shape_count(int ndim, const size_t *shape, size_t *count);

/* "(2, 3)", cut when longer. */
void qkv__file_shape_text(char *out, size_t size, int ndim, const size_t *shape);

#endif
