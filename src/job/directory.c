/* directory.c - the directory that a run writes into.
 *
 * train/job marks it as a run's: it is the first file there, so that a run that was killed before
 * its first checkpoint is told from a directory that holds something else. */
#include "job/directory.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/run_data.h"

#define MARK "train/job"
#define CHECKPOINT "train/state.safetensors"

static bool has(qkv_context *ctx, const char *path, const char *name)
{
    char *file = qkv_path_join(ctx, path, name);
    bool exists = file && qkv_file_exists(file);
    qkv_free(ctx, file);
    return exists;
}

bool qkv__run_dir_has_checkpoint(qkv_context *ctx, const char *path)
{
    return has(ctx, path, CHECKPOINT);
}

qkv_status qkv__run_dir_check(qkv_context *ctx, const char *path, bool resume)
{
    qkv_names names = {0};
    if (!qkv_dir_exists(path))
        return QKV_OK;
    qkv_status status = qkv_dir_list(&names, ctx, path);
    bool empty = !names.count;
    qkv_names_free(&names);
    if (status || empty)
        return status;
    if (!resume)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s is not empty: give --resume to go on there, or "
                         "another --out", path);
    status = qkv__run_data_readable(ctx, path, "start a new run; --init with this one's directory "
                                               "keeps the weights");
    if (status)
        return status;
    if (!has(ctx, path, CHECKPOINT) && !has(ctx, path, MARK))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s holds something else than a training run: give "
                         "another --out", path);
    return QKV_OK;
}

/* Adds what is in the folder path/under and, to that depth, in those below it; parents first. */
static qkv_status collect(qkv_names *out, const char *path, const char *under, int depth)
{
    qkv_context *ctx = out->ctx;
    qkv_names here = {0};
    char *folder = qkv_path_join(ctx, path, under);
    qkv_status status = folder ? qkv_dir_list(&here, ctx, folder) : QKV_E_MEMORY;
    for (size_t i = 0; i < here.count && !status; i++) {
        char *name = *under ? qkv_path_join(ctx, under, here.names[i])
                            : qkv_strdup(ctx, here.names[i]);
        char *full = name ? qkv_path_join(ctx, path, name) : NULL;
        status = full ? qkv__names_add(out, name) : QKV_E_MEMORY;
        if (!status && depth && qkv_dir_exists(full))
            status = collect(out, path, name, depth - 1);
        qkv_free(ctx, full);
        qkv_free(ctx, name);
    }
    qkv_names_free(&here);
    qkv_free(ctx, folder);
    return status;
}

enum { DEPTH = 3 }; /* folders in folders that a run makes, at most */

qkv_status qkv__run_dir_open(qkv__run_dir *d, qkv_context *ctx, const char *path)
{
    *d = (qkv__run_dir){.ctx = ctx, .path = path, .existed = qkv_dir_exists(path), .lock = -1,
                        .before.ctx = ctx};
    qkv_status status = d->existed ? collect(&d->before, path, "", DEPTH) : QKV_OK;
    char *folder = qkv_path_join(ctx, path, "train"), *mark = qkv_path_join(ctx, path, MARK);
    if (!status)
        status = folder && mark ? qkv_dir_create(ctx, folder) : QKV_E_MEMORY;
    if (!status)
        status = qkv__dir_lock(&d->lock, ctx, folder);
    if (!status && !qkv_file_exists(mark))
        status = qkv_file_write(ctx, mark, "qkv\n", 4);
    qkv_free(ctx, folder);
    qkv_free(ctx, mark);
    if (status)
        qkv__run_dir_close(d);
    return status;
}

void qkv__run_dir_close(qkv__run_dir *d)
{
    if (!d->ctx)
        return;
    qkv__dir_unlock(d->lock);
    qkv_names_free(&d->before);
    *d = (qkv__run_dir){0};
}

static bool among(const qkv_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0)
            return true;
    return false;
}

void qkv__run_dir_undo(qkv__run_dir *d)
{
    qkv_names now = {.ctx = d->ctx};
    (void)collect(&now, d->path, "", DEPTH);
    for (size_t i = now.count; i-- > 0;) { /* what lies in a folder before the folder */
        char *path = qkv_path_join(d->ctx, d->path, now.names[i]);
        if (path && !among(&d->before, now.names[i]))
            (void)remove(path);
        qkv_free(d->ctx, path);
    }
    if (!d->existed)
        (void)remove(d->path);
    qkv_names_free(&now);
}
