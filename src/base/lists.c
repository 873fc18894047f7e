/* lists.c - arrays, ids and texts that grow. */
#include <string.h>

#include "base/base.h"

bool qkv__grow(qkv_context *ctx, void *array, size_t *capacity, size_t need, size_t size)
{
    void *old, *p;
    size_t more = *capacity ? *capacity * 2 : 16, bytes;
    if (need <= *capacity)
        return true;
    if (more < need)
        more = need;
    if (!qkv__mul_size(more, size, &bytes)) {
        (void)qkv_fail(ctx, QKV_E_MEMORY, "out of memory: %zu tokens do not fit", need);
        return false;
    }
    memcpy(&old, array, sizeof old); /* array is the address of some T * */
    p = old ? qkv_realloc(ctx, old, *capacity * size, bytes) : qkv_malloc(ctx, bytes);
    if (!p)
        return false;
    memcpy(array, &p, sizeof p);
    *capacity = more;
    return true;
}

bool qkv__ids_reserve(qkv_context *ctx, qkv_ids *ids, size_t count)
{
    return qkv__grow(ctx, &ids->data, &ids->capacity, ids->count + count, sizeof *ids->data);
}

bool qkv__ids_push(qkv_context *ctx, qkv_ids *ids, int32_t id)
{
    if (ids->count == ids->capacity && !qkv__ids_reserve(ctx, ids, 1))
        return false;
    ids->data[ids->count++] = id;
    return true;
}

bool qkv__text_add(qkv_context *ctx, qkv_text *text, const char *data, size_t len)
{
    if (!qkv__grow(ctx, &text->data, &text->capacity, text->len + len + 1, 1))
        return false;
    if (len)
        memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = 0;
    return true;
}

qkv_status qkv_ids_add(qkv_context *ctx, qkv_ids *ids, int32_t id)
{
    return qkv__ids_push(ctx, ids, id) ? QKV_OK : QKV_E_MEMORY;
}

void qkv_ids_free(qkv_context *ctx, qkv_ids *ids)
{
    qkv_free(ctx, ids->data);
    *ids = (qkv_ids){0};
}

void qkv_text_free(qkv_context *ctx, qkv_text *text)
{
    qkv_free(ctx, text->data);
    *text = (qkv_text){0};
}
