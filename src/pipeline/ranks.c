/* ranks.c - what rank 0 has read, for all. */
#include "pipeline/ranks.h"

#include "dist/dist.h"

/* Receives so many bytes, or sends those of text, on rank 0. */
static qkv_status share_bytes(qkv_context *ctx, qkv_str *text, size_t bytes)
{
    bool first = qkv_dist_rank(ctx) == 0;
    char *room = first ? NULL : qkv_malloc(ctx, bytes + 1);
    qkv_status status = qkv__dist_agree(ctx, first || room ? QKV_OK : QKV_E_MEMORY);
    if (!status)
        status = qkv__dist_broadcast(ctx, first ? text->data : room, bytes);
    if (!status && !first) {
        qkv_str_clear(text);
        qkv_str_add(text, room, bytes);
        status = text->failed ? QKV_E_MEMORY : QKV_OK;
    }
    qkv_free(ctx, room);
    return status;
}

qkv_status qkv__share_lines(qkv_context *ctx, qkv_status status, qkv_str *text, size_t *lines)
{
    size_t sizes[2] = {*lines, text->len};
    if (qkv_dist_size(ctx) == 1)
        return status;
    status = qkv__dist_agree(ctx, status);
    if (!status)
        status = qkv__dist_broadcast(ctx, sizes, sizeof sizes);
    *lines = sizes[0];
    return status ? status : share_bytes(ctx, text, sizes[1]);
}
