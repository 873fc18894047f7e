/* task.c - what every task has: its beginning, its end, and a list of metrics; and what those on
 * images have. */
#include "task/common.h"

#include <string.h>

#include "qkv/score.h"

enum { EVAL_PIXELS = 1 << 18 }; /* in one inference, at least one image */

void qkv_metrics_add(qkv_metrics *m, const char *name, double value)
{
    if (m->count == QKV_METRICS)
        return;
    m->item[m->count].name = name;
    m->item[m->count++].value = value;
}

void qkv_terms_add(qkv_terms *terms, const char *name, double value)
{
    int i = 0;
    while (terms && i < terms->count && strcmp(terms->item[i].name, name) != 0)
        i++;
    if (!terms || i == QKV_TERMS)
        return;
    if (i == terms->count) {
        terms->item[i].name = name;
        terms->item[i].value = 0;
        terms->count++;
    }
    terms->item[i].value += value;
}

void qkv_term_mean(const qkv_micro_batch *part, const char *name, double mean)
{
    qkv_terms_add(part->terms, name, mean * (double)part->count / (double)part->total);
}

void qkv__report_cross_entropy(const qkv_micro_batch *part, const qkv_cross_entropy_options *o)
{
    const qkv_cross_entropy_terms *x = o->terms;
    if (!x)
        return;
    qkv_terms_add(part->terms, "nll", x->nll);
    if (o->smoothing > 0)
        qkv_terms_add(part->terms, "smoothing", x->smoothing);
    if (o->rdrop > 0)
        qkv_terms_add(part->terms, "rdrop", x->rdrop);
}

qkv_tensor *qkv__part_cross_entropy(qkv_tape *t, const qkv_micro_batch *part, qkv_tensor *logits,
                                    qkv_tensor *targets, qkv_cross_entropy_options *o)
{
    qkv_cross_entropy_terms terms;
    o->terms = qkv__terms_of(part, o, &terms);
    qkv_tensor *y = qkv_cross_entropy(t, logits, targets, o);
    qkv__report_cross_entropy(part, o);
    o->terms = NULL;
    return y;
}

qkv_classify_score qkv__classify_score(const int32_t *guesses, const int32_t *labels, size_t count,
                                       size_t classes, double loss)
{
    return (qkv_classify_score){.accuracy = qkv_accuracy(guesses, labels, count),
                                .loss = loss / (double)count, .texts = count,
                                .f1 = classes == 2 ? qkv_f1(guesses, labels, count, 1)
                                                   : qkv_f1_macro(guesses, labels, count, classes)};
}

qkv_metrics qkv__classify_metrics(const qkv_classify_score *s, size_t all)
{
    return (qkv_metrics){.item = {{"accuracy", s->accuracy}, {"loss", s->loss}, {"f1", s->f1}},
                         .count = 3, .more_is_better = true, .scored = s->texts, .units = all};
}

qkv_task_type qkv_task_type_defaults(const char *name,
                                     qkv_tensor *(*loss)(void *self, qkv_tape *t,
                                                         const qkv_micro_batch *part))
{
    return (qkv_task_type){.name = name, .phases = 1, .loss = loss};
}

void qkv_task_destroy(qkv_task *task)
{
    if (task->self && task->type->destroy)
        task->type->destroy(task->self);
    *task = (qkv_task){0};
}

void *qkv__task_alloc(qkv_context *ctx, size_t size, qkv_status *status)
{
    void *self = *status ? NULL : qkv_calloc(ctx, 1, size);
    if (!self && !*status)
        *status = QKV_E_MEMORY;
    return self;
}

qkv_status qkv__task_finish(qkv_task *out, qkv_status status, qkv_task task)
{
    if (status)
        qkv_task_destroy(&task);
    *out = task;
    return status;
}

/* ---- tasks on images ------------------------------------------------------------------------ */

qkv_status qkv__image_task_init(qkv__image_task *s, qkv_model *model, const qkv_pixels *train,
                                const qkv_pixels *valid, uint64_t seed,
                                qkv_batches_options options, const qkv_image_format *format)
{
    static const double half[] = {0.5, 0.5, 0.5};
    *s = (qkv__image_task){.ctx = qkv_model_context(model), .model = model, .train = train,
                           .valid = valid, .seed = seed};
    options.count = qkv_pixels_count(train);
    options.seed = seed;
    memcpy(options.mean, format ? format->mean : half, sizeof options.mean);
    memcpy(options.std, format ? format->std : half, sizeof options.std);
    return qkv_batches_create(&s->batches, s->ctx, train, &options);
}

double qkv__image_task_flops(void *self)
{
    const qkv__image_task *s = self;
    return qkv_model_flops(s->model,
                           &(qkv_workload){.samples = 1, .height = qkv_pixels_height(s->train),
                                           .width = qkv_pixels_width(s->train)});
}

void qkv__image_task_destroy(void *self)
{
    qkv__image_task *s = self;
    qkv_batches_destroy(s->batches);
    qkv_free(s->ctx, s);
}

qkv_tensor *qkv__images_tensor(qkv_tape *t, const qkv_pixels *p, size_t n)
{
    const size_t shape[] = {n, qkv_pixels_height(p), qkv_pixels_width(p), qkv_pixels_channels(p)};
    return qkv_tensor_from(t, NULL, 4, shape);
}

qkv_tensor *qkv__images_values(const qkv_model *m, qkv_tape *t, const qkv_pixels *p,
                               const size_t *images, size_t n)
{
    const qkv_image_format *f = qkv_model_image_format(m);
    qkv__begin_inference(t);
    qkv_tensor *x = qkv__images_tensor(t, p, n);
    if (x)
        qkv_pixels_values(qkv_tensor_fill(x), qkv_model_context(m), p, images, n, f->mean, f->std);
    return x;
}

size_t qkv__images_batch(const qkv_pixels *p)
{
    size_t size = qkv_pixels_height(p) * qkv_pixels_width(p);
    return size < EVAL_PIXELS ? EVAL_PIXELS / size : 1;
}

qkv_status qkv__images_check(const qkv_model *m, const qkv_patches_config *trunk,
                             const qkv_pixels *p, const char *what)
{
    const qkv_image_format *f = qkv_model_image_format(m);
    if (!f || f->channels != trunk->channels || qkv_pixels_channels(p) != trunk->channels)
        return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the model reads %zu channels; it is "
                        "told how for %zu, and the %s images have %zu", trunk->channels,
                        f ? f->channels : 0, what, qkv_pixels_channels(p));
    if (qkv_pixels_height(p) % trunk->patch || qkv_pixels_width(p) % trunk->patch ||
        !qkv_pixels_count(p))
        return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the %s images, %zu of %zu x %zu "
                        "pixels, cannot be cut into patches of %zu", what, qkv_pixels_count(p),
                        qkv_pixels_width(p), qkv_pixels_height(p), trunk->patch);
    return QKV_OK;
}
