/* directory.h - the directory that a run writes into: whose it is, and what is undone. */
#ifndef QKV_SRC_JOB_DIRECTORY_H
#define QKV_SRC_JOB_DIRECTORY_H

#include "io/file.h"

typedef struct {
    qkv_context *ctx; /* NULL: closed */
    const char *path;
    bool existed;
    int lock;
    qkv_names before; /* what was in it, by path from it */
} qkv__run_dir;

/* Is there a checkpoint in it? */
bool qkv__run_dir_has_checkpoint(const char *path);

/* An error for a directory with something in it, unless resume is set and that is a run. */
qkv_status qkv__run_dir_check(qkv_context *ctx, const char *path, bool resume);

/* Makes the directory and train/ in it, marked as a run's, and keeps other runs out until it is
 * closed. On failure nothing is to be undone. */
qkv_status qkv__run_dir_open(qkv__run_dir *d, qkv_context *ctx, const char *path);
void qkv__run_dir_close(qkv__run_dir *d); /* a zeroed or closed one is allowed */

/* Adds what is in the directory and in its folders, by path from it; parents first. names->ctx is
 * set. */
qkv_status qkv__run_dir_list(qkv_names *names, const char *path);

/* Removes all that was not there when it was opened. */
void qkv__run_dir_undo(qkv__run_dir *d);

#endif
