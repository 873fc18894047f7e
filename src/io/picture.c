/* picture.c - what the kinds of picture files share. */
#include "io/picture.h"

enum { MOST_SIDE = 1 << 16 };

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
