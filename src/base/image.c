/* image.c - images in memory: making them, channels. */
#include "qkv/image.h"

#include <string.h>

#include "base/base.h"

enum { MOST_PIXELS = 1 << 26 };

qkv_image_options qkv_image_defaults(void)
{
    return (qkv_image_options){.channels = 3, .background = {255, 255, 255}, .most = MOST_PIXELS};
}

qkv_status qkv_image_create(qkv_image *out, qkv_context *ctx, size_t width, size_t height,
                            size_t channels)
{
    size_t bytes;
    *out = (qkv_image){0};
    if (!width || !height || (channels != 1 && channels != 3) ||
        !qkv__mul_size(width, height, &bytes) || !qkv__mul_size(bytes, channels, &bytes))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "there is no image of %zu x %zu pixels with %zu "
                         "channels", width, height, channels);
    uint8_t *data = qkv_malloc(ctx, bytes);
    if (!data)
        return QKV_E_MEMORY;
    *out = (qkv_image){width, height, channels, data};
    return QKV_OK;
}

void qkv_image_free(qkv_image *image, qkv_context *ctx)
{
    qkv_free(ctx, image->data);
    *image = (qkv_image){0};
}

/* In place: what follows is smaller. */
static void to_grey(qkv_image *image)
{
    size_t n = image->width * image->height;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = image->data + 3 * i;
        /* 16 bits of fraction: the weights are ITU-R BT.601's, and add up to 1. */
        image->data[i] = (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
    }
    image->channels = 1;
}

static qkv_status to_rgb(qkv_image *image, qkv_context *ctx)
{
    qkv_image rgb;
    qkv_status status = qkv_image_create(&rgb, ctx, image->width, image->height, 3);
    if (status)
        return status;
    for (size_t i = 0; i < image->width * image->height; i++)
        memset(rgb.data + 3 * i, image->data[i], 3);
    qkv_image_free(image, ctx);
    *image = rgb;
    return QKV_OK;
}

qkv_status qkv_image_channels(qkv_image *image, qkv_context *ctx, size_t channels)
{
    qkv_status status = QKV_OK;
    if (channels == 1 && image->channels == 3)
        to_grey(image);
    else if (channels == 3 && image->channels == 1)
        status = to_rgb(image, ctx);
    if (status)
        qkv_image_free(image, ctx);
    return status;
}
