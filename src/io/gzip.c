/* gzip.c - gzip files through zlib. */
#include "io/gzip.h"

#include <limits.h>
#include <string.h>

bool qkv__gzip_begins(const uint8_t *data, size_t size)
{
    return size > 2 && data[0] == 0x1f && data[1] == 0x8b;
}

#ifdef QKV_HAVE_IMAGES
#include <zlib.h>

typedef struct {
    qkv_context *ctx;
    const char *name;
    size_t limit;
    uint8_t *data;
    size_t size, room;
    z_stream z;
    size_t left; /* of the file, that z has not been given */
} reader;

static void *on_alloc(void *ctx, unsigned n, unsigned size)
{
    return qkv__calloc(ctx, n, size);
}

static void on_free(void *ctx, void *p) { qkv__free(ctx, p); }

static qkv_status make_room(reader *r)
{
    if (r->size < r->room)
        return QKV_OK;
    size_t room = r->room ? 2 * r->room : (size_t)1 << 16;
    room = room > r->limit ? r->limit + 1 : room; /* one more shows that there is more */
    if (r->size > r->limit)
        return qkv__fail(r->ctx, QKV_E_FORMAT, "%s: more than %zu bytes, uncompressed", r->name,
                         r->limit);
    uint8_t *data = qkv__malloc(r->ctx, room);
    if (!data)
        return QKV_E_MEMORY;
    if (r->size)
        memcpy(data, r->data, r->size);
    qkv__free(r->ctx, r->data);
    r->data = data;
    r->room = room;
    return QKV_OK;
}

static unsigned at_most(size_t n) { return n < UINT_MAX ? (unsigned)n : UINT_MAX; }

/* Up to the end of the file, over the ends of members. */
static qkv_status inflate_all(reader *r)
{
    for (int code = Z_OK;;) {
        qkv_status status = make_room(r);
        if (status)
            return status;
        if (!r->z.avail_in) {
            r->z.avail_in = at_most(r->left);
            r->left -= r->z.avail_in;
        }
        if (code == Z_STREAM_END && !r->z.avail_in)
            return QKV_OK;
        if (code == Z_STREAM_END && inflateReset(&r->z) != Z_OK)
            return QKV_E_MEMORY;
        unsigned room = at_most(r->room - r->size);
        r->z.next_out = r->data + r->size;
        r->z.avail_out = room;
        code = inflate(&r->z, Z_NO_FLUSH);
        r->size += room - r->z.avail_out;
        if (code != Z_OK && code != Z_STREAM_END)
            return qkv__fail(r->ctx, code == Z_MEM_ERROR ? QKV_E_MEMORY : QKV_E_FORMAT,
                             "%s: the gzip data are damaged or cut short", r->name);
    }
}

qkv_status qkv__gunzip(qkv_context *ctx, const char *name, const uint8_t *data, size_t size,
                       size_t limit, uint8_t **out, size_t *out_size)
{
    enum { GZIP_ALONE = 15 + 16 };
    reader r = {.ctx = ctx, .name = name, .limit = limit, .left = size};
    r.z.zalloc = on_alloc;
    r.z.zfree = on_free;
    r.z.opaque = ctx;
    r.z.next_in = (uint8_t *)(uintptr_t)data; /* zlib reads it only */
    *out = NULL;
    *out_size = 0;
    if (inflateInit2(&r.z, GZIP_ALONE) != Z_OK)
        return QKV_E_MEMORY;
    qkv_status status = inflate_all(&r);
    inflateEnd(&r.z);
    if (!status && r.size > limit)
        status = qkv__fail(ctx, QKV_E_FORMAT, "%s: more than %zu bytes, uncompressed", name,
                           limit);
    if (status) {
        qkv__free(ctx, r.data);
        return status;
    }
    *out = r.data;
    *out_size = r.size;
    return QKV_OK;
}

#else

qkv_status qkv__gunzip(qkv_context *ctx, const char *name, const uint8_t *data, size_t size,
                       size_t limit, uint8_t **out, size_t *out_size)
{
    (void)data;
    (void)size;
    (void)limit;
    *out = NULL;
    *out_size = 0;
    return qkv__fail(ctx, QKV_E_UNSUPPORTED, "%s: this build reads no gzip files", name);
}
#endif
