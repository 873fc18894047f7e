/* evaluate_fill.c - evaluating fillers of gaps. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"

#include "pipeline/series.h"
#include "qkv/task.h"

static qkv_status evaluate_fill_series(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                       qkv_metrics *out)
{
    qkv_array rows;
    qkv_fill_score s = {0};
    qkv_status status = qkv__evaluate_rows(p, o->file, &rows);
    const qkv_series series = qkv__series(&rows);
    if (!status && qkv_fill_evaluate(p->model, p->tape, &series, 0, &s))
        status = qkv_fail_prefix(p->ctx, o->file ? o->file : p->dir);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "mse", s.mse);
    qkv_metrics_add(out, "mae", s.mae);
    qkv_metrics_add(out, "interpolation", s.interpolation);
    qkv_metrics_add(out, "last", s.last);
    qkv_metrics_add(out, "ratio", s.ratio);
    out->scored = s.values;
    qkv_array_free(&rows);
    return status;
}

const qkv__evaluator qkv__evaluator_fill = {
    .type = qkv_series_filler_type, .evaluate = evaluate_fill_series, .unit = "values"};
