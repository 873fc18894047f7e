/* classify_series.c - labels for series, and evaluating them. */
#include "pipeline/evaluators.h"
#include "pipeline/held_out.h"
#include "pipeline/pipeline.h"
#include "pipeline/series_set.h"
#include "qkv/infer.h"
#include "qkv/pipeline_text.h"
#include "qkv/task.h"

enum { TOGETHER = 32 }; /* series a pass */

/* probs has room for TOGETHER series. */
static qkv_status label_series(qkv_pipeline *p, const qkv_series_set *s, qkv_real *probs,
                               qkv_classified_fn *fn, void *user)
{
    const qkv_series_config *c = qkv_model_config(p->model);
    const qkv_real *data[TOGETHER];
    size_t lengths[TOGETHER];
    for (size_t i = 0; i < s->count; i += TOGETHER) {
        qkv_series_batch batch = {.data = data, .lengths = lengths};
        for (; batch.count < TOGETHER && i + batch.count < s->count; batch.count++) {
            size_t at = i + batch.count;
            data[batch.count] = s->data + s->start[at] * s->columns;
            lengths[batch.count] = s->start[at + 1] - s->start[at];
        }
        qkv_status status = qkv_classify_series(p->model, &batch, probs);
        if (status)
            return status;
        for (size_t k = 0; k < batch.count; k++) {
            const qkv_real *of = probs + k * c->classes;
            qkv_classified found = {.text = i + k, .probabilities = of, .classes = c->classes};
            for (size_t class_ = 1; class_ < c->classes; class_++)
                if (of[class_] > of[found.best])
                    found.best = class_;
            if (!fn(user, &found))
                return QKV_OK;
        }
    }
    return QKV_OK;
}

qkv_status qkv_pipeline_classify_series(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                        void *user)
{
    qkv__series_file file = {0};
    if (!qkv_model_can(p->model, QKV_CAN_CLASSIFY_SERIES))
        return qkv__pipeline_refuse(p, "classify series");
    const qkv_series_config *c = qkv_model_config(p->model);
    qkv_real *probs = qkv_calloc(p->ctx, TOGETHER * c->classes, sizeof *probs);
    qkv_status status = probs ? qkv__series_file_load(&file, p->ctx, path, false, c->columns,
                                                      c->rows, NULL, 0)
                              : QKV_E_MEMORY;
    if (!status)
        status = label_series(p, &file.set, probs, fn, user);
    qkv__series_file_free(&file);
    qkv_free(p->ctx, probs);
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
