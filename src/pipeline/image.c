/* image.c - single images, from a file or from memory. */
#include "pipeline/image.h"

#include <stdlib.h>
#include <string.h>

#include "qkv/image_file.h"
#include "task/vectors.h"

enum { RGB = 3 };

qkv_status qkv__image_load(qkv_image *out, qkv_context *ctx, const qkv_image_source *in)
{
    *out = (qkv_image){0};
    if (in->path)
        return qkv_image_read(out, ctx, in->path, NULL);
    const qkv_image *image = in->image;
    if (!image || !image->data || !image->width || !image->height)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "an image has neither a path nor pixels");
    qkv_status status = qkv_image_create(out, ctx, image->width, image->height, image->channels);
    if (status)
        return status;
    memcpy(out->data, image->data, image->width * image->height * image->channels);
    return qkv_image_channels(out, ctx, RGB);
}

qkv_status qkv__image_fit(qkv_image *out, qkv_context *ctx, const qkv_image_source *in,
                          size_t height, size_t width, size_t channels)
{
    qkv_pixels_options o = qkv_pixels_defaults();
    o.height = height;
    o.width = width;
    o.channels = channels;
    o.fit = QKV_FIT_CROP;
    qkv_status status = qkv__image_load(out, ctx, in);
    return status ? status : qkv_image_fit(out, ctx, &o);
}

bool qkv__image_place(const char **text, size_t *x, size_t *y)
{
    size_t *const out[] = {x, y};
    for (int i = 0; i < 2; i++) {
        char *end;
        if (**text < '0' || **text > '9')
            return false;
        *out[i] = (size_t)strtoull(*text, &end, 10);
        *text = end;
        if (i == 0 && *(*text)++ != ',')
            return false;
    }
    return true;
}

const qkv_image_format *qkv__image_format_of(qkv_model *m)
{
    const qkv_patches_config *c = qkv__vector_trunk(m);
    const qkv_image_format f = {.height = c->image, .width = c->image,
                                .channels = c->channels, .resample = 2,
                                .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (!qkv_model_image_format(m))
        qkv_model_set_image_format(m, &f);
    return qkv_model_image_format(m);
}
