/* state_entries.c - making parameters and visiting their rows. */
#include "nn/state_entries.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/make.h"

char *qkv__layer_name(qkv_params *ps, const char *name)
{
    char *copy = name ? qkv__params_alloc(ps, strlen(name) + 1) : NULL;
    return copy ? strcpy(copy, name) : NULL;
}

double qkv__init_range(double range, double share, size_t width)
{
    return range != 0 ? range : share / sqrt((double)width);
}

qkv_param *qkv__matrix(qkv_params *ps, const char *name, size_t rows, size_t columns)
{
    size_t shape[] = {rows, columns};
    return qkv_param_create(ps, name, 2, shape);
}

qkv_param *qkv__vector(qkv_params *ps, const char *name, size_t n)
{
    return qkv_param_create(ps, name, 1, &n);
}

qkv_param *qkv__layer_param(qkv_params *ps, const char *layer, const char *name, size_t rows,
                            size_t columns)
{
    char full[256];
    size_t shape[] = {rows, columns};
    snprintf(full, sizeof full, "%s.%s", layer, name);
    return qkv_param_create(ps, full, columns ? 2 : 1, shape);
}

bool qkv__dense_params(qkv_params *ps, qkv_param **weight, qkv_param **bias, const char *layer,
                       const char *name, size_t rows, size_t columns, bool with_bias)
{
    char part[64];
    snprintf(part, sizeof part, "%s.weight", name);
    *weight = qkv__layer_param(ps, layer, part, rows, columns);
    if (columns)
        (void)qkv__param_linear(*weight);
    snprintf(part, sizeof part, "%s.bias", name);
    *bias = *weight && with_bias ? qkv__layer_param(ps, layer, part, rows, 0) : NULL;
    return *weight && (*bias || !with_bias);
}

void qkv__visit_entry(qkv__visit *v, qkv_state_entry *row, const char *name)
{
    if (v->status)
        return;
    char full[sizeof v->name + 128];
    snprintf(full, sizeof full, "%s%s", v->name, name);
    row->name = full;
    row->optional = v->optional;
    v->status = v->fn(v->user, row);
}

void qkv__visit_rows(qkv__visit *v, const char *name, qkv_param *p, size_t from, size_t rows,
                     size_t columns, bool transposed, qkv_init init, double scale)
{
    if (v->status || !p)
        return;
    qkv_state_entry row = {.kind = QKV_STATE_PARAM, .param = p, .ndim = columns ? 2 : 1, .init =
        init,
                           .scale = scale, .decay = columns > 0, .perm = {0, 1},
                           .shape = {rows, columns}};
    row.offset = from * (columns ? columns : 1);
    if (transposed) {
        row.perm[0] = 1;
        row.perm[1] = 0;
        row.shape[0] = columns;
        row.shape[1] = rows;
    }
    qkv__visit_entry(v, &row, name);
}

void qkv__visit_linear(qkv__visit *v, const char *name, qkv_param *weight, qkv_param *bias,
                       size_t from, size_t rows, size_t columns, double std)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    qkv__visit_rows(v, full, weight, from, rows, columns, false,
                    columns ? QKV_INIT_NORMAL : QKV_INIT_ONES, std);
    snprintf(full, sizeof full, "%s.bias", name);
    qkv__visit_rows(v, full, bias, from, rows, 0, false, QKV_INIT_ZEROS, 0);
}

void qkv__visit_linear_layer(qkv__visit *v, const char *name, const qkv_linear_layer *l, double std)
{
    qkv__visit_linear(v, name, l->weight, l->bias, 0, qkv_param_dim(l->weight, 0),
                      qkv_param_dim(l->weight, 1), std);
}

void qkv__visit_norm(qkv__visit *v, const char *name, qkv_param *weight, qkv_param *bias,
                     size_t width)
{
    qkv__visit_linear(v, name, weight, bias, 0, width, 0, 0);
}

void qkv__visit_table(qkv__visit *v, const char *name, qkv_param *p, bool tied, double std)
{
    if (tied)
        qkv__visit_kind(v, name, p, QKV_STATE_TIED, QKV_INIT_NONE, 0);
    else
        qkv__visit_rows(v, name, p, 0, qkv_param_dim(p, 0), qkv_param_dim(p, 1), false,
                        QKV_INIT_NORMAL, std);
}

void qkv__visit_kind(qkv__visit *v, const char *name, qkv_param *p, qkv_state_entry_kind kind,
                     qkv_init init, double scale)
{
    if (v->status)
        return;
    qkv_state_entry row = {.kind = kind, .param = p, .init = init, .scale = scale};
    row.ndim = p ? qkv_param_ndim(p) : 0;
    for (int i = 0; i < row.ndim; i++) {
        row.shape[i] = qkv_param_dim(p, i);
        row.perm[i] = i;
    }
    qkv__visit_entry(v, &row, name);
}
