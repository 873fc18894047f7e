/* log.c - train/metrics.jsonl: one JSON object a line, appended as the run goes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "train/loop.h"

static char *log_path(const qkv__loop *l)
{
    return qkv_path_join(l->ctx, l->dir, "train/metrics.jsonl");
}

static qkv_status log_append(qkv__loop *l, qkv_json_writer *w)
{
    const char *text = qkv_json_writer_text(w);
    char *path = text ? log_path(l) : NULL;
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    FILE *f = path ? fopen(path, "ab") : NULL;
    bool written = f && fprintf(f, "%s\n", text) >= 0;
    if (f && fclose(f) != 0)
        written = false;
    if (path && !written)
        status = qkv_fail(l->ctx, QKV_E_IO, "%s: cannot be appended to: %s", path,
                          strerror(errno));
    qkv_free(l->ctx, path);
    qkv_json_writer_free(w);
    return status;
}

static void log_begin(qkv__loop *l, qkv_json_writer *w, const char *kind)
{
    qkv_json_writer_init(w, l->ctx, 0);
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "kind", kind);
    qkv_json_put_int(w, "step", (int64_t)l->step);
    qkv_json_put_real(w, "seconds", qkv__seconds(l));
}

qkv_status qkv__log_step(qkv__loop *l)
{
    if (!l->dir)
        return QKV_OK;
    qkv_json_writer w;
    log_begin(l, &w, "step");
    qkv_json_put_real(&w, "loss", l->last_loss);
    qkv_json_put_real(&w, "lr", l->last_lr);
    qkv_json_put_real(&w, "norm", l->last_norm);
    if (l->data_time > 0)
        qkv_json_put_real(&w, "data_wait", l->data_time / l->update_time);
    qkv_json_end_object(&w);
    return log_append(l, &w);
}

qkv_status qkv__log_eval(qkv__loop *l, const qkv_metrics *m)
{
    if (!l->dir)
        return QKV_OK;
    qkv_json_writer w;
    log_begin(l, &w, "eval");
    if (l->step)
        qkv_json_put_real(&w, "train_loss", l->smooth_loss);
    for (int i = 0; i < m->count; i++)
        qkv_json_put_real(&w, m->item[i].name, m->item[i].value);
    qkv_json_end_object(&w);
    return log_append(l, &w);
}

/* The step that a line of the log is about; -1 when it is no such line. */
static int64_t step_of(qkv__loop *l, const char *path, const char *line, size_t len)
{
    qkv__json j;
    int64_t step = -1;
    if (qkv__json_parse(&j, l->ctx, path, line, len) == QKV_OK) {
        if (qkv__json_get_int(&j, "step", 0, INT64_MAX, &step) != QKV_OK)
            step = -1;
        qkv__json_free(&j);
    }
    return step;
}

qkv_status qkv__log_trim(qkv__loop *l)
{
    char *path = l->dir ? log_path(l) : NULL;
    if (!path || !qkv_file_exists(path)) {
        qkv_free(l->ctx, path);
        return QKV_OK;
    }
    char *text = NULL;
    size_t size = 0, kept = 0;
    qkv_status status = qkv_file_read(l->ctx, path, 0, &text, &size);
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text) - at : size - at;
        int64_t step = end ? step_of(l, path, text + at, len) : -1;
        if (step >= 0 && l->step && (uint64_t)step <= l->step) {
            memmove(text + kept, text + at, len + 1);
            kept += len + 1;
        }
        at += len + 1;
    }
    if (!status)
        status = qkv_file_write(l->ctx, path, text, kept);
    qkv_free(l->ctx, text);
    qkv_free(l->ctx, path);
    return status;
}
