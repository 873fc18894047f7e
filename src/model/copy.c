/* copy.c - the parameters of one model that another has too. */
#include <string.h>

#include "model/model.h"
#include "tensor/param.h"

typedef struct {
    qkv_model *from;
    const qkv_row *wanted;
    size_t copied;
} copying;

static bool has_values(const qkv_row *row)
{
    return row->kind == QKV_ROW_PARAM || row->kind == QKV_ROW_FIXED;
}

/* (1, places + 1, width): the first row is that of a token which a table of (1, places, width) does
 * not know. */
static bool has_first(const qkv_row *from, const qkv_row *to)
{
    return from->ndim == 3 && from->shape[0] == 1 && to->shape[0] == 1 &&
           from->shape[1] == to->shape[1] + 1 && from->shape[2] == to->shape[2];
}

/* Copies the row when it is the wanted one. */
static qkv_status offer(void *user, const qkv_row *row)
{
    copying *c = user;
    const qkv_row *to = c->wanted;
    if (!has_values(row) || row->ndim != to->ndim || strcmp(row->name, to->name) != 0 ||
        memcmp(row->perm, to->perm, (size_t)row->ndim * sizeof *row->perm) != 0)
        return QKV_OK;
    bool first = has_first(row, to);
    if (!first && memcmp(row->shape, to->shape, (size_t)row->ndim * sizeof *row->shape) != 0)
        return QKV_OK;
    memcpy(qkv_param_data(to->param) + to->offset,
           qkv_param_data(row->param) + row->offset + (first ? row->shape[2] : 0),
           qkv_row_count(to) * sizeof(qkv_real));
    qkv_param_touch(to->param);
    c->copied++;
    return QKV_OK;
}

static qkv_status want(void *user, const qkv_row *row)
{
    copying *c = user;
    c->wanted = row;
    return has_values(row) ? qkv_model_visit(c->from, offer, c) : QKV_OK;
}

size_t qkv_model_copy(qkv_model *to, qkv_model *from)
{
    copying c = {.from = from};
    (void)qkv_model_visit(to, want, &c);
    return c.copied;
}
