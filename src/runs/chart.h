/* chart.h - charts of series, for reports. */
#ifndef QKV_SRC_RUNS_CHART_H
#define QKV_SRC_RUNS_CHART_H

#include "qkv/chart.h"
#include "qkv/page.h"
#include "qkv/runs.h"

/* A curve of a chart. */
typedef struct {
    const char *name; /* NULL: no legend */
    const qkv_run_series *series; /* NULL: there is none */
    bool dashed;
} qkv__run_curve;

typedef struct {
    const char *title, *label; /* of the chart; of the values */
    const qkv__run_curve *curves;
    size_t count;
    bool seconds; /* over seconds, not steps */
    bool log;     /* values on a logarithmic scale */
    bool small;   /* one of several beside each other */
} qkv__run_chart;

/* Adds the chart as a figure. A curve of many values is drawn with at most a few hundred points,
 * means of as many values each. Nothing is added when no curve has a value. */
void qkv__run_chart_add(qkv_page *p, qkv_context *ctx, const qkv__run_chart *chart);

/* Adds a heat map of groups x steps of the series whose names begin so: log10 of the values. */
void qkv__run_norms_add(qkv_page *p, qkv_context *ctx, const qkv_run_log *r, const char *begin,
                        const char *title);

/* The part of a name behind its group: "loss" of "eval/loss". */
const char *qkv__run_short_name(const char *name);
bool qkv__run_is_of(const char *name, const char *group); /* does it begin with "GROUP/"? */

#endif
