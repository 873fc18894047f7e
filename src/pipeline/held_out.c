/* held_out.c - what training held out, and the images that stand for it. */
#include "pipeline/held_out.h"

#include "io/file.h"
#include "pipeline/image_set.h"
#include "pipeline/series.h"

qkv_status qkv__evaluate_held_out(const qkv_pipeline *p, const char *name, qkv_path *path)
{
    *path = qkv_path_in(p->dir, name);
    if (qkv_file_exists(path->text))
        return QKV_OK;
    qkv_status status = qkv__run_data_readable(p->ctx, p->dir, "name the data to evaluate on");
    return status ? status
                  : qkv_fail(p->ctx, QKV_E_IO, "%s holds no held-out data: name some", p->dir);
}

qkv_status qkv__evaluate_kept(const qkv_pipeline *p, const char *name, qkv_pixels **out)
{
    qkv_path path;
    qkv_status status = qkv__evaluate_held_out(p, name, &path);
    return status ? status : qkv_pixels_open(out, p->ctx, path.text);
}

qkv_status qkv__evaluate_squares(const qkv_pipeline *p, const char *path, size_t side,
                                 size_t channels, qkv_pixels **out)
{
    const qkv_image_format f = qkv__images_square(side, channels);
    return path ? qkv__images_load(out, p->ctx, path, &f)
                : qkv__evaluate_kept(p, QKV__VALID_IMAGES, out);
}

qkv_status qkv__evaluate_rows(const qkv_pipeline *p, const char *file, qkv_array *out)
{
    qkv_path path;
    *out = (qkv_array){0};
    if (file)
        return qkv__series_load(out, p->model, file);
    qkv_status status = qkv__evaluate_held_out(p, QKV__VALID_ARRAY, &path);
    return status ? status : qkv__series_open(out, p->ctx, p->dir, QKV__VALID_ARRAY, true);
}
