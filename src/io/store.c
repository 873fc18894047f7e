/* store.c - files written front to back, or kept in memory, and their trailers. */
#include "io/store.h"

#include <string.h>

qkv_status qkv__store_begin(qkv__store *s, qkv_context *ctx, const char *path)
{
    *s = (qkv__store){.ctx = ctx};
    qkv_str_init(&s->kept, ctx);
    if (!path)
        return QKV_OK;
    s->path = qkv_strdup(ctx, path);
    return s->path ? qkv__writer_open(&s->file, ctx, path) : QKV_E_MEMORY;
}

qkv_status qkv__store_put(qkv__store *s, const void *data, size_t size)
{
    s->size += size;
    if (s->file)
        return qkv__writer_put(s->file, data, size);
    qkv_str_add(&s->kept, data, size);
    return s->kept.failed ? QKV_E_MEMORY : QKV_OK;
}

qkv_status qkv__store_pad(qkv__store *s)
{
    static const char zeros[8] = {0};
    return qkv__store_put(s, zeros, (size_t)((8 - s->size % 8) % 8));
}

qkv_status qkv__store_finish(qkv__store *s, qkv__map *out)
{
    if (out)
        *out = (qkv__map){0};
    if (s->file) {
        qkv__writer *file = s->file;
        s->file = NULL;
        qkv_status status = qkv__writer_close(file);
        return status || !out ? status : qkv__map_open(out, s->ctx, s->path);
    }
    if (out) {
        *out = (qkv__map){.ctx = s->ctx, .data = (uint8_t *)s->kept.data, .size = s->kept.len};
        qkv_str_init(&s->kept, s->ctx);
    }
    return QKV_OK;
}

void qkv__store_abandon(qkv__store *s)
{
    qkv__writer_abandon(s->file);
    qkv_str_free(&s->kept);
    qkv_free(s->ctx, s->path);
}

const uint8_t *qkv__trailer_of(const qkv__map *m, const qkv__trailer *t, const char *name)
{
    uint32_t version;
    const uint8_t *at = m->size < t->size ? NULL : m->data + m->size - t->size;
    if (!at || memcmp(at, t->magic, sizeof t->magic)) {
        qkv_fail(m->ctx, QKV_E_FORMAT, "%s: not a qkv %s file, or cut short", name, t->kind);
        return NULL;
    }
    memcpy(&version, at + sizeof t->magic, sizeof version);
    if (version == t->version)
        return at;
    qkv_fail(m->ctx, QKV_E_FORMAT, "%s: version %u expected, %u found", name,
             (unsigned)t->version, (unsigned)version);
    return NULL;
}
