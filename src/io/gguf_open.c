/* gguf_open.c - opening GGUF files; numbers of their tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/gguf_file.h"

bool qkv_gguf_is(const char *path)
{
    static const char suffix[] = ".gguf";
    const size_t len = strlen(path), n = sizeof suffix - 1;
    char start[QKV__GGUF_MAGIC_BYTES];
    struct stat info; /* a pipe would lose what is read of it */
    const bool there = stat(path, &info) == 0;
    if (len > n && strcmp(path + len - n, suffix) == 0)
        return !there || !S_ISDIR(info.st_mode);
    FILE *f = there && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
    bool is = f && fread(start, 1, sizeof start, f) == sizeof start &&
              memcmp(start, QKV__GGUF_MAGIC, QKV__GGUF_MAGIC_BYTES) == 0;
    if (f)
        (void)fclose(f);
    return is;
}

qkv_status qkv_gguf_open(qkv_gguf **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv_gguf *g = qkv_calloc(ctx, 1, sizeof *g);
    if (!g)
        return QKV_E_MEMORY;
    g->ctx = ctx;
    g->path = qkv_strdup(ctx, path);
    qkv_status status = g->path ? qkv__arena_create(&g->arena, ctx, "gguf") : QKV_E_MEMORY;
    if (!status)
        status = qkv__map_file(&g->map, ctx, path);
    if (!status)
        status = qkv__gguf_read_header(g);
    if (status) {
        qkv_gguf_close(g);
        return status;
    }
    *out = g;
    return QKV_OK;
}

void qkv_gguf_close(qkv_gguf *g)
{
    if (!g)
        return;
    qkv__map_close(&g->map);
    if (g->arena)
        qkv__arena_destroy(g->arena);
    qkv_free(g->ctx, g->path);
    qkv_free(g->ctx, g);
}

const char *qkv__gguf_path(const qkv__gguf *g) { return g->path; }
qkv_context *qkv__gguf_context(const qkv__gguf *g) { return g->ctx; }

size_t qkv_gguf_tensors(const qkv__gguf *g) { return g->count; }
const qkv__gguf_tensor *qkv__gguf_at(const qkv__gguf *g, size_t i) { return &g->tensors[i]; }

const qkv__gguf_tensor *qkv__gguf_tensor_find(const qkv__gguf *g, const char *name)
{
    const qkv__gguf_tensor wanted = {.name = name};
    return g->count ? bsearch(&wanted, g->tensors, g->count, sizeof wanted, qkv__gguf_by_name)
                    : NULL;
}

qkv_status qkv__gguf_read(const qkv__gguf *g, const qkv__gguf_tensor *t, size_t begin, size_t count,
                          qkv_real *out)
{
    const qkv__gguf_type *type = t->type;
    if (!type->decode)
        return qkv_fail(g->ctx, QKV_E_UNSUPPORTED, "%s: tensor \"%.120s\": type %s is not "
                        "supported", g->path, t->name, type->name);
    while (count) {
        size_t block = begin / type->block, inside = begin % type->block, n;
        const uint8_t *in = t->data + block * type->bytes;
        if (inside == 0 && count >= type->block) {
            n = count / type->block * type->block;
            type->decode(out, in, n / type->block);
            qkv__map_drop(&g->map, in, n / type->block * type->bytes);
        } else { /* a part of a block */
            qkv_real whole[QKV__GGUF_MOST_BLOCK];
            n = type->block - inside < count ? type->block - inside : count;
            type->decode(whole, in, 1);
            memcpy(out, whole + inside, n * sizeof *out);
        }
        begin += n;
        count -= n;
        out += n;
    }
    return QKV_OK;
}
