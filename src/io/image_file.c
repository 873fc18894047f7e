/* image_file.c - images by their content: which kind a file is, reading, writing. */
#include "io/image_file.h"

#include <string.h>

#include "io/file.h"
#include "io/image_codecs.h"

static const struct {
    const char *magic;
    size_t size;
    qkv_status (*decode)(const qkv__image_bytes *p, qkv_image *out);
} kinds[] = {
    {"\x89PNG\r\n\x1a\n", 8, qkv__png_decode},
    {"\xff\xd8\xff", 3, qkv__jpeg_decode},
};

/* Of the file; its number in kinds, or how many there are. */
static size_t image_file_kind_of(const uint8_t *data, size_t size)
{
    size_t kind = 0, count = sizeof kinds / sizeof *kinds;
    while (kind < count &&
           (size < kinds[kind].size || memcmp(data, kinds[kind].magic, kinds[kind].size) != 0))
        kind++;
    return kind;
}

bool qkv__image_begins(const uint8_t *data, size_t size)
{
    return image_file_kind_of(data, size) < sizeof kinds / sizeof *kinds;
}

qkv_status qkv_image_decode(qkv_image *out, qkv_context *ctx, const void *data, size_t size,
                            const char *name, const qkv_image_options *options)
{
    qkv__image_bytes p = {ctx, name, data, size, options ? *options : qkv_image_defaults()};
    size_t kind = image_file_kind_of(data, size);
    *out = (qkv_image){0};
    if (!qkv__image_begins(data, size))
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: neither a PNG nor a JPEG image", name);
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

static bool image_file_put(void *user, const void *data, size_t size)
{
    return qkv__writer_put(user, data, size) == QKV_OK;
}

qkv_status qkv_image_write(const qkv_image *image, qkv_context *ctx, const char *path)
{
    qkv__writer *w;
    qkv_status status = qkv__writer_open(&w, ctx, path);
    if (status)
        return status;
    status = qkv__png_encode(image, ctx, image_file_put, w);
    if (status)
        qkv__writer_abandon(w);
    return status ? status : qkv__writer_close(w);
}
