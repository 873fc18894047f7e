/* bag.c - learning a text's label from its words, and evaluating that. */
#include "qkv/bag.h"

#include "base/base.h"
#include "model/model.h"
#include "qkv/score.h"
#include "qkv/task.h"
#include "task/packed.h"

enum { EVAL_ROWS = 4096, FIELDS = 3, LABEL = 2 }; /* ids evaluated at once; of a record */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_records *train, *valid;
    uint64_t seed;
    qkv__packed texts; /* of the part at hand */
    qkv_ids labels;
} bag;

/* The record that is the sample: each epoch has an order of its own. */
static size_t bag_record_of(const bag *b, uint64_t sample)
{
    size_t n = qkv_records_count(b->train);
    qkv_rng r;
    qkv_rng_init(&r, b->seed, qkv_hash64("bag", 3) + sample / n);
    uint64_t order = (uint64_t)qkv_rng_u32(&r) << 32;
    return (size_t)qkv_shuffled(sample % n, n, order | qkv_rng_u32(&r));
}

/* Puts a record's text behind the others and its label behind theirs; false: no memory. */
static bool add(qkv__packed *texts, qkv_ids *labels, const qkv_records *r, size_t record)
{
    const int32_t *label;
    qkv_records_get(r, record, LABEL, &label);
    qkv__packed_record(texts, r, record, 2);
    return !texts->failed && qkv__ids_push(texts->ctx, labels, *label);
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    bag *b = self;
    qkv__packed_clear(&b->texts);
    b->labels.count = 0;
    for (size_t i = 0; i < part->count; i++)
        if (!add(&b->texts, &b->labels, b->train,
                 bag_record_of(b, part->step * part->total + part->first + i)))
            return NULL;
    qkv_cross_entropy_options o = {.normalizer = (double)part->total};
    qkv_tensor *y = qkv_bag_logits(b->model, t, b->texts.ids, b->texts.offsets, part->count);
    return qkv_cross_entropy(t, y, qkv_tensor_ids(t, b->labels.data, 1, &part->count), &o);
}

/* ---- evaluation -------------------------------------------------------------------------- */

static qkv_status score_all(qkv_model *m, qkv_tape *t, const qkv__packed *texts,
                            const qkv_ids *labels, int32_t *guesses, qkv_bag_score *sum)
{
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = guesses};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *y = qkv_bag_logits(m, t, texts->ids, texts->offsets, labels->count);
    y = qkv_cross_entropy(t, y, qkv_tensor_ids(t, labels->data, 1, &labels->count), &o);
    if (qkv_tape_status(t))
        return qkv_tape_status(t);
    sum->loss += (double)qkv_item(t, y);
    sum->accuracy += (double)labels->count * qkv_accuracy(guesses, labels->data, labels->count);
    return QKV_OK;
}

static qkv_status check(qkv_model *m, const qkv_records *r, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_bag_config *c = qkv_model_config(m);
    if (qkv_records_fields(r) != FIELDS || qkv_records_ids(r, LABEL) != qkv_records_count(r) ||
        !qkv_records_count(r))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data are no labelled texts", what);
    const size_t room[FIELDS] = {c->vocab, c->vocab, c->classes};
    for (size_t f = 0; f < FIELDS; f++)
        if (qkv_records_max(r, f) >= (int64_t)room[f])
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have %s %d, the model only %zu", what,
                            f == LABEL ? "class" : "token", (int)qkv_records_max(r, f), room[f]);
    return QKV_OK;
}

qkv_status qkv_bag_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records, size_t limit,
                            qkv_bag_score *out)
{
    *out = (qkv_bag_score){0};
    if (!qkv__model_of(m, NULL, __func__, qkv_bag_type()))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    qkv_status status = check(m, records, "held-out");
    qkv__packed texts = {.ctx = ctx};
    qkv_ids labels = {0};
    size_t n = status ? 0 : qkv_records_count(records), count = limit && limit < n ? limit : n;
    int32_t *guesses = qkv_malloc(ctx, (count + 1) * sizeof *guesses);
    if (!status && !guesses)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        if (!add(&texts, &labels, records, (size_t)((double)i * (double)n / (double)count)))
            status = QKV_E_MEMORY;
        if (status || (texts.rows < EVAL_ROWS && i + 1 < count))
            continue;
        status = score_all(m, t, &texts, &labels, guesses, out);
        qkv__packed_clear(&texts);
        labels.count = 0;
    }
    *out = (qkv_bag_score){out->loss / (double)count, out->accuracy / (double)count, count};
    qkv_tape_reset(t);
    qkv_free(ctx, guesses);
    qkv_ids_free(&labels, ctx);
    qkv__packed_free(&texts);
    return status;
}

static qkv_status bag_task_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    bag *b = self;
    qkv_bag_score score;
    *out = (qkv_metrics){0};
    qkv_status status = qkv_bag_evaluate(b->model, t, b->valid, limit, &score);
    if (status)
        return status;
    qkv_metrics_add(out, "accuracy", score.accuracy);
    qkv_metrics_add(out, "loss", score.loss);
    out->more_is_better = true;
    out->scored = score.texts;
    out->units = qkv_records_count(b->valid);
    return QKV_OK;
}

/* ---- the task ---------------------------------------------------------------------------- */

static double bag_task_flops(void *self)
{
    bag *b = self;
    double tokens = (double)(qkv_records_ids(b->train, 0) + qkv_records_ids(b->train, 1));
    return qkv_model_flops(b->model,
                           &(qkv_workload){.samples = 1,
                                           .length = tokens / (double)qkv_records_count(b->train)});
}

static void destroy(void *self)
{
    bag *b = self;
    qkv__packed_free(&b->texts);
    qkv_ids_free(&b->labels, b->ctx);
    qkv_free(b->ctx, b);
}

static const qkv_task_type bag_type = {.name = "bag", .unit = "texts", .phases = 1, .loss = loss,
                                       .evaluate = bag_task_evaluate, .flops = bag_task_flops,
                                       .destroy = destroy};

qkv_status qkv_task_bag(qkv_task *out, qkv_model *model, const qkv_records *train,
                        const qkv_records *valid, uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_of(model, NULL, __func__, qkv_bag_type()))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(model);
    qkv_status status = check(model, train, "training");
    if (!status && valid)
        status = check(model, valid, "held-out");
    bag *b = status ? NULL : qkv_calloc(ctx, 1, sizeof *b);
    if (!b)
        return status ? status : QKV_E_MEMORY;
    *b = (bag){.ctx = ctx, .model = model, .train = train, .valid = valid, .seed = seed,
               .texts.ctx = ctx};
    *out = (qkv_task){&bag_type, b, model, seed, valid != NULL};
    return QKV_OK;
}
