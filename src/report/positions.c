/* positions.c - the panel "positions": how alike the embeddings of all positions are, by
 * cosine; of a grid as a map of maps (Dosovitskiy et al. 2020, figure 7), of a sequence as one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/patches.h"
#include "qkv/chart.h"
#include "qkv/gpt.h"

enum { MAPS = 14, LONGEST = 192, CURVE_WIDTH = 380, CURVE_HEIGHT = 300 };

/* Cosines of some positions with some or all others. */
typedef struct {
    const qkv__look_table *t;
    size_t rows, columns; /* positions shown */
    size_t step;          /* between them, in a row of a grid or in the sequence */
    size_t *row_at;       /* (rows) positions, counted behind the lead */
    float *values;        /* (rows, columns) */
    double *by_offset;    /* (columns) of a sequence: mean of positions that far apart, by step */
    double least;         /* cosine */
} similarity;

static void free_similarity(similarity *s, qkv_context *ctx)
{
    qkv_free(ctx, s->row_at);
    qkv_free(ctx, s->values);
    qkv_free(ctx, s->by_offset);
}

static size_t column_at(const similarity *s, size_t i) { return s->t->rows ? i : i * s->step; }

/* NaN with a position that is all zeros. */
static float position_cosine(const qkv_real *a, const qkv_real *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? (float)(ab / sqrt(aa * bb)) : NAN;
}

static void choose_positions(similarity *s)
{
    const qkv__look_table *t = s->t;
    size_t maps = t->columns < MAPS ? t->columns : MAPS;
    for (size_t i = 0; i < s->rows; i++)
        s->row_at[i] = !t->rows ? i * s->step
                                : (2 * (i / maps) + 1) * t->rows / (2 * (s->rows / maps)) *
                                          t->columns +
                                      (2 * (i % maps) + 1) * t->columns / (2 * maps);
}

static qkv_status compare_positions(similarity *s, qkv_context *ctx, const qkv__look_table *t)
{
    size_t width = qkv_param_dim(t->param, -1), count = qkv_param_dim(t->param, 0) - t->lead;
    *s = (similarity){.t = t, .step = 1};
    if (t->rows) {
        s->columns = t->rows * t->columns;
        s->rows = (t->rows < MAPS ? t->rows : MAPS) * (t->columns < MAPS ? t->columns : MAPS);
    } else {
        s->step = (count + LONGEST - 1) / LONGEST;
        s->rows = s->columns = (count + s->step - 1) / s->step;
    }
    s->row_at = qkv_malloc(ctx, s->rows * sizeof *s->row_at);
    s->values = qkv_malloc(ctx, s->rows * s->columns * sizeof *s->values);
    s->by_offset = qkv_calloc(ctx, s->columns, sizeof *s->by_offset);
    const qkv_real *x = qkv_param_data(t->param);
    if (!s->row_at || !s->values || !s->by_offset || !x)
        return QKV_E_MEMORY;
    choose_positions(s);
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = 0; j < s->columns; j++)
            s->values[i * s->columns + j] =
                position_cosine(x + (t->lead + s->row_at[i]) * width,
                                x + (t->lead + column_at(s, j)) * width, width);
    s->least = 1;
    for (size_t i = 0; i < s->rows * s->columns; i++)
        s->least = fmin(s->least, (double)s->values[i]);
    for (size_t k = 0; k < s->columns && !t->rows; k++) {
        for (size_t i = 0; i + k < s->rows; i++)
            s->by_offset[k] += (double)s->values[i * s->columns + i + k];
        s->by_offset[k] /= (double)(s->rows - k);
    }
    return QKV_OK;
}

/* Of a scale without negative cosines the lower end; others go from -1 to 1. */
static const double NEGATIVE = -0.05;

/* ---- drawing --------------------------------------------------------------------------------- */

static qkv_status draw_grid_positions(const similarity *s, qkv_context *ctx, qkv_drawing **out)
{
    size_t across = s->t->columns < MAPS ? s->t->columns : MAPS;
    const qkv_map_grid grid = {
        .down = s->t->rows > MAPS ? "row of positions, evenly" : "row",
        .across = s->t->columns > MAPS ? "column of positions, evenly" : "column",
        .values = s->values, .maps_down = s->rows / across, .maps_across = across,
        .rows = s->t->rows, .columns = s->t->columns, .min = s->least, .max = 1,
        .diverging = s->least < NEGATIVE, .key = s->t->name};
    double width, height;
    qkv_map_grid_size(&grid, across > 12 ? 46 : across > 8 ? 52 : 64, &width, &height);
    qkv_status status = qkv_drawing_create(out, ctx, width, height);
    if (!status)
        qkv_draw_map_grid(*out, NULL, &grid);
    return status;
}

static void draw_offsets(qkv_drawing *d, double left, const double *by_offset, size_t count,
                         size_t step, double *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (double)(i * step);
    const qkv_curve curve = {.x = x, .y = by_offset, .count = count};
    qkv_draw_lines(d, &(qkv_frame){left, 0, CURVE_WIDTH, CURVE_HEIGHT},
                   &(qkv_line_chart){.title = "Mean by distance", .x_label = "positions apart",
                                     .y_label = "cosine", .curves = &curve, .count = 1});
}

static qkv_status draw_sequence_positions(const similarity *s, qkv_context *ctx,
                                          qkv_drawing **out)
{
    char label[48];
    double width, height, *x = qkv_malloc(ctx, s->columns * sizeof *x);
    if (s->step > 1)
        (void)snprintf(label, sizeof label, "position / %zu", s->step);
    else
        (void)snprintf(label, sizeof label, "position");
    const qkv_heat_map map = {.title = "Cosine", .x_label = label, .y_label = label,
                              .values = s->values, .rows = s->rows, .columns = s->columns,
                              .min = s->least, .max = 1, .diverging = s->least < NEGATIVE,
                              .square = true, .key = s->t->name};
    qkv_heat_size(&map, fmax(2, 384.0 / (double)s->rows), &width, &height);
    qkv_status status = x ? qkv_drawing_create(out, ctx, width + 30 + CURVE_WIDTH,
                                               fmax(height, CURVE_HEIGHT))
                          : QKV_E_MEMORY;
    if (!status) {
        qkv_draw_heat(*out, &(qkv_frame){0, 0, width, height}, &map);
        draw_offsets(*out, width + 30, s->by_offset, s->columns, s->step, x);
    }
    qkv_free(ctx, x);
    return status;
}

/* ---- panels ---------------------------------------------------------------------------------- */

static void put_similarity(qkv_json_writer *w, const similarity *s, const char *kind)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "kind", kind);
    if (s->t->rows) {
        qkv_json_put_int(w, "rows", (int64_t)s->t->rows);
        qkv_json_put_int(w, "columns", (int64_t)s->t->columns);
    }
    qkv_json_begin_array(w, "positions");
    for (size_t i = 0; i < s->rows; i++)
        qkv_json_put_int(w, NULL, (int64_t)s->row_at[i]);
    qkv_json_end_array(w);
    if (!s->t->rows)
        qkv_json_put_reals(w, "by_distance", s->by_offset, s->columns);
    qkv_json_begin_array(w, "cosine");
    for (size_t i = 0; i < s->rows; i++) {
        qkv_json_begin_array(w, NULL);
        for (size_t j = 0; j < s->columns; j++)
            qkv_json_put_real(w, NULL, round(1e4 * (double)s->values[i * s->columns + j]) / 1e4);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

/* Sinusoids are frozen; a model without positions has a frozen table of zeros. */
static const char *kind_of_table(qkv_param *p)
{
    const qkv_real *x = qkv_param_data(p);
    bool zeros = true;
    for (size_t i = 0; x && i < qkv_param_count(p) && zeros; i++)
        zeros = x[i] == 0;
    return zeros && x ? "none" : qkv_param_frozen(p) ? "sinusoids" : "learned";
}

static qkv_status add_nothing(qkv__looking *l, const qkv__look_table *t, const char *note)
{
    qkv_json_writer w;
    qkv_drawing *d;
    qkv_status status = qkv_drawing_create(&d, l->p->ctx, 200, 24);
    if (status)
        return status;
    qkv_draw_text(d, 4, 16, "no positions", &(qkv_text_style){.ink = {QKV_INK_FAINT, 0, 0}});
    qkv_json_writer_init(&w, l->p->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "kind", "none");
    qkv_json_end_object(&w);
    return qkv__look_add_panel(l, t->name, t->title, note, d, &w);
}

qkv_status qkv__look_add_table(qkv__looking *l, const qkv__look_table *t)
{
    similarity s;
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    char note[500];
    const char *kind = kind_of_table(t->param);
    size_t count = qkv_param_dim(t->param, 0) - t->lead;
    if (strcmp(kind, "none") == 0)
        return add_nothing(l, t, "This model adds no positions: its table is all zeros.");
    qkv_status status = compare_positions(&s, l->p->ctx, t);
    if (!status)
        status = (t->rows ? draw_grid_positions : draw_sequence_positions)(&s, l->p->ctx, &d);
    if (!status)
        status = qkv_drawing_status(d);
    if (status) {
        free_similarity(&s, l->p->ctx);
        qkv_drawing_destroy(d);
        return status;
    }
    (void)snprintf(note, sizeof note, "%s of %zu positions, width %zu: cosine of %s. %s",
                   kind[0] == 's' ? "Sinusoids" : "Learned embeddings", count,
                   qkv_param_dim(t->param, -1),
                   t->rows ? "each position with all others; a map for each, in its place"
                           : "every position with every other",
                   kind[0] == 's' ? "A function of the distance alone, for each axis."
                                  : "What lies near in the input is alike where training has made "
                                    "it so.");
    qkv_json_writer_init(&w, l->p->ctx, -1);
    put_similarity(&w, &s, kind);
    free_similarity(&s, l->p->ctx);
    return qkv__look_add_panel(l, t->name, t->title, note, d, &w);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

/* The product of two equal vectors, pairs of equal length, when they are turned by positions so far
 * apart: the mean of cos(distance * base^(-2i/d)) (Su et al. 2021, equation 34). */
static qkv_status add_rotary(qkv__looking *l, const qkv__look_table *t)
{
    const qkv_gpt_config *c = qkv_model_config(l->p->model);
    double y[LONGEST], x[LONGEST];
    size_t pairs = qkv_rotary_width(&c->rotary, c->head_width) / 2;
    double *frequency = qkv_malloc(l->p->ctx, (pairs + 1) * sizeof *frequency);
    if (!frequency)
        return QKV_E_MEMORY;
    (void)qkv_rotary_frequencies(&c->rotary, c->head_width, frequency);
    size_t count = c->positions < LONGEST ? c->positions : LONGEST;
    qkv_json_writer w;
    qkv_drawing *d;
    for (size_t k = 0; k < count; k++) {
        y[k] = 0;
        for (size_t i = 0; i < pairs; i++)
            y[k] += cos((double)k * frequency[i]) / (double)pairs;
    }
    qkv_free(l->p->ctx, frequency);
    qkv_status status = qkv_drawing_create(&d, l->p->ctx, CURVE_WIDTH, CURVE_HEIGHT);
    if (status)
        return status;
    draw_offsets(d, 0, y, count, 1, x);
    qkv_json_writer_init(&w, l->p->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "kind", "rotary");
    qkv_json_put_reals(&w, "by_distance", y, count);
    qkv_json_end_object(&w);
    return qkv__look_add_panel(l, t->name, t->title,
                               "There is no table of positions: queries and keys are turned by "
                               "angles (rotary, Su et al. 2021), so that their product depends on "
                               "their distance. The curve is the product of two equal vectors, "
                               "turned.", d, &w);
}

qkv_status qkv__look_positions(qkv__looking *l)
{
    const qkv_params *ps = qkv_model_params(l->p->model);
    qkv__look_reading r;
    bool patches = qkv__look_reading_of(&r, l->p), relative;
    qkv_status status = qkv__look_relative(l, &relative);
    if (status || relative)
        return status;
    qkv__look_table t = {.param = qkv_params_find(ps, "positions"), .name = "positions",
                         .title = "Similarity of positions"};
    if (!t.param)
        t.param = qkv_params_find(ps, "vision.positions");
    if (!t.param && qkv_model_can(l->p->model, QKV_CAN_GENERATE))
        return add_rotary(l, &t);
    if (!t.param)
        return patches ? add_nothing(l, &t, "This model adds no positions.") : QKV_OK;
    if (patches) { /* at most 2 tokens before them */
        t.rows = t.columns = (size_t)sqrt((double)qkv_param_dim(t.param, 0));
        t.lead = qkv_param_dim(t.param, 0) - t.rows * t.rows;
    }
    status = qkv__look_add_table(l, &t);
    t.param = qkv_params_find(ps, "decoder.positions");
    t.name = "decoder_positions";
    t.title = "Similarity of the decoder's positions";
    return status || !t.param || !patches ? status : qkv__look_add_table(l, &t);
}
