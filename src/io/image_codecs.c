/* image_codecs.c - what the kinds of image files share. */
#include "io/image_codecs.h"

enum { MOST_SIDE = 1 << 16 };

qkv_status qkv__image_create(const qkv__image_bytes *p, qkv_image *out, size_t width, size_t height,
                             size_t channels)
{
    if (!width || !height || width > MOST_SIDE || height > MOST_SIDE ||
        width > p->o.most / height)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: at most %d pixels a side and %zu in all "
                         "expected, found %zu x %zu", p->name, (int)MOST_SIDE, p->o.most, width,
                         height);
    return qkv_image_create(out, p->ctx, width, height, channels);
}
