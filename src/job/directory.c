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

static bool directory_has(const char *path, const char *name)
{
    return qkv_file_exists(qkv_path_in(path, name).text);
}

bool qkv__run_dir_has_checkpoint(const char *path)
{
    return directory_has(path, CHECKPOINT);
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
    if (!directory_has(path, CHECKPOINT) && !directory_has(path, MARK))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s holds something else than a training run: give "
                         "another --out", path);
    return QKV_OK;
}

/* Adds what is in the folder path/under and, to that depth, in those below it; parents first. */
static qkv_status directory_collect(qkv_names *out, const char *path, const char *under, int depth)
{
    qkv_names here = {0};
    qkv_status status = qkv_dir_list(&here, out->ctx, qkv_path_in(path, under).text);
    for (size_t i = 0; i < here.count && !status; i++) {
        const qkv_path name = qkv_path_in(under, here.names[i]);
        status = qkv__names_add(out, name.text);
        if (!status && depth && qkv_dir_exists(qkv_path_in(path, name.text).text))
            status = directory_collect(out, path, name.text, depth - 1);
    }
    qkv_names_free(&here);
    return status;
}

enum { DEPTH = 3 }; /* folders in folders that a run makes, at most */

qkv_status qkv__run_dir_open(qkv__run_dir *d, qkv_context *ctx, const char *path)
{
    *d = (qkv__run_dir){.ctx = ctx, .path = path, .existed = qkv_dir_exists(path), .lock = -1,
                        .before.ctx = ctx};
    qkv_status status = d->existed ? directory_collect(&d->before, path, "", DEPTH) : QKV_OK;
    const qkv_path folder = qkv_path_in(path, "train"), mark = qkv_path_in(path, MARK);
    if (!status)
        status = qkv_dir_create(ctx, folder.text);
    if (!status)
        status = qkv__dir_lock(&d->lock, ctx, folder.text);
    if (!status && !qkv_file_exists(mark.text))
        status = qkv_file_write(ctx, mark.text, "qkv\n", 4);
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

static bool directory_among(const qkv_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0)
            return true;
    return false;
}

qkv_status qkv__run_dir_list(qkv_names *names, const char *path)
{
    return directory_collect(names, path, "", DEPTH);
}

void qkv__run_dir_undo(qkv__run_dir *d)
{
    qkv_names now = {.ctx = d->ctx};
    (void)directory_collect(&now, d->path, "", DEPTH);
    for (size_t i = now.count; i-- > 0;) { /* what lies in a folder before the folder */
        if (!directory_among(&d->before, now.names[i]))
            (void)remove(qkv_path_in(d->path, now.names[i]).text);
    }
    if (!d->existed)
        (void)remove(d->path);
    qkv_names_free(&now);
}
