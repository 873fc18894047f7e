/* series.c - series of numbers from CSV files. */
#include "pipeline/series.h"

#include "io/file.h"

qkv_series qkv__series(const qkv_array *a)
{
    return (qkv_series){a->data, a->shape[0], a->shape[1]};
}

qkv_status qkv__series_load(qkv_array *out, const qkv_model *m, const char *path)
{
    qkv_context *ctx = qkv_model_context(m);
    const void *c = qkv_model_config(m);
    bool whole = qkv_model_can(m, QKV_CAN_FORECAST);
    size_t columns = whole ? ((const qkv_forecast_config *)c)->columns
                           : ((const qkv_series_config *)c)->columns;
    qkv_status status = (whole ? qkv_csv_load_columns : qkv_csv_load_gaps)(
        out, ctx, path, qkv_model_labels(m), qkv_model_label_count(m));
    if (!status && out->shape[1] != columns) {
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: the model has %zu columns, found %zu", path,
                          columns, out->shape[1]);
        qkv_array_free(out);
    }
    return status;
}

qkv_status qkv__series_open(qkv_array *out, qkv_context *ctx, const char *dir, const char *name,
                            bool required)
{
    const qkv_path path = qkv_path_in(dir, name);
    qkv_status status = QKV_OK;
    *out = (qkv_array){0};
    if (required || qkv_file_exists(path.text))
        status = qkv_npy_load(out, ctx, path.text);
    if (!status && out->data && out->ndim != 2) {
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: 2 dimensions expected, found %d", path.text,
                          out->ndim);
        qkv_array_free(out);
    }
    return status;
}

qkv_status qkv__series_make(qkv_array *out, qkv_context *ctx, size_t rows, size_t columns,
                            char *const *names)
{
    *out = (qkv_array){.ctx = ctx, .ndim = 2, .shape = {rows, columns}, .count = rows * columns};
    out->data = qkv_calloc(ctx, out->count, sizeof *out->data);
    out->names = names && out->data ? qkv_calloc(ctx, columns, sizeof *out->names) : NULL;
    qkv_status status = out->data && (!names || out->names) ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; names && i < columns && !status; i++)
        status = (out->names[i] = qkv_strdup(ctx, names[i])) ? QKV_OK : QKV_E_MEMORY;
    return status;
}
