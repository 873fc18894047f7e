/* series_job.c - what the `qkv train ...` on rows of numbers share. */
#include "job/series_job.h"

#include "pipeline/run_data.h"
#include "text/texts.h"

qkv_status qkv__series_hold_out(qkv__series_job *j, const qkv__series_options *s, size_t least,
                                const char *what)
{
    size_t tail = 0, C = j->train.columns;
    qkv_context *ctx = j->base.ctx;
    qkv_status status = s->valid ? QKV_OK : qkv__held_out(ctx, s->valid_last, j->train.rows, "rows",
                                                          &tail);
    if (status || !tail)
        return status;
    if (tail < least)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--valid-last: %zu of %zu rows of %s are fewer than "
                        "%s %zu", tail, j->train.rows, s->data, what, least);
    j->train.rows -= tail;
    j->valid = (qkv_series){j->train.data + j->train.rows * C, tail, C};
    return QKV_OK;
}

qkv_status qkv__series_read_valid(qkv__series_job *j, const qkv__series_options *s)
{
    qkv_status status =
        s->valid ? qkv__series_load(&j->valid_file, j->base.model, s->valid) : QKV_OK;
    if (!status && s->valid)
        j->valid = qkv__series(&j->valid_file);
    return status;
}

static qkv_status series_save(const qkv__run *base, const char *name, const qkv_series *s)
{
    const size_t shape[] = {s->rows, s->columns};
    return qkv_npy_save(base->ctx, qkv__run_path(base, name).text, 2, shape, s->data,
                        QKV_STORE_F32);
}

qkv_status qkv__series_job_write(qkv__run *base)
{
    qkv__series_job *j = (qkv__series_job *)base;
    qkv_status status = series_save(base, QKV__TRAIN_ARRAY, &j->train);
    return status || !j->valid.data ? status : series_save(base, QKV__VALID_ARRAY, &j->valid);
}

qkv_status qkv__series_job_open(qkv__run *base)
{
    qkv__series_job *j = (qkv__series_job *)base;
    const char *out = base->o.out;
    qkv_status status = qkv__series_open(&j->data, base->ctx, out, QKV__TRAIN_ARRAY, true);
    if (!status)
        status = qkv__series_open(&j->valid_file, base->ctx, out, QKV__VALID_ARRAY, false);
    j->train = qkv__series(&j->data);
    j->valid = qkv__series(&j->valid_file);
    return status;
}

void qkv__series_job_close(qkv__run *base)
{
    qkv__series_job *j = (qkv__series_job *)base;
    qkv_array_free(&j->data);
    qkv_array_free(&j->valid_file);
}

qkv_status qkv__series_sample(qkv_context *ctx, qkv_samples *out, const char *name,
                              const char *verb, size_t first, size_t n, const qkv_real *made,
                              size_t made_step, const qkv_real *truth, size_t truth_step)
{
    qkv_str text;
    qkv_str_init(&text, ctx);
    qkv_str_printf(&text, "row  %s  truth\n", verb);
    for (size_t i = 0; i < n; i++)
        qkv_str_printf(&text, "%zu  %.6g  %.6g\n", first + i, (double)made[i * made_step],
                       (double)truth[i * truth_step]);
    qkv_status status = text.failed ? QKV_E_MEMORY
                                    : qkv_samples_text(out, name, text.data, text.len);
    qkv_str_free(&text);
    return status;
}
