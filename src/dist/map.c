/* map.c - parts of an evaluation, done by the ranks in turn. */
#include "dist/map.h"

#include <string.h>

/* This rank's parts, one after another. */
static qkv_status do_own(qkv_context *ctx, size_t parts, size_t width, qkv__dist_part_fn *part,
                         void *user, double *own)
{
    size_t size = (size_t)qkv_dist_size(ctx);
    qkv_status status = QKV_OK;
    for (size_t i = (size_t)qkv_dist_rank(ctx); i < parts && !status; i += size, own += width)
        status = part(user, i, own);
    return status;
}

qkv_status qkv__dist_map(qkv_context *ctx, size_t parts, size_t width, qkv__dist_part_fn *part,
                         void *user, double *all)
{
    size_t size = (size_t)qkv_dist_size(ctx), most = (parts + size - 1) / size * width;
    memset(all, 0, parts * width * sizeof *all);
    if (size == 1)
        return do_own(ctx, parts, width, part, user, all);
    double *own = qkv_calloc(ctx, most + 1, sizeof *own);
    double *each = qkv_calloc(ctx, size, (most + 1) * sizeof *each);
    qkv_status status = own && each ? do_own(ctx, parts, width, part, user, own) : QKV_E_MEMORY;
    status = qkv__dist_agree(ctx, status);
    if (!status)
        status = qkv__dist_gather(ctx, own, most * sizeof *own, each);
    for (size_t i = 0; i < parts && !status; i++)
        memcpy(all + i * width, each + i % size * most + i / size * width, width * sizeof *all);
    qkv_free(ctx, own);
    qkv_free(ctx, each);
    return status;
}

qkv_status qkv__dist_map_sum(qkv_context *ctx, size_t parts, size_t width,
                             qkv__dist_part_fn *part, void *user, double *sum)
{
    memset(sum, 0, width * sizeof *sum);
    double *all = qkv_calloc(ctx, parts + 1, width * sizeof *all);
    qkv_status status = all ? qkv__dist_map(ctx, parts, width, part, user, all) : QKV_E_MEMORY;
    for (size_t i = 0; i < parts && !status; i++)
        for (size_t k = 0; k < width; k++)
            sum[k] += all[i * width + k];
    qkv_free(ctx, all);
    return status;
}
