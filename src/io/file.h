/* file.h - files seen as memory, files written piece by piece, locks; beside qkv/file.h. */
#ifndef QKV_SRC_IO_FILE_H
#define QKV_SRC_IO_FILE_H

#include "base/base.h"
#include "qkv/file.h"

/* ---- reading --------------------------------------------------------------------------- */

/* A file seen as memory, read-only: mapped, or read when it cannot be (a pipe). The file must
 * not shrink while it is open. */
typedef struct {
    qkv_context *ctx;
    const uint8_t *data; /* never NULL while open; not followed by a 0 */
    size_t size;
    bool mapped;
} qkv__map;

qkv_status qkv__map_open(qkv__map *m, qkv_context *ctx, const char *path);
/* The same of a file alone: pipes and devices, which may never end, are refused and not waited
 * for. */
qkv_status qkv__map_file(qkv__map *m, qkv_context *ctx, const char *path);
/* Gives back the memory of these bytes' pages, if a mapped file has them; whoever looks at them
 * again has them read again. */
void qkv__map_drop(const qkv__map *m, const void *from, size_t bytes);
void qkv__map_close(qkv__map *m); /* a zeroed or closed one is allowed */

/* ---- writing ---------------------------------------------------------------------------- */

/* Writes a temporary beside the file, flushes it to disk and renames it over the file, so that
 * path always holds the old bytes or all the new ones. A failed or abandoned write leaves the
 * old file and no temporary; one left by a killed process is used again. Devices and pipes are
 * written directly. */
typedef struct qkv__writer qkv__writer;

/* On failure *out is NULL. */
qkv_status qkv__writer_open(qkv__writer **out, qkv_context *ctx, const char *path);
/* A failure is kept: later calls do nothing and close returns it. */
qkv_status qkv__writer_put(qkv__writer *w, const void *data, size_t size);
/* What is put next goes over the first bytes that were put; of files alone. */
qkv_status qkv__writer_rewind(qkv__writer *w);
/* Puts the file in its place, or removes the temporary after a failure; w is gone either way. */
qkv_status qkv__writer_close(qkv__writer *w);
void qkv__writer_abandon(qkv__writer *w); /* NULL is allowed */

/* Adds to the end of a file, which is made if it is not there, in one piece: a process that is
 * killed leaves whole pieces. What cannot be written whole is taken back. */
qkv_status qkv__file_append(qkv_context *ctx, const char *path, const void *data, size_t size);
/* Cuts a file off after so many bytes. */
qkv_status qkv__file_cut(qkv_context *ctx, const char *path, size_t size);

/* ---- folders ------------------------------------------------------------------------------ */

qkv_status qkv__file_remove(qkv_context *ctx, const char *path); /* absent already: fine */

/* Keeps other processes that ask the same from a folder until it is unlocked or this process
 * ends. *lock is -1 on failure, and where the file system knows no locks. */
qkv_status qkv__dir_lock(int *lock, qkv_context *ctx, const char *path);
void qkv__dir_unlock(int lock); /* -1 is allowed */

qkv_status qkv__names_add(qkv_names *out, const char *name); /* a copy; out->ctx is set */

#endif
