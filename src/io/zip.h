/* zip.h - the entries of a zip archive in memory, read-only.
 *
 * Stored entries only, which is what model files hold: their bytes are used where they lie.
 * Zip64 is read. Checksums are not: PyTorch can be told not to write them. */
#ifndef QKV_SRC_IO_ZIP_H
#define QKV_SRC_IO_ZIP_H

#include "base/base.h"

typedef struct {
    const char *name; /* in the archive, not followed by a 0 */
    size_t name_length;
    const uint8_t *data;
    size_t size;
} qkv__zip_entry;

typedef struct {
    qkv__zip_entry *entries; /* sorted by name; no name twice */
    size_t count;
    const qkv__zip_entry *first; /* of the archive's own order; NULL when there is none */
} qkv__zip;

/* True when the bytes begin as an archive does. */
bool qkv__zip_begins(const uint8_t *data, size_t size);

/* Checks the whole directory: every entry lies in front of it, whole, stored and not encrypted.
 * Entries live in the arena; names and data are the archive's. */
qkv_status qkv__zip_read(qkv__zip *out, qkv_context *ctx, qkv__arena *arena, const char *path,
                         const uint8_t *data, size_t size);

/* The entry called "folder/name", where folder may be empty (then "name"); NULL if absent. */
const qkv__zip_entry *qkv__zip_find(const qkv__zip *z, const char *folder, size_t folder_length,
                                    const char *name, size_t name_length);

#endif
