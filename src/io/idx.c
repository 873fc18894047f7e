/* idx.c - the idx format: 0, 0, a type, the number of dimensions; each dimension in 4 bytes, the
 * most significant first; then the numbers. */
#include "io/idx.h"

#include "io/gzip.h"

enum { BYTES = 8 }; /* the type */
static const size_t LIMIT = (size_t)1 << 34; /* bytes, uncompressed */

static qkv_status read_header(qkv__idx *x, qkv_context *ctx, const char *path, const uint8_t *data,
                              size_t size)
{
    size_t count = 1;
    if (size < 4 || data[0] || data[1])
        return qkv__fail(ctx, QKV_E_FORMAT, "%s: not an idx file, or cut short", path);
    if (data[2] != BYTES || data[3] < 1 || data[3] > QKV__IDX_DIMS)
        return qkv__fail(ctx, QKV_E_UNSUPPORTED, "%s: bytes (type 8) in 1 to %d dimensions "
                         "expected, found type %d in %d", path, QKV__IDX_DIMS, data[2], data[3]);
    x->ndim = data[3];
    if (size < 4 + 4 * x->ndim)
        return qkv__fail(ctx, QKV_E_FORMAT, "%s: cut short within its sizes", path);
    bool fits = true;
    for (size_t i = 0; i < x->ndim; i++) {
        const uint8_t *p = data + 4 + 4 * i;
        x->shape[i] = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        fits = fits && (x->shape[i] || i == 0) && qkv__mul_size(count, x->shape[i], &count);
    }
    x->data = data + 4 + 4 * x->ndim;
    if (!fits || count != size - 4 - 4 * x->ndim)
        return qkv__fail(ctx, QKV_E_FORMAT, "%s: its sizes do not make the %zu bytes that follow",
                         path, size - 4 - 4 * x->ndim);
    return QKV_OK;
}

qkv_status qkv__idx_open(qkv__idx *x, qkv_context *ctx, const char *path)
{
    *x = (qkv__idx){0};
    qkv_status status = qkv__map_open(&x->map, ctx, path);
    if (status)
        return status;
    const uint8_t *data = x->map.data;
    size_t size = x->map.size;
    if (qkv__gzip_begins(data, size)) {
        status = qkv__gunzip(ctx, path, data, size, LIMIT, &x->owned, &size);
        data = x->owned;
    }
    if (!status)
        status = read_header(x, ctx, path, data, size);
    if (status)
        qkv__idx_close(x);
    return status;
}

void qkv__idx_close(qkv__idx *x)
{
    if (x->map.ctx)
        qkv__free(x->map.ctx, x->owned);
    qkv__map_close(&x->map);
    *x = (qkv__idx){0};
}
