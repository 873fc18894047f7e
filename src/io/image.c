/* image.c - pictures by their content: which kind a file is, memory, channels, writing. */
#include "io/image.h"

#include <string.h>

#include "io/file.h"

enum { MOST_SIDE = 1 << 16, MOST_PIXELS = 1 << 26 };

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
        return qkv_fail(ctx, QKV_E_ARGUMENT, "there is no picture of %zu x %zu pixels with %zu "
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

qkv_status qkv__picture_create(const qkv__picture *p, qkv_image *out, size_t width, size_t height,
                               size_t channels)
{
    if (!width || !height || width > MOST_SIDE || height > MOST_SIDE ||
        width > p->o.most / height)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: at most %d pixels a side and %zu in all "
                        "expected, found %zu x %zu", p->name, (int)MOST_SIDE, p->o.most, width,
                        height);
    return qkv_image_create(out, p->ctx, width, height, channels);
}

/* ---- channels ----------------------------------------------------------------------------- */

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

/* ---- files -------------------------------------------------------------------------------- */

static const struct {
    const char *magic;
    size_t size;
    qkv_status (*decode)(const qkv__picture *p, qkv_image *out);
} kinds[] = {
    {"\x89PNG\r\n\x1a\n", 8, qkv__png_decode},
    {"\xff\xd8\xff", 3, qkv__jpeg_decode},
};

/* Of the file; its number in kinds, or how many there are. */
static size_t kind_of(const uint8_t *data, size_t size)
{
    size_t kind = 0, count = sizeof kinds / sizeof *kinds;
    while (kind < count &&
           (size < kinds[kind].size || memcmp(data, kinds[kind].magic, kinds[kind].size) != 0))
        kind++;
    return kind;
}

bool qkv__image_begins(const uint8_t *data, size_t size)
{
    return kind_of(data, size) < sizeof kinds / sizeof *kinds;
}

qkv_status qkv_image_decode(qkv_image *out, qkv_context *ctx, const void *data, size_t size,
                            const char *name, const qkv_image_options *options)
{
    qkv__picture p = {ctx, name, data, size, options ? *options : qkv_image_defaults()};
    size_t kind = kind_of(data, size);
    *out = (qkv_image){0};
    if (!qkv__image_begins(data, size))
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: neither a PNG nor a JPEG picture", name);
    qkv_status status = kinds[kind].decode(&p, out);
    if (!status)
        return qkv_image_channels(out, ctx, p.o.channels);
    qkv_image_free(out, ctx);
    return status;
}

qkv_status qkv_image_read(qkv_image *out, qkv_context *ctx, const char *path,
                          const qkv_image_options *options)
{
    qkv__map m = {0};
    *out = (qkv_image){0};
    qkv_status status = qkv__map_file(&m, ctx, path);
    if (!status)
        status = qkv_image_decode(out, ctx, m.data, m.size, path, options);
    qkv__map_close(&m);
    return status;
}

static bool put(void *user, const void *data, size_t size)
{
    return qkv__writer_put(user, data, size) == QKV_OK;
}

qkv_status qkv_image_write(const qkv_image *image, qkv_context *ctx, const char *path)
{
    qkv__writer *w;
    qkv_status status = qkv__writer_open(&w, ctx, path);
    if (status)
        return status;
    status = qkv__png_encode(image, ctx, put, w);
    if (status)
        qkv__writer_abandon(w);
    return status ? status : qkv__writer_close(w);
}
