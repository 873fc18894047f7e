/* rows.c - rows of gradients, from the ranks that have them to those that own their place. */
#include "train/rows.h"

#include <string.h>

#include "base/device.h"
#include "dist/dist.h"

/* A row as it is kept and sent; its numbers follow. */
typedef struct {
    int32_t param, row;
} row_head;

/* Rows, one after another, in the host's memory. */
typedef struct {
    char *data;
    size_t bytes, room;
} row_list;

struct qkv__rows {
    qkv_context *ctx;
    const qkv__partition *part;
    size_t rank, ranks, numbers;
    row_list taken;
    row_list *out;  /* (ranks) of those taken, what goes to each */
    qkv__arena *on; /* the device, where a row lies while it is added */
};

qkv_status qkv__rows_create(qkv__rows **out, const qkv__partition *part)
{
    qkv_context *ctx = qkv__params_context(part->params);
    qkv__rows *r = qkv_calloc(ctx, 1, sizeof *r);
    *out = NULL;
    if (!r)
        return QKV_E_MEMORY;
    *r = (qkv__rows){.ctx = ctx, .part = part, .rank = (size_t)qkv_dist_rank(ctx),
                     .ranks = (size_t)qkv_dist_size(ctx)};
    r->out = qkv_calloc(ctx, r->ranks, sizeof *r->out);
    if (!r->out || qkv__arena_create_on(&r->on, ctx, qkv__context_device(ctx), "rows")) {
        qkv__rows_destroy(r);
        return QKV_E_MEMORY;
    }
    *out = r;
    return QKV_OK;
}

void qkv__rows_destroy(qkv__rows *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->ranks && r->out; i++)
        qkv_free(r->ctx, r->out[i].data);
    qkv_free(r->ctx, r->out);
    qkv_free(r->ctx, r->taken.data);
    qkv__arena_destroy(r->on);
    qkv_free(r->ctx, r);
}

size_t qkv__rows_numbers(const qkv__rows *r) { return r->numbers; }

static size_t row_channels(const qkv__rows *r, int32_t param)
{
    return qkv_param_dim(qkv_params_at(r->part->params, (size_t)param), 1);
}

static size_t record_bytes(const qkv__rows *r, int32_t param)
{
    return sizeof(row_head) + row_channels(r, param) * sizeof(qkv_real);
}

/* Room for more bytes, which count as there; NULL: no memory. */
static char *extend_list(const qkv__rows *r, row_list *list, size_t bytes)
{
    if (!qkv__grow(r->ctx, &list->data, &list->room, list->bytes + bytes, 1))
        return NULL;
    list->bytes += bytes;
    return list->data + list->bytes - bytes;
}

/* ---- taking ------------------------------------------------------------------------------- */

bool qkv__rows_take(void *rows, const qkv__grad_rows *more)
{
    qkv__rows *r = rows;
    const qkv__device *device = qkv__context_device(r->ctx);
    row_head head = {(int32_t)qkv__param_index(more->param), 0};
    size_t C = row_channels(r, head.param), bytes = record_bytes(r, head.param);
    for (size_t i = 0; i < more->n; i++) {
        head.row = more->ids[i];
        char *to = head.row == more->pad ? NULL : extend_list(r, &r->taken, bytes);
        if (head.row == more->pad)
            continue;
        if (!to)
            return false;
        memcpy(to, &head, sizeof head);
        device->copy_out(to + sizeof head, more->dy + i * C, bytes - sizeof head);
        for (size_t c = 0; c < C && more->scale != 1; c++) {
            qkv_real x;
            char *at = to + sizeof head + c * sizeof x;
            memcpy(&x, at, sizeof x);
            x = (qkv_real)((double)x * more->scale);
            memcpy(at, &x, sizeof x);
        }
        r->numbers += C;
    }
    return true;
}

/* ---- adding ------------------------------------------------------------------------------- */

static bool owns_part(const qkv__rows *r, size_t rank, row_head head)
{
    size_t C = row_channels(r, head.param), begin = (size_t)head.row * C, from, to;
    qkv__partition_own(r->part, (size_t)head.param, r->ranks, rank, &from, &to);
    return from < begin + C && to > begin;
}

/* Lays out what goes to each rank; a row that several own goes to each. */
static bool sort_by_owner(const qkv__rows *r)
{
    row_head head;
    for (size_t i = 0; i < r->ranks; i++)
        r->out[i].bytes = 0;
    for (size_t at = 0, bytes; at < r->taken.bytes; at += bytes) {
        memcpy(&head, r->taken.data + at, sizeof head);
        bytes = record_bytes(r, head.param);
        for (size_t i = 0; i < r->ranks; i++) {
            if (!owns_part(r, i, head))
                continue;
            char *to = extend_list(r, &r->out[i], bytes);
            if (!to)
                return false;
            memcpy(to, r->taken.data + at, bytes);
        }
    }
    return true;
}

/* Adds the part of a row that this rank owns. */
static bool add_own_part(const qkv__rows *r, row_head head, const char *numbers)
{
    size_t C = row_channels(r, head.param), begin = (size_t)head.row * C, from, to;
    qkv__mark mark = qkv__arena_mark(r->on);
    qkv_real *x = qkv__arena_alloc(r->on, C * sizeof *x);
    if (!x)
        return false;
    qkv__partition_own(r->part, (size_t)head.param, r->ranks, r->rank, &from, &to);
    from = from > begin ? from : begin;
    to = to < begin + C ? to : begin + C;
    qkv__context_device(r->ctx)->copy_in(x, numbers, C * sizeof *x);
    qkv__partition_add(r->part, qkv__partition_grad(r->part, (size_t)head.param, from),
                       x + (from - begin), to - from);
    qkv__arena_release(r->on, mark);
    return true;
}

static qkv_status add_all(const qkv__rows *r, const char *rows, size_t total)
{
    row_head head;
    for (size_t at = 0; at < total; at += record_bytes(r, head.param)) {
        memcpy(&head, rows + at, sizeof head);
        if (!add_own_part(r, head, rows + at + sizeof head))
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

qkv_status qkv__rows_finish(qkv__rows *r)
{
    qkv__dist_part *parts = qkv_malloc(r->ctx, r->ranks * sizeof *parts);
    void *rows = NULL;
    size_t total = 0;
    qkv_status status = parts && sort_by_owner(r) ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < r->ranks && !status; i++)
        parts[i] = (qkv__dist_part){r->out[i].data, r->out[i].bytes};
    if (!status)
        status = qkv__dist_exchange(r->ctx, parts, &rows, &total);
    if (!status)
        status = add_all(r, rows, total);
    qkv_free(r->ctx, rows);
    qkv_free(r->ctx, parts);
    r->taken.bytes = r->numbers = 0;
    return status;
}
