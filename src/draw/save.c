/* save.c - a drawing as a file, of the kind that its name ends in. */
#include <string.h>

#include "base/base.h"
#include "qkv/draw.h"
#include "qkv/file.h"
#include "qkv/image_file.h"
#include "draw/drawing.h"

static qkv_status save_svg(const qkv_drawing *d, const char *path)
{
    qkv_str text;
    qkv_str_init(&text, d->ctx);
    qkv_status status = qkv_drawing_svg(d, &text, true, NULL);
    if (!status)
        status = qkv_file_write(d->ctx, path, text.data, text.len);
    qkv_str_free(&text);
    return status;
}

static qkv_status save_png(const qkv_drawing *d, const char *path)
{
    qkv_image image;
    qkv_status status = qkv_drawing_image(d, &image, &(qkv_raster_options){.scale = 2.0});
    if (!status)
        status = qkv_image_write(&image, d->ctx, path);
    qkv_image_free(&image, d->ctx);
    return status;
}

qkv_status qkv_drawing_save(const qkv_drawing *d, const char *path)
{
    const char *dot = strrchr(qkv_path_name(path), '.');
    if (dot && strcmp(dot, ".svg") == 0)
        return save_svg(d, path);
    if (dot && strcmp(dot, ".png") == 0)
        return save_png(d, path);
    return qkv_fail(d->ctx, QKV_E_ARGUMENT, "%s: a name that ends in .svg or .png expected", path);
}
