/* tar.h - the files of a tar archive in memory, one after another. */
#ifndef QKV_SRC_IO_TAR_H
#define QKV_SRC_IO_TAR_H

#include "base/base.h"

enum { QKV__TAR_NAME = 4096 };

typedef struct {
    char name[QKV__TAR_NAME]; /* ends in 0 */
    const uint8_t *data;      /* where it lies in the archive */
    size_t size;
} qkv__tar_entry;

/* Start from {ctx, path, data, size}. */
typedef struct {
    qkv_context *ctx;
    const char *path; /* of the archive, for sentences */
    const uint8_t *data;
    size_t size, at; /* at: where the next header is */
} qkv__tar;

/* True when the bytes begin as an archive does, or as one whose first header is damaged. */
bool qkv__tar_begins(const uint8_t *data, size_t size);

/* The next file; folders, links and devices are passed over, and nothing is ever written under a
 * name. *more is false at the end. Names may be of any
 * of the formats: ustar, GNU, pax. */
qkv_status qkv__tar_next(qkv__tar *t, qkv__tar_entry *e, bool *more);

#endif
