/* evaluate_forecast.c - evaluating forecasters. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"

#include <math.h>

#include "pipeline/series.h"

static qkv_status evaluate_forecast(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_metrics *out)
{
    qkv_array rows;
    qkv_forecast_score s = {0};
    qkv_status status = qkv__evaluate_rows(p, o->file, &rows);
    const qkv_series series = qkv__series(&rows);
    if (!status && qkv_forecast_evaluate(p->model, p->tape, &series, 0, &s))
        status = qkv_fail_prefix(p->ctx, o->file ? o->file : p->dir);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "mse", s.mse);
    qkv_metrics_add(out, "mae", s.mae);
    qkv_metrics_add(out, "persistence", s.persistence);
    if (isfinite(s.seasonal))
        qkv_metrics_add(out, "seasonal", s.seasonal);
    qkv_metrics_add(out, "ratio", s.ratio);
    out->scored = s.windows;
    qkv_array_free(&rows);
    return status;
}

const qkv__evaluator qkv__evaluator_forecast = {
    .type = qkv_forecast_type, .evaluate = evaluate_forecast, .unit = "windows"};
