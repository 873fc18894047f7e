/* common.h - what tasks share: the samples of an update, which data an evaluation reads, making
 * and ending a task, and the tasks on images. */
#ifndef QKV_SRC_TASK_COMMON_H
#define QKV_SRC_TASK_COMMON_H

#include "base/base.h"
#include "model/model.h"
#include "qkv/augment.h"
#include "qkv/task.h"
#include "tensor/make.h"

/* Number of the part's first sample in the run. */
static inline uint64_t qkv__first_sample(const qkv_micro_batch *part)
{
    return part->step * part->total + part->first;
}

/* Adds the seconds since `begun` (qkv_now) to those that batches took to make. */
static inline void qkv__add_data_time(const qkv_micro_batch *part, double begun)
{
    if (part->data_seconds)
        *part->data_seconds += qkv_now() - begun;
}

/* y, the mean over the part's samples, as their share of the batch's mean. */
static inline qkv_tensor *qkv__share_of_batch(qkv_tape *t, qkv_tensor *y,
                                              const qkv_micro_batch *part)
{
    double share = (double)part->count / (double)part->total;
    return share == 1 ? y : qkv_scale(t, y, share);
}

/* Reports the term whose mean over the part's samples is the scalar y. part: or NULL. */
static inline void qkv__report(const qkv_micro_batch *part, const char *name, qkv_tape *t,
                               const qkv_tensor *y)
{
    if (part && part->terms && y)
        qkv_term_mean(part, name, (double)qkv_item(t, y));
}

/* Where the cross-entropy of a part is to put its terms: NULL where nobody asks, or where there is
 * one. */
static inline qkv_cross_entropy_terms *qkv__terms_of(const qkv_micro_batch *part,
                                                     const qkv_cross_entropy_options *o,
                                                     qkv_cross_entropy_terms *room)
{
    *room = (qkv_cross_entropy_terms){0};
    return part->terms && (o->smoothing > 0 || o->rdrop > 0) ? room : NULL;
}
/* Reports what o->terms, from qkv__terms_of, has received, for a loss whose normalizer is the
 * whole update's. */
void qkv__report_cross_entropy(const qkv_micro_batch *part, const qkv_cross_entropy_options *o);

/* Cross-entropy of a part whose options' normalizer is the whole update's; reports its terms. */
qkv_tensor *qkv__part_cross_entropy(qkv_tape *t, const qkv_micro_batch *part, qkv_tensor *logits,
                                    qkv_tensor *targets, qkv_cross_entropy_options *o);

/* What guesses (count) of these labels are worth; loss: the sum of -log p of the labels. */
qkv_classify_score qkv__classify_score(const int32_t *guesses, const int32_t *labels, size_t count,
                                       size_t classes, double loss);
/* As metrics of an evaluation of held-out texts or series, which are `all`. */
qkv_metrics qkv__classify_metrics(const qkv_classify_score *s, size_t all);

/* How many of `all` an evaluation reads, and the i-th of `count` that lie evenly over all. */
static inline size_t qkv__limited(size_t limit, size_t all)
{
    return limit && limit < all ? limit : all;
}
static inline size_t qkv__evenly(size_t i, size_t count, size_t all)
{
    return (size_t)((double)i * (double)all / (double)count);
}

/* A task's own struct, zeroed. NULL unless *status is QKV_OK, and when memory is out, which
 * *status says then. */
void *qkv__task_alloc(qkv_context *ctx, size_t size, qkv_status *status);
/* Hands a task over, or destroys it when status says that it could not be made. Returns status. */
qkv_status qkv__task_finish(qkv_task *out, qkv_status status, qkv_task task);

/* ---- tasks on images ------------------------------------------------------------------------ */

/* What the struct of every such task begins with. */
typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_pixels *train, *valid; /* valid: or NULL */
    qkv_batches *batches;
    uint64_t seed;
} qkv__image_task;

/* Fills it in, with batches as options say; their mean and std are filled in here (NULL: 0.5). On
 * failure destroy it. */
qkv_status qkv__image_task_init(qkv__image_task *s, qkv_model *model, const qkv_pixels *train,
                                const qkv_pixels *valid, uint64_t seed,
                                qkv_batches_options options, const qkv_image_format *format);
/* For qkv_task_type: of a step on one training image; and what frees batches and the struct. */
double qkv__image_task_flops(void *self);
void qkv__image_task_destroy(void *self);

/* Uninitialised, for n images of the set: (n, height, width, channels). */
qkv_tensor *qkv__images_tensor(qkv_tape *t, const qkv_pixels *p, size_t n);
/* Begins an inference with n images of the set, as the model reads them; images: their numbers. */
qkv_tensor *qkv__images_values(const qkv_model *m, qkv_tape *t, const qkv_pixels *p,
                               const size_t *images, size_t n);
/* How many images of the set one such inference takes, at least 1. */
size_t qkv__images_batch(const qkv_pixels *p);

/* The model is told how to read images of these channels, and can cut those of the set into the
 * trunk's patches; else an error, which calls them WHAT images. */
qkv_status qkv__images_check(const qkv_model *m, const qkv_patches_config *trunk,
                             const qkv_pixels *p, const char *what);

#endif
