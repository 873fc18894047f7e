/* fill_series.c - a series without its gaps. */
#include "pipeline/pipeline.h"
#include "pipeline/series.h"
#include "qkv/infer.h"
#include "qkv/pipeline_text.h"

qkv_status qkv_pipeline_fill_series(qkv_pipeline *p, const qkv_array *rows, qkv_array *out)
{
    *out = (qkv_array){0};
    if (!qkv_model_can(p->model, QKV_CAN_FILL_SERIES))
        return qkv__pipeline_refuse(p, "fill gaps in series");
    const qkv_series_config *c = qkv_model_config(p->model);
    if (rows->ndim != 2 || rows->shape[1] != c->columns)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "a series of (rows, %zu) expected, found %d "
                        "dimensions, the second of %zu", c->columns, rows->ndim,
                        rows->ndim > 1 ? rows->shape[1] : 0);
    const qkv_series series = qkv__series(rows);
    qkv_status status = qkv__series_make(out, p->ctx, rows->shape[0], rows->shape[1], rows->names);
    if (!status)
        status = qkv_fill_series(p->model, &series, out->data);
    if (status)
        qkv_array_free(out);
    return status;
}

qkv_status qkv_pipeline_fill_series_file(qkv_pipeline *p, const char *path, qkv_array *rows,
                                         qkv_array *out)
{
    qkv_array read = {0};
    *out = (qkv_array){0};
    if (rows)
        *rows = (qkv_array){0};
    if (!qkv_model_can(p->model, QKV_CAN_FILL_SERIES))
        return qkv__pipeline_refuse(p, "fill gaps in series");
    qkv_status status = qkv__series_load(&read, p->model, path);
    if (!status && qkv_pipeline_fill_series(p, &read, out))
        status = qkv_fail_prefix(p->ctx, path);
    if (rows && !status)
        *rows = read;
    else
        qkv_array_free(&read);
    return status;
}
