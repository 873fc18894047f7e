/* file.h - reading and writing whole files, folders, paths.
 * Layer: io
 *
 * The message of a failure names the file and the reason. Paths are bytes and are not expanded.
 * Memory comes from the context. */
#ifndef QKV_FILE_H
#define QKV_FILE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Reads a whole file, or a pipe to its end. A 0 byte follows the data; *size does not count it.
 * limit: maximum bytes, more is an error; 0: no limit. Free *data with qkv_free. On failure *data
 * is NULL. */
qkv_status qkv_file_read(qkv_context *ctx, const char *path, size_t limit, char **data,
                         size_t *size);

/* Writes the file atomically: writes a temporary file in the same folder, flushes it to disk and
 * renames it to path. Writes directly to devices and pipes. */
qkv_status qkv_file_write(qkv_context *ctx, const char *path, const void *data, size_t size);

bool qkv_file_exists(const char *path); /* path is a file or anything else that can be read */
bool qkv_dir_exists(const char *path);

/* Creates the folder and its parents. An existing folder is no error. */
qkv_status qkv_dir_create(qkv_context *ctx, const char *path);

/* Names in a folder, without "." and "..", sorted by byte value. Free with qkv_names_free. */
typedef struct {
    qkv_context *ctx;
    char **names;
    size_t count, capacity;
} qkv_names;
qkv_status qkv_dir_list(qkv_names *out, qkv_context *ctx, const char *path);
void qkv_names_free(qkv_names *names); /* *names may be zeroed */

/* "dir/name" by value: qkv_path_in(dir, name).text. A path longer than QKV_PATH_BYTES is cut, and
 * the system refuses what is left. */
enum { QKV_PATH_BYTES = 4352 }; /* Linux takes up to 4096 */
typedef struct {
    char text[QKV_PATH_BYTES];
} qkv_path;
qkv_path qkv_path_in(const char *dir, const char *name);
qkv_path qkv_path_beside(const char *file, const char *name); /* in the file's folder */
/* "dir/name". Free with qkv_free. NULL if out of memory. */
char *qkv_path_join(qkv_context *ctx, const char *dir, const char *name);
const char *qkv_path_name(const char *path); /* the part after the last '/' */

QKV_END_DECLS
#endif
