/* chart.c - series as curves and heat maps. */
#include "runs/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

enum { POINTS = 400, MOST_CURVES = 32, MAP_COLUMNS = 60, MAP_ROWS = 64, LABEL = 32 };
static const double WIDTH = 720, HEIGHT = 280, SMALL_WIDTH = 340, SMALL_HEIGHT = 200;
static const double MAP_WIDTH = 720, ROW_HEIGHT = 14, MAP_MARGIN = 70;

const char *qkv__run_short_name(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash ? slash + 1 : name;
}

bool qkv__run_is_of(const char *name, const char *group)
{
    size_t len = strlen(group);
    return strncmp(name, group, len) == 0 && name[len] == '/';
}

/* x and y: (POINTS) each; returns how many there are. */
static size_t thin_out(const qkv_run_series *s, bool seconds, double *x, double *y)
{
    const double *at = seconds ? s->seconds : s->steps;
    size_t n = s->count < POINTS ? s->count : POINTS;
    for (size_t i = 0; i < n; i++) {
        size_t from = i * s->count / n, to = (i + 1) * s->count / n;
        double sum = 0;
        for (size_t k = from; k < to; k++)
            sum += s->values[k];
        x[i] = at[to - 1];
        y[i] = sum / (double)(to - from);
    }
    return n;
}

void qkv__run_chart_add(qkv_page *p, qkv_context *ctx, const qkv__run_chart *chart)
{
    qkv_curve curves[MOST_CURVES];
    qkv_drawing *d = NULL;
    size_t n = 0;
    double *room = qkv_malloc(ctx, 2 * POINTS * MOST_CURVES * sizeof *room), *at = room;
    for (size_t i = 0; room && i < chart->count && n < MOST_CURVES; i++) {
        const qkv__run_curve *c = &chart->curves[i];
        if (!c->series || !c->series->count)
            continue;
        size_t count = thin_out(c->series, chart->seconds, at, at + POINTS);
        curves[n++] = (qkv_curve){.name = c->name, .x = at, .y = at + POINTS, .count = count,
                                  .dashed = c->dashed, .points = count == 1};
        at += 2 * POINTS;
    }
    const qkv_line_chart lines = {.title = chart->title, .y_label = chart->label,
                                  .x_label = chart->seconds ? "seconds" : "steps",
                                  .y_log = chart->log, .curves = curves, .count = n};
    if (n && !qkv_drawing_create(&d, ctx, chart->small ? SMALL_WIDTH : WIDTH,
                                 chart->small ? SMALL_HEIGHT : HEIGHT)) {
        qkv_drawing_describe(d, chart->title, NULL);
        qkv_draw_lines(d, NULL, &lines);
        qkv_page_figure(p, d, NULL, NULL);
    }
    qkv_drawing_destroy(d);
    qkv_free(ctx, room);
}

/* ---- norms ---------------------------------------------------------------------------------- */

/* Groups, and how many columns their series fill. */
typedef struct {
    const qkv_run_series *of[MAP_ROWS];
    const char *names[MAP_ROWS];
    size_t rows, columns, longest; /* longest: values of the series with the most */
} norm_map;

static void find_norms(norm_map *m, const qkv_run_log *r, const char *begin)
{
    const qkv_run_series *s;
    *m = (norm_map){.rows = 0};
    for (size_t i = 0; (s = qkv_run_log_at(r, i)) != NULL && m->rows < MAP_ROWS; i++) {
        if (!qkv__run_is_of(s->name, begin))
            continue;
        m->names[m->rows] = qkv__run_short_name(s->name);
        m->of[m->rows++] = s;
        m->longest = s->count > m->longest ? s->count : m->longest;
    }
    m->columns = m->longest < MAP_COLUMNS ? m->longest : MAP_COLUMNS;
}

static void fill_map(const norm_map *m, float *values, char (*labels)[LABEL], const char **texts)
{
    for (size_t c = 0; c < m->columns; c++) {
        size_t at = (c + 1) * m->longest / m->columns - 1;
        snprintf(labels[c], LABEL, "%.0f", at < m->of[0]->count ? m->of[0]->steps[at] : 0);
        texts[c] = labels[c];
        for (size_t k = 0; k < m->rows; k++) {
            double x = at < m->of[k]->count ? m->of[k]->values[at] : NAN;
            values[k * m->columns + c] = x > 0 ? (float)log10(x) : NAN;
        }
    }
}

static void ends_of(const float *values, size_t n, double *min, double *max)
{
    *min = INFINITY;
    *max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        *min = (double)values[i] < *min ? (double)values[i] : *min;
        *max = (double)values[i] > *max ? (double)values[i] : *max;
    }
    if (!(*max > *min))
        *max = *min + 1;
}

void qkv__run_norms_add(qkv_page *p, qkv_context *ctx, const qkv_run_log *r, const char *begin,
                        const char *title)
{
    char labels[MAP_COLUMNS][LABEL];
    const char *texts[MAP_COLUMNS];
    norm_map m;
    qkv_drawing *d = NULL;
    find_norms(&m, r, begin);
    float *values = m.longest ? qkv_malloc(ctx, m.rows * m.columns * sizeof *values) : NULL;
    if (!values)
        return;
    fill_map(&m, values, labels, texts);
    qkv_heat_map map = {.title = title, .x_label = "steps", .values = values, .rows = m.rows,
                        .columns = m.columns, .row_labels = m.names, .column_labels = texts};
    ends_of(values, m.rows * m.columns, &map.min, &map.max);
    if (isfinite(map.min) &&
        !qkv_drawing_create(&d, ctx, MAP_WIDTH, MAP_MARGIN + ROW_HEIGHT * (double)m.rows)) {
        qkv_drawing_describe(d, title, NULL);
        qkv_draw_heat(d, NULL, &map);
        qkv_page_figure(p, d, NULL, "log10 of the norm: a step of 1 is a factor of 10");
    }
    qkv_drawing_destroy(d);
    qkv_free(ctx, values);
}
