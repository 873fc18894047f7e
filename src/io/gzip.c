/* gzip.c - gzip files through zlib. */
#include "io/gzip.h"

#include <limits.h>

bool qkv__gzip_begins(const uint8_t *data, size_t size)
{
    return size > 2 && data[0] == 0x1f && data[1] == 0x8b;
}

#ifdef QKV_HAVE_IMAGES
#include <zlib.h>

static void *on_alloc(void *ctx, unsigned n, unsigned size)
{
    return qkv_calloc(ctx, n, size);
}

static void gzip_on_free(void *ctx, void *p) { qkv_free(ctx, p); }

static unsigned gzip_at_most(size_t n) { return n < UINT_MAX ? (unsigned)n : UINT_MAX; }

/* Over the ends of members: up to the end of the file, of which z has not been given `left`, or
 * until there is no more room. A code of zlib's, Z_STREAM_END when all is well. */
static int inflate_all(z_stream *z, size_t left, uint8_t *out, size_t room, size_t *n)
{
    int code = Z_OK;
    while (*n < room) {
        if (!z->avail_in) {
            z->avail_in = gzip_at_most(left);
            left -= z->avail_in;
        }
        if (code == Z_STREAM_END && !z->avail_in)
            return code;
        if (code == Z_STREAM_END && inflateReset(z) != Z_OK)
            return Z_STREAM_ERROR;
        z->next_out = out + *n;
        z->avail_out = gzip_at_most(room - *n);
        code = inflate(z, Z_NO_FLUSH);
        *n = (size_t)(z->next_out - out);
        if (code != Z_OK && code != Z_STREAM_END)
            return code;
    }
    return Z_STREAM_END;
}

qkv_status qkv__gunzip(qkv_context *ctx, const char *name, const uint8_t *data, size_t size,
                       uint8_t *out, size_t room, size_t *n)
{
    enum { GZIP_ALONE = 15 + 16 };
    z_stream z = {.zalloc = on_alloc, .zfree = gzip_on_free, .opaque = ctx,
                  .next_in = (uint8_t *)(uintptr_t)data}; /* zlib reads it only */
    *n = 0;
    if (inflateInit2(&z, GZIP_ALONE) != Z_OK)
        return QKV_E_MEMORY;
    int code = inflate_all(&z, size, out, room, n);
    inflateEnd(&z);
    if (code == Z_STREAM_END)
        return QKV_OK;
    return qkv_fail(ctx, code == Z_MEM_ERROR ? QKV_E_MEMORY : QKV_E_FORMAT,
                    "%s: the gzip data are damaged or cut short", name);
}

#else

qkv_status qkv__gunzip(qkv_context *ctx, const char *name, const uint8_t *data, size_t size,
                       uint8_t *out, size_t room, size_t *n)
{
    (void)data;
    (void)size;
    (void)out;
    (void)room;
    *n = 0;
    return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: this build reads no gzip files", name);
}
#endif
