/* store.h - bytes that are written front to back, into a file or in memory, and are seen as memory
 * when they are done; what describes them stands in a trailer, for its numbers are known last. */
#ifndef QKV_SRC_IO_STORE_H
#define QKV_SRC_IO_STORE_H

#include "io/file.h"

typedef struct {
    qkv_context *ctx;
    qkv__writer *file; /* NULL: in memory */
    char *path;        /* NULL: in memory */
    qkv_str kept;     /* the bytes when in memory */
    uint64_t size;     /* bytes so far */
} qkv__store;

/* path NULL: in memory. On failure the store is to be abandoned like any other. */
qkv_status qkv__store_begin(qkv__store *s, qkv_context *ctx, const char *path);
qkv_status qkv__store_put(qkv__store *s, const void *data, size_t size);
/* Zeros up to a multiple of 8 bytes. */
qkv_status qkv__store_pad(qkv__store *s);
/* The file has its name from now on; *out (may be NULL) is what was written. On failure it is
 * empty. The store is still to be abandoned. */
qkv_status qkv__store_finish(qkv__store *s, qkv__map *out);
void qkv__store_abandon(qkv__store *s); /* frees all; what is not finished leaves nothing */

/* How the last bytes of a kind of file begin: 8 that name it, 4 for its version in the order of the
 * machine's bytes, so that one of another order has another version. */
typedef struct {
    const char *kind; /* for sentences: "pixel" */
    char magic[8];
    uint32_t version;
    size_t size; /* of all of it */
} qkv__trailer;
/* Where it stands; NULL after recording that it does not. name: the file's. */
const uint8_t *qkv__trailer_of(const qkv__map *m, const qkv__trailer *t, const char *name);

#endif
