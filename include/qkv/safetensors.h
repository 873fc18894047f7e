/* safetensors.h - tensors in files: model.safetensors, whole or in shards.
 * Layer: io
 *
 * A reader maps its files and checks every length before it trusts it; numbers are converted
 * as they are read. A writer streams, tensor by tensor, and replaces the file at the end. */
#ifndef QKV_SAFETENSORS_H
#define QKV_SAFETENSORS_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* How numbers are stored, in the format's order of alignment. QKV_STORE_NONE: not chosen.
 * QKV_STORE_OTHER: known to the format, not readable here (8-bit floats and smaller, complex
 * numbers). */
typedef enum {
    QKV_STORE_NONE, QKV_STORE_BOOL, QKV_STORE_U8, QKV_STORE_I8, QKV_STORE_I16, QKV_STORE_U16,
    QKV_STORE_F16, QKV_STORE_BF16, QKV_STORE_I32, QKV_STORE_U32, QKV_STORE_F32, QKV_STORE_F64,
    QKV_STORE_I64, QKV_STORE_U64, QKV_STORE_OTHER
} qkv_store;

const char *qkv_store_name(qkv_store store); /* "F32"; "?" for NONE and OTHER */
size_t qkv_store_bytes(qkv_store store);     /* of one number; 0 for NONE and OTHER */

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct qkv_safetensors qkv_safetensors;

/* One tensor of an open file; lives as long as the reader. */
typedef struct {
    const char *name;
    const char *dtype;   /* as in the file: "BF16" */
    const char *file;    /* the one that holds it */
    qkv_store store;
    int ndim;            /* 0: one number */
    const size_t *shape; /* (ndim) */
    size_t count;        /* numbers */
    size_t bytes;
    const void *data;    /* mapped, little-endian, possibly unaligned */
} qkv_safetensor;

/* path: a .safetensors file; an index (.json) of shards; or a directory that holds
 * model.safetensors or model.safetensors.index.json. On failure *out is NULL; QKV_E_IO when a
 * file cannot be read, QKV_E_FORMAT when it is malformed. */
qkv_status qkv_safetensors_open(qkv_safetensors **out, qkv_context *ctx, const char *path);
void qkv_safetensors_close(qkv_safetensors *s); /* NULL is allowed */

size_t qkv_safetensors_count(const qkv_safetensors *s);
const qkv_safetensor *qkv_safetensors_at(const qkv_safetensors *s, size_t i); /* by name */
const qkv_safetensor *qkv_safetensors_find(const qkv_safetensors *s, const char *name);

/* A value of __metadata__ (of the first shard), or NULL. */
const char *qkv_safetensors_metadata(const qkv_safetensors *s, const char *key);

/* The tensor of that name and shape, else QKV_E_FORMAT: it is missing, or what its shape is. */
qkv_status qkv_safetensors_get(const qkv_safetensors *s, const char *name, int ndim,
                               const size_t *shape, const qkv_safetensor **out);

/* Numbers begin .. begin+count-1 of the tensor, row-major, as reals. Integers and booleans are
 * converted too. QKV_E_UNSUPPORTED for QKV_STORE_OTHER. */
qkv_status qkv_safetensors_read(const qkv_safetensors *s, const qkv_safetensor *tensor,
                                size_t begin, size_t count, qkv_real *out);

/* The same for integers and booleans, which stay exact; other types are QKV_E_FORMAT. */
qkv_status qkv_safetensors_read_ints(const qkv_safetensors *s, const qkv_safetensor *tensor,
                                     size_t begin, size_t count, int64_t *out);

/* ---- writing ------------------------------------------------------------------------------ */

/* A tensor to write. Where its numbers come from: data, contiguous reals (floating types only);
 * else raw, the bytes as they shall stand; else fill or fill_raw, asked for a few thousand numbers
 * at a time. */
typedef struct {
    const char *name;
    int ndim;
    const size_t *shape;
    qkv_store store; /* F32, F16, BF16, F64; any but OTHER with raw and fill_raw */
    const qkv_real *data;
    const void *raw;
    qkv_status (*fill)(void *user, size_t begin, size_t count, qkv_real *out);
    qkv_status (*fill_raw)(void *user, size_t begin, size_t count, void *out);
    void *user;
} qkv_safetensors_entry;

typedef struct {
    size_t shard_bytes; /* start another file beyond it; 0: one file, whatever its size     0 */
    const char *const *metadata; /* key, value, .., NULL; NULL: {"format": "pt"}            */
} qkv_safetensors_options;

/* Writes all entries to path ("DIR/model.safetensors"), atomically, with the numbers rounded to
 * nearest, ties to even. Split into shards, when they do not fit one: the files are
 * "model-00001-of-0000N.safetensors" beside path and path + ".index.json", each replaced
 * atomically, and an older path is removed (as is the index, when one file is written), so that
 * readers find what is new. options may be NULL. On failure old files are as they were. */
qkv_status qkv_safetensors_save(qkv_context *ctx, const char *path,
                                const qkv_safetensors_entry *entries, size_t count,
                                const qkv_safetensors_options *options);

QKV_END_DECLS
#endif
