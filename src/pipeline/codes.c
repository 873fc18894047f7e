/* codes.c - between an image and a grid of codes. */
#include "pipeline/codec.h"
#include "pipeline/image.h"

#include "qkv/codes.h"

qkv_status qkv_code_grid_load(qkv_code_grid *out, qkv_context *ctx, const char *path)
{
    *out = (qkv_code_grid){.ctx = ctx};
    qkv_status status = qkv__codes_load(&out->codes, ctx, path, &out->rows, &out->columns);
    if (!status) {
        out->name = qkv_strdup(ctx, path);
        status = out->name ? QKV_OK : QKV_E_MEMORY;
    }
    if (status)
        qkv_code_grid_free(out);
    return status;
}

qkv_status qkv_code_grid_save(const qkv_code_grid *g, const char *path)
{
    return qkv__codes_save(g->ctx, path, g->codes, g->rows, g->columns);
}

void qkv_code_grid_free(qkv_code_grid *g)
{
    if (g->ctx) {
        qkv_free(g->ctx, g->codes);
        qkv_free(g->ctx, g->name);
    }
    *g = (qkv_code_grid){0};
}

/* The image, without what does not fill a whole code at the edges. */
static qkv_status read_one_image(const qkv_pipeline *p, const qkv_image_source *in, qkv_image *out)
{
    size_t factor = qkv_vqgan_factor(p->model);
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_status status = qkv__image_load(out, p->ctx, in);
    if (status)
        return status;
    o.height = out->height / factor * factor;
    o.width = out->width / factor * factor;
    o.channels = qkv__codec_config(p->model)->colors;
    o.fit = QKV_FIT_CROP;
    if (!o.height || !o.width)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: %zu x %zu pixels; %zu x %zu at least expected",
                        in->path ? in->path : "the image", out->width, out->height, factor,
                        factor);
    return qkv_image_fit(out, p->ctx, &o);
}

qkv_status qkv_pipeline_encode(qkv_pipeline *p, const qkv_image_source *in, qkv_code_grid *out)
{
    qkv_image image = {0};
    *out = (qkv_code_grid){.ctx = p->ctx};
    qkv_status status = qkv__codec_check(p->model, p->dir);
    if (!status)
        status = read_one_image(p, in, &image);
    if (!status) {
        out->rows = image.height / qkv_vqgan_factor(p->model);
        out->columns = image.width / qkv_vqgan_factor(p->model);
        out->codes = qkv_calloc(p->ctx, out->rows, out->columns * sizeof *out->codes);
        status = out->codes ? QKV_OK : QKV_E_MEMORY;
    }
    if (!status)
        status = qkv_images_encode(p->model, p->tape, image.data, 1, image.height,
                                   image.width, out->codes);
    qkv_image_free(&image, p->ctx);
    if (status)
        qkv_code_grid_free(out);
    return status;
}

qkv_status qkv_pipeline_decode(qkv_pipeline *p, const qkv_code_grid *in, qkv_image *out)
{
    const char *name = in->name ? in->name : "the codes";
    *out = (qkv_image){0};
    qkv_status status = qkv__codec_check(p->model, p->dir);
    if (status)
        return status;
    size_t factor = qkv_vqgan_factor(p->model);
    status = qkv__codec_size(p->model, p->ctx, name, in->rows, in->columns);
    if (!status)
        status = qkv_image_create(out, p->ctx, in->columns * factor, in->rows * factor,
                                  qkv__codec_config(p->model)->colors);
    if (status)
        return status;
    status = qkv_images_decode(p->model, p->tape, in->codes, 1, in->rows, in->columns, out->data);
    if (status) {
        qkv_image_free(out, p->ctx);
        return qkv_fail_prefix(p->ctx, name);
    }
    return QKV_OK;
}
