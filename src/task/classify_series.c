/* classify_series.c - choosing a class for a series. */
#include "task/common.h"
#include "task/parts.h"

enum { EVAL_SERIES = 64 }; /* in one evaluation batch */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_series_set *train, *valid;
    double smoothing;
    uint64_t seed;
} labelling;

/* Pointers to series of a set, with their lengths and classes. */
typedef struct {
    const qkv_real **data;
    size_t *lengths;
    int32_t *labels;
} picked;

static bool pick_room(picked *p, qkv_context *ctx, size_t count)
{
    *p = (picked){.data = qkv_malloc(ctx, (count + 1) * sizeof *p->data),
                  .lengths = qkv_malloc(ctx, (count + 1) * sizeof *p->lengths),
                  .labels = qkv_malloc(ctx, (count + 1) * sizeof *p->labels)};
    return p->data && p->lengths && p->labels;
}

static void pick_free(picked *p, qkv_context *ctx)
{
    qkv_free(ctx, p->data);
    qkv_free(ctx, p->lengths);
    qkv_free(ctx, p->labels);
}

static void pick_series(picked *p, size_t i, const qkv_series_set *s, size_t which)
{
    p->data[i] = s->data + s->start[which] * s->columns;
    p->lengths[i] = s->start[which + 1] - s->start[which];
    p->labels[i] = s->labels[which];
}

/* ---- training -------------------------------------------------------------------------------- */

static qkv_tensor *classify_series_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    labelling *s = self;
    picked p;
    qkv_tensor *y = NULL;
    if (pick_room(&p, s->ctx, part->count)) {
        for (size_t i = 0; i < part->count; i++)
            pick_series(&p, i, s->train, (size_t)qkv__epoch_place(s->seed, "series classes",
                                                           qkv__first_sample(part) + i,
                                                           s->train->count));
        const qkv_series_batch in = {.data = p.data, .lengths = p.lengths, .count = part->count};
        qkv_cross_entropy_options o = {.smoothing = s->smoothing,
                                       .normalizer = (double)part->total};
        y = qkv__part_cross_entropy(t, part, qkv_series_class_logits(s->model, t, &in),
                                    qkv_tensor_ids(t, p.labels, 1, &part->count), &o);
    }
    pick_free(&p, s->ctx);
    return y;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* An evaluation of `count` series, evenly from all, EVAL_SERIES of them a part. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_series_set *set;
    size_t count;
    picked p;
} scorer;

/* out: the loss, then the guesses. */
static qkv_status classify_series_part(void *user, size_t part, double *out)
{
    scorer *s = user;
    size_t from = part * EVAL_SERIES, left = s->count - from;
    size_t n = left < EVAL_SERIES ? left : EVAL_SERIES;
    int32_t guesses[EVAL_SERIES] = {0};
    for (size_t i = 0; i < n; i++)
        pick_series(&s->p, i, s->set, qkv__evenly(from + i, s->count, s->set->count));
    const qkv_series_batch in = {.data = s->p.data, .lengths = s->p.lengths, .count = n};
    const qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = guesses};
    qkv_tape *t = s->tape;
    qkv__begin_inference(t);
    qkv_tensor *y = qkv_series_class_logits(s->model, t, &in);
    *out = (double)qkv_item(t, qkv_cross_entropy(t, y, qkv_tensor_ids(t, s->p.labels, 1, &n), &o));
    for (size_t i = 0; i < n; i++)
        out[1 + i] = guesses[i];
    return qkv_tape_status(t);
}

/* Classes and guesses (count) of the series, and the sum of the losses. */
static qkv_status score_series(scorer *s, int32_t *labels, int32_t *guesses, double *sum)
{
    qkv_context *ctx = qkv_model_context(s->model);
    size_t parts = (s->count + EVAL_SERIES - 1) / EVAL_SERIES;
    qkv_status status = pick_room(&s->p, ctx, EVAL_SERIES) ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < s->count; i++)
        labels[i] = s->set->labels[qkv__evenly(i, s->count, s->set->count)];
    if (!status)
        status = qkv__map_guesses(ctx, parts, EVAL_SERIES, NULL, s->count, classify_series_part, s,
                                  guesses, sum);
    qkv_tape_reset(s->tape);
    pick_free(&s->p, ctx);
    return status;
}

static qkv_status check_series_set(const qkv_model *m, const qkv_series_set *s, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_series_config *c = qkv_model_config(m);
    if (s->columns != c->columns || !s->count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data are %zu series of %zu columns, the "
                        "model reads %zu", what, s->count, s->columns, c->columns);
    for (size_t i = 0; i < s->count; i++) {
        size_t n = s->start[i + 1] - s->start[i];
        if (n < 1 || n > c->rows)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have a series of %zu rows, the "
                            "model reads 1 to %zu", what, n, c->rows);
        if (s->labels[i] < 0 || (size_t)s->labels[i] >= c->classes)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have class %d, the model %zu", what,
                            (int)s->labels[i], c->classes);
    }
    return QKV_OK;
}

qkv_status qkv_classify_series_evaluate(qkv_model *m, qkv_tape *t, const qkv_series_set *set,
                                        size_t limit, qkv_classify_score *out)
{
    *out = (qkv_classify_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_CLASSIFY_SERIES))
        return QKV_E_ARGUMENT;
    qkv_status status = check_series_set(m, set, "held-out");
    if (status)
        return status;
    qkv_context *ctx = qkv_model_context(m);
    const qkv_series_config *c = qkv_model_config(m);
    size_t count = qkv__limited(limit, set->count);
    int32_t *labels = qkv_malloc(ctx, 2 * count * sizeof *labels), *guesses = labels + count;
    scorer s = {.model = m, .tape = t, .set = set, .count = count};
    double sum = 0;
    status = labels ? score_series(&s, labels, guesses, &sum) : QKV_E_MEMORY;
    if (!status)
        *out = qkv__classify_score(guesses, labels, count, c->classes, sum);
    qkv_free(ctx, labels);
    return status;
}

static qkv_status task_classify_series_evaluate(void *self, qkv_tape *t, size_t limit,
                                                qkv_metrics *out)
{
    labelling *s = self;
    qkv_classify_score score;
    qkv_status status = qkv_classify_series_evaluate(s->model, t, s->valid, limit, &score);
    if (!status)
        *out = qkv__classify_metrics(&score, s->valid->count);
    return status;
}

/* ---- the task -------------------------------------------------------------------------------- */

static double classify_series_flops(void *self)
{
    const labelling *s = self;
    double rows_ = (double)s->train->start[s->train->count] / (double)s->train->count;
    return qkv_model_flops(s->model, &(qkv_workload){.samples = 1, .length = rows_});
}

static void classify_series_destroy(void *self)
{
    labelling *s = self;
    qkv_free(s->ctx, s);
}

static const qkv_task_type classify_series_type = {
    .name = "classify series", .unit = "series", .phases = 1, .loss = classify_series_loss,
    .evaluate = task_classify_series_evaluate, .flops = classify_series_flops,
    .destroy = classify_series_destroy};

qkv_status qkv_task_classify_series(qkv_task *out, qkv_model *model, const qkv_series_set *train,
                                    const qkv_series_set *valid, double smoothing, uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_CLASSIFY_SERIES))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(model);
    qkv_status status = check_series_set(model, train, "training");
    if (!status && valid)
        status = check_series_set(model, valid, "held-out");
    labelling *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (labelling){.ctx = ctx, .model = model, .train = train, .valid = valid,
                     .smoothing = smoothing, .seed = seed};
    return qkv__task_finish(out, status,
                            (qkv_task){&classify_series_type, s, model, seed, valid != NULL});
}
