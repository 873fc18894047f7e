/* forecast.c - judging forecasters. */
#include <math.h>

#include "eval/kinds.h"
#include "pipeline/series.h"

qkv_status eval_forecast(eval *e, qkv_measures *out)
{
    qkv_array rows = {0};
    qkv_forecast_score s = {0};
    char *path = NULL;
    qkv_status status;
    if (e->file) {
        status = qkv__series_load(&rows, e->model, e->file);
    } else {
        status = eval_held_out(e, "valid.npy", &path);
        if (!status)
            status = qkv__series_open(&rows, e->c->ctx, e->dir, "train/valid.npy", true);
    }
    qkv_free(e->c->ctx, path);
    qkv_series series = qkv__series(&rows);
    if (!status && qkv_forecast_evaluate(e->model, e->tape, &series, 0, &s))
        status = qkv_fail_prefix(e->c->ctx, e->file ? e->file : e->dir);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "mse", s.mse);
    qkv_measures_add(out, "mae", s.mae);
    qkv_measures_add(out, "persistence", s.persistence);
    if (isfinite(s.seasonal))
        qkv_measures_add(out, "seasonal", s.seasonal);
    qkv_measures_add(out, "ratio", s.ratio);
    out->scored = s.windows;
    qkv_array_free(&rows);
    return status;
}
