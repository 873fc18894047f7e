/* held_out.c - what training held out. */
#include "base/base.h"
#include "eval/kinds.h"
#include "io/file.h"
#include "pipeline/run_data.h"

qkv_status eval_held_out(const eval *e, const char *name, char **path)
{
    qkv_context *ctx = e->c->ctx;
    char *folder = qkv_path_join(ctx, e->dir, "train");
    *path = folder ? qkv_path_join(ctx, folder, name) : NULL;
    qkv_free(ctx, folder);
    if (!*path)
        return QKV_E_MEMORY;
    if (qkv_file_exists(*path))
        return QKV_OK;
    qkv_status status = qkv__run_data_readable(ctx, e->dir, "name the data to evaluate on");
    return status ? status
                  : qkv_fail(ctx, QKV_E_IO, "%s holds no held-out data: name some", e->dir);
}

qkv_status eval_kept_pictures(const eval *e, const char *name, qkv_pixels **out)
{
    char *path = NULL;
    qkv_status status = eval_held_out(e, name, &path);
    if (!status)
        status = qkv_pixels_open(out, e->c->ctx, path);
    qkv_free(e->c->ctx, path);
    return status;
}
