/* classify_series.c - labels for series, and evaluating them. */
#include "dist/map.h"
#include "pipeline/evaluators.h"
#include "pipeline/held_out.h"
#include "pipeline/pipeline.h"
#include "pipeline/series_set.h"
#include "qkv/infer.h"
#include "qkv/pipeline_text.h"
#include "qkv/task.h"

enum { TOGETHER = 32 }; /* series a pass */

typedef struct {
    qkv_pipeline *p;
    const qkv_series_set *set;
    size_t from, classes; /* series before those at hand */
    qkv_real *probs; /* (TOGETHER, classes) */
    double *parts;   /* (ranks, TOGETHER classes) */
} job;

/* TOGETHER of the series from j->from on, or what is left of them. */
static qkv_status label_some(void *user, size_t part, double *out)
{
    const job *j = user;
    const qkv_series_set *s = j->set;
    const qkv_real *data[TOGETHER];
    size_t lengths[TOGETHER], from = j->from + part * TOGETHER;
    qkv_series_batch batch = {.data = data, .lengths = lengths};
    for (; batch.count < TOGETHER && from + batch.count < s->count; batch.count++) {
        size_t at = from + batch.count;
        data[batch.count] = s->data + s->start[at] * s->columns;
        lengths[batch.count] = s->start[at + 1] - s->start[at];
    }
    qkv_status status = qkv_classify_series(j->p->model, &batch, j->probs);
    for (size_t i = 0; i < batch.count * j->classes && !status; i++)
        out[i] = (double)j->probs[i];
    return status;
}

static bool tell_series(const job *j, size_t i, qkv_classified_fn *fn, void *user)
{
    const double *from = j->parts + i * j->classes;
    qkv_classified found = {.text = j->from + i, .probabilities = j->probs, .classes = j->classes};
    for (size_t k = 0; k < j->classes; k++) {
        j->probs[k] = (qkv_real)from[k];
        if (j->probs[k] > j->probs[found.best])
            found.best = k;
    }
    return fn(user, &found);
}

/* A pass on each rank, until all series are labelled or fn wants no more, on rank 0. */
static qkv_status label_series(job *j, qkv_classified_fn *fn, void *user)
{
    qkv_context *ctx = j->p->ctx;
    size_t most = (size_t)qkv_dist_size(ctx) * TOGETHER, all = j->set->count, n;
    bool more = true;
    qkv_status status = QKV_OK;
    for (; j->from < all && more && !status; j->from += n) {
        n = all - j->from < most ? all - j->from : most;
        status = qkv__dist_map(ctx, (n + TOGETHER - 1) / TOGETHER, TOGETHER * j->classes,
                               label_some, j, j->parts);
        for (size_t i = 0; i < n && more && !status; i++)
            more = tell_series(j, i, fn, user);
        if (!status)
            status = qkv__dist_broadcast(ctx, &more, sizeof more);
    }
    return status;
}

qkv_status qkv_pipeline_classify_series(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                        void *user)
{
    qkv__series_file file = {0};
    if (!qkv_model_can(p->model, QKV_CAN_CLASSIFY_SERIES))
        return qkv__pipeline_refuse(p, "classify series");
    const qkv_series_config *c = qkv_model_config(p->model);
    job j = {.p = p, .set = &file.set, .classes = c->classes};
    j.probs = qkv_calloc(p->ctx, TOGETHER * c->classes, sizeof *j.probs);
    j.parts = qkv_calloc(p->ctx, (size_t)qkv_dist_size(p->ctx),
                         TOGETHER * c->classes * sizeof *j.parts);
    qkv_status status = j.probs && j.parts ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__series_file_load(&file, p->ctx, path, false, c->columns, c->rows, NULL, 0);
    if (!status)
        status = label_series(&j, fn, user);
    qkv__series_file_free(&file);
    qkv_free(p->ctx, j.parts);
    qkv_free(p->ctx, j.probs);
    return status;
}

static qkv_status evaluate_series_classes(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                          qkv_metrics *out)
{
    qkv__series_file file = {0};
    qkv_classify_score s = {0};
    qkv_path path;
    const qkv_series_config *c = qkv_model_config(p->model);
    qkv_status status;
    if (o->file) {
        status = qkv__series_file_load(&file, p->ctx, o->file, true, c->columns, c->rows,
                                       qkv_model_labels(p->model),
                                       qkv_model_label_count(p->model));
    } else {
        status = qkv__evaluate_held_out(p, QKV__VALID_ARRAY, &path);
        if (!status)
            status = qkv__series_set_open(&file, p->ctx, path.text, c->columns, c->classes);
    }
    if (!status)
        status = qkv_classify_series_evaluate(p->model, p->tape, &file.set, 0, &s);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "f1", s.f1);
    out->scored = s.texts;
    out->more_is_better = true;
    qkv__series_file_free(&file);
    return status;
}

const qkv__evaluator qkv__evaluator_series_classes = {
    .type = qkv_series_classifier_type, .evaluate = evaluate_series_classes, .unit = "series"};
