/* forecast.c - the rows that follow a history. */
#include "pipeline/options.h"
#include "pipeline/pipeline.h"
#include "pipeline/series.h"
#include "qkv/pipeline_text.h"

static const qkv_option rows[] = {
    {.flag = "horizon", .key = "horizon", .type = QKV_OPT_SIZE, .max = 1048576,
     .offset = offsetof(qkv_pipeline_forecast_options, horizon), .initial = "0",
     .help = "rows to forecast; 0: as many as it was trained for"},
};
QKV__OPTIONS(qkv_pipeline_forecast, "Forecasting")

qkv_status qkv_pipeline_forecast(qkv_pipeline *p, const qkv_array *history,
                                 const qkv_pipeline_forecast_options *options, qkv_array *out)
{
    *out = (qkv_array){0};
    if (!qkv_model_can(p->model, QKV_CAN_FORECAST))
        return qkv__pipeline_refuse(p, "forecast");
    const qkv_forecast_config *c = qkv_model_config(p->model);
    size_t n = options && options->horizon ? options->horizon : c->horizon;
    if (history->ndim != 2 || history->shape[1] != c->columns)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "a history of (rows, %zu) expected, found %d "
                        "dimensions, the second of %zu", c->columns, history->ndim,
                        history->ndim > 1 ? history->shape[1] : 0);
    const qkv_series series = qkv__series(history);
    qkv_status status = qkv__series_make(out, p->ctx, n, c->targets, history->names);
    if (!status)
        status = qkv_forecast(p->model, &series, n, out->data);
    if (status)
        qkv_array_free(out);
    return status;
}

qkv_status qkv_pipeline_forecast_file(qkv_pipeline *p, const char *path,
                                      const qkv_pipeline_forecast_options *options,
                                      qkv_array *history, qkv_array *out)
{
    qkv_array read = {0};
    *out = (qkv_array){0};
    if (history)
        *history = (qkv_array){0};
    if (!qkv_model_can(p->model, QKV_CAN_FORECAST))
        return qkv__pipeline_refuse(p, "forecast");
    qkv_status status = qkv__series_load(&read, p->model, path);
    if (status)
        return status;
    if (qkv_pipeline_forecast(p, &read, options, out))
        status = qkv_fail_prefix(p->ctx, path);
    if (history && !status)
        *history = read;
    else
        qkv_array_free(&read);
    return status;
}
