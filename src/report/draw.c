/* draw.c - what was seen, as drawings. */
#include <math.h>
#include <stdio.h>

#include "report/looking.h"
#include "qkv/chart.h"

/* Labels; units: a map's side, its least height; cells of small maps. */
enum { LABELLED = 48, SIDE = 512, LOW = 140, POOLED = 24 };

/* A row over the grid of its keys: cells that the model did not read, or that are behind position
 * `last`, are missing. */
static qkv_status fill_grid(const qkv_look_axis *a, const double *row, size_t last, float *cells)
{
    for (size_t i = 0; i < a->rows * a->columns; i++)
        cells[i] = NAN;
    for (size_t i = a->lead; i < a->count && i <= last; i++)
        cells[a->cells ? (size_t)a->cells[i - a->lead] : i - a->lead] = (float)row[i];
    return QKV_OK;
}

/* All rows of the choice's head; keys that a causal query cannot see are missing. */
static qkv_status fill_head_map(const qkv_look *l, const qkv_look_choice *c, double *row,
                                float *map)
{
    const qkv_look_attention *a = &l->attentions[c->attention];
    size_t rows = l->axes[a->query].count, keys = l->axes[a->key].count;
    qkv_look_choice one = *c;
    qkv_status status = QKV_OK;
    for (one.position = 0; one.position < rows && !status; one.position++) {
        status = qkv_look_row(l, &one, row);
        for (size_t j = 0; j < keys; j++)
            map[one.position * keys + j] = a->causal && j > one.position ? NAN : (float)row[j];
    }
    return status;
}

static void choice_title(char *out, size_t size, const qkv_look *l, const qkv_look_choice *c)
{
    const qkv_look_attention *a = &l->attentions[c->attention];
    if (c->layer < 0)
        (void)snprintf(out, size, "%s, rollout", a->name);
    else if (c->head < 0)
        (void)snprintf(out, size, "%s, layer %d, mean of heads", a->name, c->layer);
    else
        (void)snprintf(out, size, "%s, layer %d, head %d", a->name, c->layer, c->head);
}

static void row_title(char *out, size_t size, const qkv_look *l, const qkv_look_choice *c)
{
    char what[96];
    const qkv_look_attention *a = &l->attentions[c->attention];
    choice_title(what, sizeof what, l, c);
    (void)snprintf(out, size, "%s: %s", what, l->axes[a->query].labels[c->position]);
}

static qkv_status draw_map(const qkv_look *l, const qkv_look_choice *c, const float *values,
                           qkv_drawing **out)
{
    const qkv_look_attention *a = &l->attentions[c->attention];
    const qkv_look_axis *q = &l->axes[a->query], *k = &l->axes[a->key];
    const qkv_image *image = l->images_count ? &l->images[0].image : NULL;
    char title[160];
    bool grid = k->rows > 0;
    choice_title(title, sizeof title, l, c);
    qkv_heat_map map = {.title = title, .values = values, .square = true,
                        .rows = grid ? k->rows : q->count,
                        .columns = grid ? k->columns : k->count};
    if (grid)
        map.beneath = image;
    else if (q->count <= LABELLED && k->count <= LABELLED) {
        map.row_labels = (const char *const *)q->labels;
        map.column_labels = (const char *const *)k->labels;
    }
    /* Cells are square, unless the map would be too low to read. */
    size_t side = map.rows > map.columns ? map.rows : map.columns;
    double width, height, cell = fmax(1, SIDE / (double)side);
    qkv_heat_size(&map, map.row_labels ? fmin(cell, 22) : cell, &width, &height);
    if (!map.row_labels && !grid && cell * (double)map.rows < LOW) {
        map.square = false;
        height += LOW - cell * (double)map.rows;
    }
    qkv_status status = qkv_drawing_create(out, l->ctx, width, height);
    if (status)
        return status;
    qkv_drawing_describe(*out, title, grid ? "heat over the patches that are attended to"
                                           : "rows attend to columns");
    qkv_draw_heat(*out, NULL, &map);
    return qkv_drawing_status(*out);
}

qkv_status qkv_look_draw(const qkv_look *l, const qkv_look_choice *c, qkv_drawing **out)
{
    *out = NULL;
    const qkv_look_attention *a = &l->attentions[c->attention < l->attentions_count
                                                     ? c->attention : 0];
    const qkv_look_axis *q = &l->axes[a->query], *k = &l->axes[a->key];
    double *row = qkv_calloc(l->ctx, k->count + 1, sizeof *row);
    size_t cells = k->rows ? k->rows * k->columns : q->count * k->count;
    float *values = qkv_calloc(l->ctx, cells + 1, sizeof *values);
    qkv_status status = row && values ? qkv_look_row(l, c, row) : QKV_E_MEMORY;
    if (!status && k->span) {
        char title[160];
        row_title(title, sizeof title, l, c);
        status = qkv__look_draw_row(l, k, row, title, out);
    } else if (!status) {
        status = k->rows ? fill_grid(k, row, a->causal ? c->position : k->count, values)
                         : fill_head_map(l, c, row, values);
        if (!status)
            status = draw_map(l, c, values, out);
    }
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    qkv_free(l->ctx, row);
    qkv_free(l->ctx, values);
    return status;
}

/* ---- all heads at once ----------------------------------------------------------------------- */

/* A head's map in POOLED x POOLED cells at most: the largest weight in each. */
static void pool_map(const qkv_look *l, const qkv_look_attention *a, const qkv_head_map *m,
                     size_t rows, size_t columns, float *out)
{
    size_t q = l->axes[a->query].count, k = l->axes[a->key].count;
    for (size_t i = 0; i < rows * columns; i++)
        out[i] = 0;
    for (size_t i = 0; i < m->rows && i < q; i++)
        for (size_t e = m->start[i]; e < m->start[i + 1]; e++) {
            float *cell = &out[i * rows / q * columns + m->key[e] * columns / k];
            *cell = m->weight[e] > *cell ? m->weight[e] : *cell;
        }
}

qkv_status qkv_look_draw_heads(const qkv_look *l, size_t attention, qkv_drawing **out)
{
    *out = NULL;
    if (attention >= l->attentions_count)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "attention: the model has %zu kinds, found %zu",
                        l->attentions_count, attention);
    const qkv_look_attention *a = &l->attentions[attention];
    size_t q = l->axes[a->query].count, k = l->axes[a->key].count;
    char key[32], title[96];
    (void)snprintf(key, sizeof key, "map%zu", attention);
    (void)snprintf(title, sizeof title, "%s: every head", a->name);
    qkv_map_grid grid = {.down = "layer", .across = "head", .own_scale = true,
                         .maps_down = a->layers, .maps_across = a->heads, .key = key,
                         .rows = q < POOLED ? q : POOLED, .columns = k < POOLED ? k : POOLED};
    float *values = qkv_calloc(l->ctx, a->layers * a->heads * grid.rows * grid.columns + 1,
                               sizeof *values);
    double width, height;
    if (!values)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < a->layers * a->heads; i++)
        pool_map(l, a, &a->maps[i], grid.rows, grid.columns,
                 values + i * grid.rows * grid.columns);
    grid.values = values;
    qkv_map_grid_size(&grid, 56, &width, &height);
    qkv_status status = qkv_drawing_create(out, l->ctx, width, height);
    if (!status) {
        qkv_drawing_describe(*out, title, "rows are queries, columns keys; each map on its own "
                                          "scale");
        qkv_draw_map_grid(*out, NULL, &grid);
        status = qkv_drawing_status(*out);
    }
    qkv_free(l->ctx, values);
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    return status;
}
