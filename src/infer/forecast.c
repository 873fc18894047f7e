/* forecast.c - continuing a series, as far as is asked for. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "model/model.h"
#include "qkv/infer.h"
#include "tensor/make.h"

static qkv_status forecast_check(const qkv_model *m, const qkv_series *history, size_t horizon)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_forecast_config *c = qkv_model_config(m);
    if (history->columns != c->columns)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "rows of %zu numbers expected, found %zu",
                        c->columns, history->columns);
    if (history->rows < c->context)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the model forecasts from %zu rows, the history has "
                        "only %zu", c->context, history->rows);
    if (horizon > c->horizon && c->targets < c->columns)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the model forecasts %zu rows, not %zu: it needs all "
                        "%zu columns to go on, and forecasts %zu", c->horizon, horizon,
                        c->columns, c->targets);
    return QKV_OK;
}

/* Forecasts the rows behind `window` into out (horizon, targets). */
static qkv_status forecast_one(qkv_model *m, qkv_tape *t, const qkv_real *window, size_t horizon,
                               qkv_real *out)
{
    const qkv_forecast_config *c = qkv_model_config(m);
    const qkv_real *mean = qkv_forecast_mean(m), *std = qkv_forecast_std(m);
    qkv__begin_inference(t);
    const qkv_real *y = qkv_data(t, qkv_forecast_forward(m, t, &window, 1));
    if (!y)
        return qkv_tape_status(t);
    for (size_t i = 0; i < horizon; i++)
        for (size_t j = 0; j < c->targets; j++) {
            qkv_real value = y[i * c->targets + j] * std[j] + mean[j];
            if (!isfinite(value))
                return qkv_fail(qkv_model_context(m), QKV_E_NUMERIC, "the forecast is %g",
                                (double)value);
            out[i * c->targets + j] = value;
        }
    return QKV_OK;
}

qkv_status qkv_forecast(qkv_model *m, const qkv_series *history, size_t horizon, qkv_real *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_FORECAST))
        return QKV_E_ARGUMENT;
    qkv_status status = forecast_check(m, history, horizon);
    if (status)
        return status;
    qkv_context *ctx = qkv_model_context(m);
    const qkv_forecast_config *c = qkv_model_config(m);
    size_t window = c->context * c->columns, all;
    qkv_tape *t = NULL;
    qkv_real *rows = NULL; /* the window, and behind it what was forecast */
    if (!qkv__mul_size(horizon, c->columns, &all) || !qkv__add_size(all, window, &all) ||
        !qkv__mul_size(all, sizeof *rows, &all))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu rows cannot be forecast", horizon);
    status = qkv_tape_create(&t, ctx);
    rows = status ? NULL : qkv_malloc(ctx, all);
    if (!rows)
        status = QKV_E_MEMORY;
    else
        memcpy(rows, history->data + (history->rows - c->context) * c->columns,
               window * sizeof *rows);
    for (size_t done = 0, n; done < horizon && !status; done += n) {
        n = horizon - done < c->horizon ? horizon - done : c->horizon;
        status = forecast_one(m, t, rows + done * c->columns, n, out + done * c->targets);
        if (!status && c->targets == c->columns)
            memcpy(rows + window + done * c->columns, out + done * c->targets,
                   n * c->columns * sizeof *rows);
    }
    qkv_free(ctx, rows);
    qkv_tape_destroy(t);
    return status;
}
