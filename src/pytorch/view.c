/* view.c - a PyTorch file's tensors to those who read safetensors: nothing is copied but
 * tensors that do not lie in order. */
#include <stdlib.h>
#include <string.h>

#include "pytorch/objects.h"
#include "io/safetensors_header.h"

static int view_by_name(const void *a, const void *b)
{
    return strcmp(((const qkv_safetensor *)a)->name, ((const qkv_safetensor *)b)->name);
}

static bool view_tensor(qkv_safetensors *s, const qkv__pytorch *p, const qkv__pytorch_tensor *t,
                        qkv_safetensor *out)
{
    void *copy = NULL;
    *out = (qkv_safetensor){.name = t->name, .dtype = qkv_store_name(t->store), .file = p->path,
                            .store = t->store, .ndim = t->ndim, .shape = t->shape,
                            .count = t->count, .bytes = t->count * qkv_store_bytes(t->store),
                            .data = t->data};
    if (t->contiguous)
        return true;
    copy = qkv__arena_alloc(s->arena, out->bytes);
    if (copy)
        qkv__pytorch_gather(t, 0, t->count, copy);
    out->data = copy;
    return copy != NULL;
}

static qkv_status view_all(qkv_safetensors *s, const qkv__pytorch *p)
{
    s->shards = qkv__arena_zalloc(s->arena, sizeof *s->shards);
    s->tensors = qkv__arena_alloc(s->arena, (p->count + 1) * sizeof *s->tensors);
    if (!s->shards || !s->tensors)
        return QKV_E_MEMORY;
    s->shards[0].path = qkv__safetensors_text(s, p->path);
    if (!s->shards[0].path)
        return QKV_E_MEMORY;
    s->shard_count = 1;
    for (; s->count < p->count; s->count++)
        if (!view_tensor(s, p, &p->tensors[s->count], &s->tensors[s->count]))
            return QKV_E_MEMORY;
    if (s->count)
        qsort(s->tensors, s->count, sizeof *s->tensors, view_by_name);
    return QKV_OK;
}

qkv_status qkv__pytorch_view(qkv_safetensors **out, const qkv__pytorch *p)
{
    *out = NULL;
    qkv_safetensors *s = qkv_calloc(p->ctx, 1, sizeof *s);
    if (!s)
        return QKV_E_MEMORY;
    s->ctx = p->ctx;
    qkv_status status = qkv__arena_create(&s->arena, p->ctx, "pytorch view");
    if (!status)
        status = view_all(s, p);
    if (status) {
        qkv_safetensors_close(s);
        return status;
    }
    *out = s;
    return QKV_OK;
}
