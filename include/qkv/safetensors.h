/* safetensors.h - safetensors files: model.safetensors, whole or in shards.
 * Layer: io
 *
 * A reader maps its files, checks every length before use, and converts numbers as it reads. A
 * writer streams tensor by tensor and replaces the file at the end. */
#ifndef QKV_SAFETENSORS_H
#define QKV_SAFETENSORS_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Stored data types, in the format's order of alignment. QKV_STORE_NONE: not chosen.
 * QKV_STORE_OTHER: valid, but not readable here (8-bit floats and smaller, complex numbers). */
typedef enum {
    QKV_STORE_NONE, QKV_STORE_BOOL, QKV_STORE_U8, QKV_STORE_I8, QKV_STORE_I16, QKV_STORE_U16,
    QKV_STORE_F16, QKV_STORE_BF16, QKV_STORE_I32, QKV_STORE_U32, QKV_STORE_F32, QKV_STORE_F64,
    QKV_STORE_I64, QKV_STORE_U64, QKV_STORE_OTHER
} qkv_store;

const char *qkv_store_name(qkv_store store); /* "F32"; "?" for NONE and OTHER */
size_t qkv_store_bytes(qkv_store store);     /* bytes per number; 0 for NONE and OTHER */

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct qkv_safetensors qkv_safetensors;

/* A tensor of an open file. Valid until the reader is closed. */
typedef struct {
    const char *name;
    const char *dtype;   /* as in the file: "BF16" */
    const char *file;    /* the file that contains it */
    qkv_store store;
    int ndim;            /* 0: a scalar */
    const size_t *shape; /* (ndim) */
    size_t count;        /* number of elements */
    size_t bytes;
    const void *data;    /* mapped, little-endian, possibly unaligned */
} qkv_safetensor;

/* path: a .safetensors file, an index of shards (.json), or a directory with model.safetensors or
 * model.safetensors.index.json. On failure *out is NULL: QKV_E_IO if a file cannot be read,
 * QKV_E_FORMAT if it is malformed. */
qkv_status qkv_safetensors_open(qkv_safetensors **out, qkv_context *ctx, const char *path);
void qkv_safetensors_close(qkv_safetensors *s); /* NULL is allowed */

size_t qkv_safetensors_count(const qkv_safetensors *s);
const qkv_safetensor *qkv_safetensors_at(const qkv_safetensors *s, size_t i); /* sorted by name */
const qkv_safetensor *qkv_safetensors_find(const qkv_safetensors *s, const char *name);

/* A value of __metadata__ (in the first shard), or NULL. */
const char *qkv_safetensors_metadata(const qkv_safetensors *s, const char *key);

/* Finds a tensor by name and shape. QKV_E_FORMAT if it is missing or has another shape. */
qkv_status qkv_safetensors_get(const qkv_safetensors *s, const char *name, int ndim,
                               const size_t *shape, const qkv_safetensor **out);

/* Reads elements begin .. begin+count-1, row-major, as reals. Converts integers and booleans.
 * QKV_E_UNSUPPORTED for QKV_STORE_OTHER. */
qkv_status qkv_safetensors_read(const qkv_safetensors *s, const qkv_safetensor *tensor,
                                size_t begin, size_t count, qkv_real *out);

/* Reads integers and booleans exactly. QKV_E_FORMAT for other types. */
qkv_status qkv_safetensors_read_ints(const qkv_safetensors *s, const qkv_safetensor *tensor,
                                     size_t begin, size_t count, int64_t *out);

/* ---- writing ------------------------------------------------------------------------------ */

/* A tensor to write. The first non-NULL member supplies its elements: data, contiguous reals
 * (floating types only); raw, bytes as stored; fill or fill_raw, functions called for a few
 * thousand elements at a time. */
typedef struct {
    const char *name;
    int ndim;
    const size_t *shape;
    qkv_store store; /* F32, F16, BF16, F64; with raw and fill_raw any but OTHER */
    const qkv_real *data;
    const void *raw;
    qkv_status (*fill)(void *user, size_t begin, size_t count, qkv_real *out);
    qkv_status (*fill_raw)(void *user, size_t begin, size_t count, void *out);
    void *user;
} qkv_safetensors_entry;

typedef struct {
    size_t shard_bytes; /* maximum size of a file; 0: one file                              0 */
    const char *const *metadata; /* key, value, .., NULL; NULL: {"format": "pt"}            */
} qkv_safetensors_options;

/* Writes the entries to path ("DIR/model.safetensors"), atomically. Rounds to nearest, ties to
 * even. Entries that exceed shard_bytes are split into "model-00001-of-0000N.safetensors" in path's
 * folder and the index path + ".index.json", each replaced atomically. Then an old file at path is
 * removed; when one file is written, an old index is. options may be NULL. On failure old files
 * are unchanged. */
qkv_status qkv_safetensors_save(qkv_context *ctx, const char *path,
                                const qkv_safetensors_entry *entries, size_t count,
                                const qkv_safetensors_options *options);

/* ---- streaming ----------------------------------------------------------------------------- */

/* A file whose tensors become known while it is written. All have one type. */
typedef struct qkv_safetensors_stream qkv_safetensors_stream;

/* store: F32, F16 or BF16. The file appears under its name when the stream is closed. On failure
 * *out is NULL. */
qkv_status qkv_safetensors_stream_open(qkv_safetensors_stream **out, qkv_context *ctx,
                                       const char *path, qkv_store store);
/* Appends n numbers, rounded to nearest, ties to even. */
qkv_status qkv_safetensors_stream_put(qkv_safetensors_stream *s, const qkv_real *x, size_t n);
/* Makes a tensor of the first numbers that belong to none yet, as many as the shape has.
 * QKV_E_ARGUMENT: fewer were put, the name is taken, or the file has several thousand tensors. */
qkv_status qkv_safetensors_stream_entry(qkv_safetensors_stream *s, const char *name, int ndim,
                                        const size_t *shape);
/* Completes the file; s is gone. QKV_E_ARGUMENT: numbers belong to no tensor. On failure an old
 * file is unchanged. */
qkv_status qkv_safetensors_stream_close(qkv_safetensors_stream *s);
void qkv_safetensors_stream_abandon(qkv_safetensors_stream *s); /* leaves no file; NULL allowed */

QKV_END_DECLS
#endif
