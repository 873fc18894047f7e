/* mirror.h - a run's directory on the disks of all ranks. */
#ifndef QKV_SRC_JOB_MIRROR_H
#define QKV_SRC_JOB_MIRROR_H

#include "io/file.h"

/* After rank 0 has prepared the directory: ranks that do not see it, because their machine has
 * another disk, get a copy of what reading the data takes (no weights, no checkpoint) under the
 * same path. It replaces files of an earlier run; a directory with anything else in it is an error.
 * Every rank calls it. */
qkv_status qkv__run_mirror(qkv_context *ctx, const char *path);

#endif
