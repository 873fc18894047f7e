/* parts.c - cutting evaluations into parts, and putting together what ranks made of them. */
#include "task/parts.h"

#include <string.h>

#include "task/common.h"

/* ---- records ------------------------------------------------------------------------------- */

size_t qkv__record_number(const qkv__record_parts *p, size_t i)
{
    return p->numbers ? p->numbers[i] : qkv__evenly(i, p->count, qkv_records_count(p->records));
}

qkv_status qkv__record_parts_cut(qkv__record_parts *p, qkv_context *ctx, size_t field,
                                 size_t fields, size_t rows)
{
    size_t size = 0;
    p->parts = 0;
    p->begins = qkv_calloc(ctx, p->count + 1, sizeof *p->begins);
    if (!p->begins)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < p->count; i++) {
        for (size_t f = field; f < field + fields; f++) {
            const int32_t *ids;
            size += qkv_records_get(p->records, qkv__record_number(p, i), f, &ids);
        }
        if (size < rows && i + 1 < p->count)
            continue;
        p->begins[++p->parts] = i + 1;
        size = 0;
    }
    return QKV_OK;
}

/* ---- guesses ------------------------------------------------------------------------------- */

qkv_status qkv__map_guesses(qkv_context *ctx, size_t parts, size_t most, const size_t *begins,
                            size_t count, qkv__dist_part_fn *part, void *user, int32_t *guesses,
                            double *loss)
{
    size_t width = 1 + most;
    double *all = qkv_calloc(ctx, parts + 1, width * sizeof *all);
    qkv_status status = all ? qkv__dist_map(ctx, parts, width, part, user, all) : QKV_E_MEMORY;
    *loss = 0;
    for (size_t i = 0; i < parts && !status; i++) {
        size_t from = begins ? begins[i] : i * most, to = begins ? begins[i + 1] : from + most;
        *loss += all[i * width];
        for (size_t k = from; k < to && k < count; k++)
            guesses[k] = (int32_t)all[i * width + 1 + k - from];
    }
    qkv_free(ctx, all);
    return status;
}

/* ---- rows ---------------------------------------------------------------------------------- */

void qkv__own_stretch(const qkv_context *ctx, size_t parts, size_t *from, size_t *to)
{
    size_t size = (size_t)qkv_dist_size(ctx), rank = (size_t)qkv_dist_rank(ctx);
    *from = parts * rank / size;
    *to = parts * (rank + 1) / size;
}

qkv_status qkv__share_rows(qkv_context *ctx, qkv_status status, void *rows, size_t from, size_t to,
                           size_t bytes)
{
    void *all = NULL;
    size_t total = 0;
    if (qkv_dist_size(ctx) == 1)
        return status;
    status = qkv__dist_agree(ctx, status);
    if (!status)
        status = qkv__dist_concat(ctx, (char *)rows + from * bytes, (to - from) * bytes, &all,
                                  &total);
    if (!status && total)
        memcpy(rows, all, total);
    qkv_free(ctx, all);
    return status;
}
