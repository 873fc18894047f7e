/* file.h - whole files in and out, folders, paths.
 * Layer: io
 *
 * Every failure is one sentence with the file's name and the reason. Paths are the caller's
 * bytes; nothing is expanded. Memory comes from the context. */
#ifndef QKV_FILE_H
#define QKV_FILE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* The whole file, followed by a 0 that *size does not count. limit: the most bytes taken, more
 * is an error (0: no limit). Pipes are read to their end. *data is freed with qkv_free; on
 * failure it is NULL. */
qkv_status qkv_file_read(qkv_context *ctx, const char *path, size_t limit, char **data,
                         size_t *size);

/* Writes a temporary beside the file, flushes it to disk and renames it over the file, so that path
 * always holds the old bytes or all the new ones. Devices and pipes are written directly. */
qkv_status qkv_file_write(qkv_context *ctx, const char *path, const void *data, size_t size);

bool qkv_file_exists(const char *path); /* a file, or anything else that can be read */
bool qkv_dir_exists(const char *path);

/* The folder and those above it; existing ones are fine. */
qkv_status qkv_dir_create(qkv_context *ctx, const char *path);

/* Names in a folder without "." and "..", sorted by byte value. */
typedef struct {
    qkv_context *ctx;
    char **names;
    size_t count, capacity;
} qkv_names;
qkv_status qkv_dir_list(qkv_names *out, qkv_context *ctx, const char *path);
void qkv_names_free(qkv_names *names); /* a zeroed one is allowed */

/* "dir/name"; freed with qkv_free. NULL when memory is out. */
char *qkv_path_join(qkv_context *ctx, const char *dir, const char *name);
const char *qkv_path_name(const char *path); /* what follows the last '/' */

QKV_END_DECLS
#endif
