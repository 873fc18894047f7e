/* series_tower.c - what models of series share: stacks of blocks over tokens with positions, and
 * the scale of columns. */
#include "model/series_tower.h"

#include <math.h>
#include <stdio.h>

#include "tensor/make.h"

qkv_status qkv__series_check(const qkv_model *base, size_t width, size_t heads,
                             qkv_position_kind kind, size_t context, size_t patch)
{
    const char *name = base->type->name;
    if (width % heads || (kind && width % 2))
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: the heads (%zu) must divide the width "
                        "(%zu, even with sinusoids)", name, heads, width);
    if (context % patch)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: a context of %zu rows cannot be cut into "
                        "patches of %zu", name, context, patch);
    return QKV_OK;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

qkv_status qkv__series_tower_make(qkv__series_tower *s, qkv_params *ps, const qkv_block_config *b,
                                  size_t layers, uint32_t first_block, size_t first)
{
    char name[48], norm[48];
    snprintf(name, sizeof name, "%s.positions", s->name);
    snprintf(norm, sizeof norm, "%s.norm", s->name);
    s->positions = qkv__matrix(ps, name, s->tokens, b->width);
    qkv_status status = qkv__stack_make(&s->stack, ps, b, layers, &(qkv__stack_options){
        .block = s->name, .norm = norm, .first = first_block,
        .norm_dropout_id = s->norm_dropout_id});
    if (!status)
        status = qkv__params_status(ps);
    if (status || s->kind == QKV_POSITIONS_LEARNED)
        return status;
    qkv_param_freeze(s->positions, true);
    return qkv__fill_sinusoids(s->positions, 0, s->tokens, QKV_SINUSOID_PAPER, first, 0);
}

static void visit_series_block(qkv__visit *v, const qkv_block *b, double std)
{
    const qkv_block_params *p = qkv_block_parameters(b);
    size_t d = qkv_block_configuration(b)->width, ff = qkv_block_configuration(b)->ff_width;
    qkv__visit_norm(v, "norm1", p->norm1_weight, p->norm1_bias, d);
    qkv__visit_linear(v, "attn.qkv", p->qkv_weight, p->qkv_bias, 0, 3 * d, d, std);
    qkv__visit_linear(v, "attn.out", p->out_weight, p->out_bias, 0, d, d, std);
    if (p->q_weight) {
        qkv__visit_norm(v, "norm_x", p->norm_x_weight, p->norm_x_bias, d);
        qkv__visit_linear(v, "cross.q", p->q_weight, p->q_bias, 0, d, d, std);
        qkv__visit_linear(v, "cross.kv", p->kv_weight, p->kv_bias, 0, 2 * d, d, std);
        qkv__visit_linear(v, "cross.out", p->out_x_weight, p->out_x_bias, 0, d, d, std);
    }
    qkv__visit_norm(v, "norm2", p->norm2_weight, p->norm2_bias, d);
    qkv__visit_linear(v, "ff.up", p->up_weight, p->up_bias, 0, ff, d, std);
    qkv__visit_linear(v, "ff.down", p->down_weight, p->down_bias, 0, d, ff, std);
}

void qkv__series_tower_visit(const qkv__series_tower *s, qkv__visit *v, double std)
{
    size_t width = qkv_param_dim(s->positions, 1);
    snprintf(v->name, sizeof v->name, "%s.", s->name);
    if (s->kind == QKV_POSITIONS_LEARNED)
        qkv__visit_rows(v, "positions", s->positions, 0, s->tokens, width, false, QKV_INIT_NORMAL,
                        0.02);
    else
        qkv__visit_kind(v, "positions", s->positions, QKV_STATE_FIXED, QKV_INIT_NONE, 0);
    for (size_t i = 0; i < s->stack.count; i++) {
        snprintf(v->name, sizeof v->name, "%s.%zu.", s->name, i);
        visit_series_block(v, s->stack.blocks[i], std);
    }
    snprintf(v->name, sizeof v->name, "%s.", s->name);
    qkv__visit_norm(v, "norm", s->stack.norm_weight, s->stack.norm_bias, width);
    v->name[0] = 0;
}

/* ---- scale ----------------------------------------------------------------------------------- */

qkv_status qkv__series_scale_make(qkv__series_scale *s, qkv_params *ps, size_t columns)
{
    s->mean = qkv__vector(ps, "series.mean", columns);
    s->std = qkv__vector(ps, "series.deviation", columns);
    qkv_status status = qkv__params_status(ps);
    if (status)
        return status;
    qkv_param_freeze(s->mean, true);
    qkv_param_freeze(s->std, true);
    for (size_t i = 0; i < columns; i++)
        qkv_param_data(s->std)[i] = 1;
    qkv_param_touch(s->std);
    return QKV_OK;
}

void qkv__series_scale_visit(const qkv__series_scale *s, qkv__visit *v)
{
    qkv__visit_kind(v, "series.mean", s->mean, QKV_STATE_FIXED, QKV_INIT_NONE, 0);
    qkv__visit_kind(v, "series.deviation", s->std, QKV_STATE_FIXED, QKV_INIT_NONE, 0);
}

/* Of the values of a column that are there. */
static void series_moments(const qkv_series *s, size_t column, double *mean, double *std)
{
    double sum = 0, squares = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->rows; i++) {
        double x = (double)s->data[i * s->columns + column];
        sum += isfinite(x) ? x : 0;
        n += isfinite(x) != 0;
    }
    *mean = n ? sum / (double)n : 0;
    for (size_t i = 0; i < s->rows; i++) {
        double d = (double)s->data[i * s->columns + column] - *mean;
        squares += isfinite(d) ? d * d : 0;
    }
    *std = squares > 0 ? sqrt(squares / (double)n) : 1;
}

qkv_status qkv__series_scale_fit(const qkv__series_scale *s, const qkv_model *base,
                                 const qkv_series *rows)
{
    size_t columns = qkv_param_dim(s->mean, 0);
    if (rows->columns != columns || !rows->rows)
        return qkv_fail(base->ctx, QKV_E_SHAPE, "%s: rows of %zu numbers expected, found %zu rows "
                        "of %zu", base->type->name, columns, rows->rows, rows->columns);
    for (size_t i = 0; i < columns; i++) {
        double mean, std;
        series_moments(rows, i, &mean, &std);
        qkv_param_data(s->mean)[i] = (qkv_real)mean;
        qkv_param_data(s->std)[i] = (qkv_real)std;
    }
    qkv_param_touch(s->mean);
    qkv_param_touch(s->std);
    return QKV_OK;
}
