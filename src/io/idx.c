/* idx.c - the idx format: 0, 0, a type, the number of dimensions; each dimension in 4 bytes, the
 * most significant first; then the numbers. */
#include "io/idx.h"

#include <stdio.h>

#include "io/gzip.h"

enum { BYTES = 8, HEADER = 4 + 4 * QKV__IDX_DIMS, WORDS = 64 }; /* the type; the longest header */
static const size_t LIMIT = (size_t)1 << 31; /* bytes that a gzipped one may unfold to */

bool qkv__idx_begins(const uint8_t *data, size_t size)
{
    return qkv__gzip_begins(data, size) || (size >= 2 && data[0] == 0 && data[1] == 0);
}

/* The sizes, of a file that begins with `size` bytes of data; *bytes: of all of it. */
static qkv_status read_header(qkv__idx *x, qkv_context *ctx, const char *path, const uint8_t *data,
                              size_t size, bool zipped, size_t *bytes)
{
    *bytes = 1;
    if (size < 4 || data[0] || data[1])
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: not an idx file, or cut short%s", path,
                        zipped ? " (an archive is read when it is a plain tar)" : "");
    if (data[2] != BYTES || data[3] < 1 || data[3] > QKV__IDX_DIMS)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: bytes (type 8) in 1 to %d dimensions "
                        "expected, found type %d in %d", path, QKV__IDX_DIMS, data[2], data[3]);
    x->ndim = data[3];
    if (size < 4 + 4 * x->ndim)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: cut short within its sizes", path);
    bool fits = true;
    for (size_t i = 0; i < x->ndim; i++) {
        const uint8_t *p = data + 4 + 4 * i;
        x->shape[i] = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        fits = fits && (x->shape[i] || i == 0) && qkv__mul_size(*bytes, x->shape[i], bytes);
    }
    return fits && qkv__add_size(*bytes, 4 + 4 * x->ndim, bytes)
               ? QKV_OK
               : qkv_fail(ctx, QKV_E_FORMAT, "%s: one of its sizes is 0, or they are too large",
                          path);
}

/* found: bytes that there are, at most one more than expected when they were gzipped. */
static qkv_status check_size(const qkv__idx *x, qkv_context *ctx, const char *path,
                             size_t expected, size_t found)
{
    char sizes[WORDS] = "";
    if (found == expected)
        return QKV_OK;
    for (size_t i = 0, n = 0; i < x->ndim; i++)
        n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%zu", i ? " x " : "", x->shape[i]);
    return qkv_fail(ctx, QKV_E_FORMAT, "%s: %zu bytes expected, for sizes of %s, found %s%zu",
                    path, expected, sizes, x->owned && found > expected ? "at least " : "",
                    found);
}

/* Unfolds what the header says there is, and at most one byte more. */
static qkv_status unfold(qkv__idx *x, qkv_context *ctx, const char *path)
{
    uint8_t head[HEADER];
    size_t size, bytes;
    qkv_status status =
        qkv__gunzip(ctx, path, x->map.data, x->map.size, head, sizeof head, &size);
    if (!status)
        status = read_header(x, ctx, path, head, size, true, &bytes);
    if (!status && bytes > LIMIT)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: at most %zu bytes expected in a gzip file, "
                          "found %zu; gunzip it first", path, LIMIT, bytes);
    if (status)
        return status;
    x->owned = qkv_malloc(ctx, bytes + 1);
    if (!x->owned)
        return QKV_E_MEMORY;
    status = qkv__gunzip(ctx, path, x->map.data, x->map.size, x->owned, bytes + 1, &size);
    return status ? status : check_size(x, ctx, path, bytes, size);
}

qkv_status qkv__idx_open(qkv__idx *x, qkv_context *ctx, const char *path)
{
    size_t bytes;
    *x = (qkv__idx){0};
    qkv_status status = qkv__map_file(&x->map, ctx, path);
    if (status)
        return status;
    if (qkv__gzip_begins(x->map.data, x->map.size)) {
        status = unfold(x, ctx, path);
    } else {
        status = read_header(x, ctx, path, x->map.data, x->map.size, false, &bytes);
        if (!status)
            status = check_size(x, ctx, path, bytes, x->map.size);
    }
    x->data = (x->owned ? x->owned : x->map.data) + 4 + 4 * x->ndim;
    if (status)
        qkv__idx_close(x);
    return status;
}

void qkv__idx_close(qkv__idx *x)
{
    if (x->map.ctx)
        qkv_free(x->map.ctx, x->owned);
    qkv__map_close(&x->map);
    *x = (qkv__idx){0};
}
