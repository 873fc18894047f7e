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

/* As qkv_safetensors_open, of a file that is mapped or kept already; the map is the reader's, or
 * closed on failure. name: for sentences. */
qkv_status qkv__safetensors_take(qkv_safetensors **out, qkv__map *map, const char *name);

/* The tensor of that name, type and number of dimensions, else QKV_E_FORMAT. */
qkv_status qkv__safetensors_expect(const qkv_safetensors *s, const char *name, qkv_store store,
                                   int ndim, const qkv_safetensor **out);

/* These elements have been read: their pages of the mapped file need not stay in memory. They may
 * be read again. */
void qkv__safetensors_drop(const qkv_safetensors *s, const qkv_safetensor *t, size_t begin,
                           size_t count);

/* Maps the shard's file unless it is mapped, checks it, and appends its tensors and metadata to
 * s. */
qkv_status qkv__shard_read(qkv_safetensors *s, qkv__shard *from);

/* A copy in s->arena; NULL when memory is out. */
char *qkv__safetensors_text(qkv_safetensors *s, const char *text);

/* The product of a shape; false when it does not fit. */
bool qkv__file_shape_count(int ndim, const size_t *shape, size_t *count);

/* "(2, 3)", cut when longer. */
void qkv__file_shape_text(char *out, size_t size, int ndim, const size_t *shape);

/* ---- streaming ------------------------------------------------------------------------------ */

/* A file of a few tensors that is written front to back, or the same in memory: the first tensor's
 * bytes are put piece by piece, their number being known last. */
typedef struct {
    qkv_context *ctx;
    qkv__writer *file; /* NULL: in memory */
    char *path;        /* NULL: in memory */
    qkv_str kept;      /* the file's bytes when in memory */
} qkv__stream;

/* path NULL: in memory. On failure the stream is to be abandoned like any other. */
qkv_status qkv__stream_begin(qkv__stream *s, qkv_context *ctx, const char *path);
qkv_status qkv__stream_put(qkv__stream *s, const void *data, size_t size);
/* Ends the file, which exists under its name from now on, and opens it (out may be NULL).
 * entries[0] describes what was put, whose size is the caller's word; of the others (3 at most,
 * with metadata of 100 bytes at most) raw is written. On failure *out is NULL. The stream is still
 * to be abandoned. */
qkv_status qkv__stream_finish(qkv__stream *s, const qkv_safetensors_entry *entries, size_t count,
                              const char *const *metadata, qkv_safetensors **out);
void qkv__stream_abandon(qkv__stream *s); /* frees all; what is not finished leaves nothing */

#endif
