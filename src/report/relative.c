/* relative.c - the panels "positions" and "decoder_positions" of models with relative positions:
 * what a head adds to the score of a key, by its offset from the query. */
#include <math.h>
#include <stdio.h>

#include "report/patches.h"
#include "qkv/chart.h"
#include "qkv/marian.h"
#include "qkv/nn.h"

enum { LABEL = 48 };
static const double CELL = 22; /* side of a cell */

/* The rows of a table (buckets, heads) in the order of the offsets for which they stand. */
typedef struct {
    const qkv_real *table;
    size_t heads, count;  /* count: rows in use, the buckets at most */
    size_t *row;          /* (count) */
    char (*label)[LABEL]; /* (count): "0", "-12..-9", "..-91"; then (heads): "0" */
    const char **labels;  /* the same */
    float *values;        /* (heads, count) */
    double most;          /* of the values without their signs */
} relative_map;

static void relative_free(qkv_context *ctx, relative_map *m)
{
    qkv_free(ctx, m->row);
    qkv_free(ctx, m->label);
    qkv_free(ctx, m->labels);
    qkv_free(ctx, m->values);
}

/* Rows in use, and the offsets of each. From `distance` on all offsets share a row. */
static void find_offsets(relative_map *m, const qkv_relative_config *c)
{
    const ptrdiff_t least = -(ptrdiff_t)c->distance;
    const ptrdiff_t most = c->bidirectional ? (ptrdiff_t)c->distance : 0;
    for (ptrdiff_t from = least, to; from <= most && m->count < c->buckets; from = to + 1) {
        const size_t row = qkv_relative_bucket(c, from);
        char *label = m->label[m->count];
        for (to = from; to < most && qkv_relative_bucket(c, to + 1) == row;)
            to++;
        if (from == least)
            (void)snprintf(label, LABEL, "..%td", to);
        else if (to == most && c->bidirectional)
            (void)snprintf(label, LABEL, "%td..", from);
        else if (to > from)
            (void)snprintf(label, LABEL, "%td..%td", from, to);
        else
            (void)snprintf(label, LABEL, "%td", from);
        m->labels[m->count] = label;
        m->row[m->count++] = row;
    }
}

static qkv_status relative_fill(qkv_context *ctx, relative_map *m, qkv_param *table,
                                const qkv_relative_config *c)
{
    const size_t heads = qkv_param_dim(table, 1), labels = c->buckets + heads;
    *m = (relative_map){.table = qkv_param_data(table), .heads = heads,
                        .row = qkv_malloc(ctx, c->buckets * sizeof *m->row),
                        .label = qkv_malloc(ctx, labels * sizeof *m->label),
                        .labels = qkv_malloc(ctx, labels * sizeof *m->labels),
                        .values = qkv_malloc(ctx, qkv_param_count(table) * sizeof *m->values)};
    if (!m->table || !m->row || !m->label || !m->labels || !m->values)
        return QKV_E_MEMORY;
    find_offsets(m, c);
    for (size_t h = 0; h < heads; h++) {
        char *label = m->label[m->count + h];
        (void)snprintf(label, LABEL, "%zu", h);
        m->labels[m->count + h] = label;
        for (size_t i = 0; i < m->count; i++) {
            const float x = (float)m->table[m->row[i] * heads + h];
            m->values[h * m->count + i] = x;
            m->most = fmax(m->most, fabs((double)x));
        }
    }
    return QKV_OK;
}

static void put_relative(qkv_json_writer *w, const relative_map *m)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "kind", "relative");
    qkv_json_begin_array(w, "offsets");
    for (size_t i = 0; i < m->count; i++)
        qkv_json_put_string(w, NULL, m->labels[i]);
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "bias");
    for (size_t h = 0; h < m->heads; h++) {
        qkv_json_begin_array(w, NULL);
        for (size_t i = 0; i < m->count; i++)
            qkv_json_put_real(w, NULL, (double)m->values[h * m->count + i]);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

static qkv_status draw_relative(qkv_context *ctx, const relative_map *m, const char *key,
                                qkv_drawing **out)
{
    const qkv_heat_map map = {.x_label = "key's position less the query's", .y_label = "head",
                              .values = m->values, .rows = m->heads, .columns = m->count,
                              .row_labels = m->labels + m->count, .column_labels = m->labels,
                              .max = m->most, .diverging = true, .square = true, .key = key};
    double width, height;
    qkv_heat_size(&map, CELL, &width, &height);
    qkv_status status = qkv_drawing_create(out, ctx, width, height);
    if (!status)
        qkv_draw_heat(*out, NULL, &map);
    return status;
}

static qkv_status add_relative(qkv__looking *l, qkv_param *table, const qkv_relative_config *c,
                               const char *name, const char *title)
{
    qkv_context *ctx = l->p->ctx;
    relative_map m;
    qkv_json_writer w;
    qkv_drawing *d;
    qkv_status status = relative_fill(ctx, &m, table, c);
    if (!status)
        status = draw_relative(ctx, &m, name, &d);
    if (!status) {
        qkv_json_writer_init(&w, ctx, -1);
        put_relative(&w, &m);
        status = qkv__look_add_panel(l, name, title,
                                     "What every head adds to the score of a key, by where the key "
                                     "stands from the query (relative positions, Raffel et al. "
                                     "2020). All layers of the stack add it. There is no other "
                                     "sense of position.", d, &w);
    }
    relative_free(ctx, &m);
    return status;
}

qkv_status qkv__look_relative(qkv__looking *l, bool *found)
{
    const qkv_params *ps = qkv_model_params(l->p->model);
    *found = qkv_model_type_of(l->p->model) == qkv_t5_type();
    if (!*found)
        return QKV_OK;
    const qkv_marian_config *c = qkv_model_config(l->p->model);
    qkv_relative_config r = {c->buckets, c->distance, true};
    qkv_status status = add_relative(l, qkv_params_find(ps, "encoder.relative"), &r, "positions",
                                     "Bias by relative position");
    r.bidirectional = false;
    return status ? status
                  : add_relative(l, qkv_params_find(ps, "decoder.relative"), &r,
                                 "decoder_positions", "The decoder's bias by relative position");
}
