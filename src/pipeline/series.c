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
    const qkv_forecast_config *c = qkv_model_config(m);
    qkv_status status = qkv_csv_load_columns(out, ctx, path, qkv_model_labels(m),
                                             qkv_model_label_count(m));
    if (!status && out->shape[1] != c->columns) {
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: the model has %zu columns, found %zu", path,
                          c->columns, out->shape[1]);
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
