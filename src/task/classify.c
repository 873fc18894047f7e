/* classify.c - choosing a class for a text, or for a pair of texts. */
#include "qkv/bert.h"
#include "task/common.h"
#include "task/masking.h"
#include "task/packed.h"
#include "task/parts.h"

enum { EVAL_ROWS = 4096, FIELDS = 3, LABEL = 2 }; /* ids in one evaluation batch; of a record */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_records *train, *valid;
    uint64_t seed;
    qkv_classify_options o;
    qkv__masking masking; /* when words are dropped */
    qkv__packed texts[2]; /* of the part at hand; the second reading, where there is one */
    int32_t *labels;      /* (texts), once for every reading */
    size_t room;
} classify;

static int32_t classify_label_of(const qkv_records *r, size_t record)
{
    const int32_t *label;
    qkv_records_get(r, record, LABEL, &label);
    return *label;
}

/* Logits (texts, classes). */
static qkv_tensor *classify_logits(const qkv__packed *p, qkv_model *m, qkv_tape *t)
{
    return qkv_bert_class_logits(m, t, qkv__packed_hidden(p, m, t),
                                 qkv_tensor_ids(t, p->offsets, 1, &p->sequences));
}

/* ---- training ---------------------------------------------------------------------------- */

/* The record that is the sample: each epoch has an order of its own. */
static size_t record_of(const classify *s, uint64_t sample)
{
    return (size_t)qkv__epoch_place(s->seed, "classify", sample, qkv_records_count(s->train));
}

static size_t record_ids(const qkv_records *r, size_t record)
{
    const int32_t *ids;
    return qkv_records_get(r, record, 0, &ids) + qkv_records_get(r, record, 1, &ids);
}

static size_t readings(const classify *s)
{
    return s->o.rdrop > 0 ? 2 : 1;
}

/* Adds reading 0 or 1 of the part's texts. */
static void classify_add_part(classify *s, const qkv_micro_batch *part, size_t reading)
{
    for (size_t i = 0; i < part->count; i++) {
        uint64_t sample = qkv__first_sample(part) + i;
        qkv__packed *p = &s->texts[reading];
        size_t record = record_of(s, sample), row = p->rows;
        qkv__packed_record(p, s->train, record, 2);
        s->labels[reading * part->count + i] = classify_label_of(s->train, record);
        if (s->masking.share > 0 && !p->failed)
            qkv__masking_drop(&s->masking, sample | (uint64_t)reading << 63, p->ids + row,
                              p->rows - row);
    }
}

/* Fills in the part's texts; *first_row: ids of the update's samples before it. */
static bool classify_make_part(classify *s, const qkv_micro_batch *part, size_t *first_row)
{
    *first_row = 0;
    for (size_t i = 0; i < part->first; i++)
        *first_row += record_ids(s->train, record_of(s, part->step * part->total + i));
    if (!qkv__grow(s->ctx, &s->labels, &s->room, readings(s) * part->count, sizeof *s->labels))
        return false;
    bool failed = false;
    for (size_t i = 0; i < readings(s); i++) {
        qkv__packed_clear(&s->texts[i]);
        classify_add_part(s, part, i);
        failed = failed || s->texts[i].failed;
    }
    return !failed;
}

static qkv_tensor *classify_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    classify *s = self;
    size_t first_row;
    if (!classify_make_part(s, part, &first_row))
        return NULL;
    qkv_randomness r = {.seed = s->seed, .step = part->step, .first_row = first_row,
                        .samples = part->count};
    qkv_tensor *y[2];
    for (size_t i = 0; i < readings(s); i++) {
        r.seed = s->seed ^ (uint64_t)i << 63;
        qkv_tape_randomness(t, &r);
        y[i] = classify_logits(&s->texts[i], s->model, t);
    }
    size_t count = readings(s) * part->count;
    qkv_cross_entropy_options o = {.smoothing = s->o.smoothing, .rdrop = s->o.rdrop,
                                   .normalizer = (double)(readings(s) * part->total)};
    return qkv__part_cross_entropy(t, part, readings(s) == 1 ? y[0] : qkv_concat(t, 0, 2, y),
                                   qkv_tensor_ids(t, s->labels, 1, &count), &o);
}

/* ---- evaluation -------------------------------------------------------------------------- */

typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    qkv__record_parts parts;
    qkv__packed texts;          /* of the part at hand */
    int32_t *labels, *guesses;  /* (count); of the part at hand */
} scorer;

/* out: the loss, then the guesses. */
static qkv_status classify_part(void *user, size_t part, double *out)
{
    scorer *s = user;
    qkv__packed *p = &s->texts;
    size_t from = s->parts.begins[part], to = s->parts.begins[part + 1];
    qkv__packed_clear(p);
    for (size_t i = from; i < to; i++)
        qkv__packed_record(p, s->parts.records, qkv__record_number(&s->parts, i), 2);
    if (p->failed)
        return QKV_E_MEMORY;
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = s->guesses};
    qkv__begin_inference(s->tape);
    qkv_tensor *y = classify_logits(p, s->model, s->tape);
    qkv_tensor *labels = qkv_tensor_ids(s->tape, s->labels + from, 1, &p->sequences);
    *out = (double)qkv_item(s->tape, qkv_cross_entropy(s->tape, y, labels, &o));
    for (size_t i = 0; i < to - from; i++)
        out[1 + i] = s->guesses[i];
    return qkv_tape_status(s->tape);
}

/* guesses (count) of the scorer's records. */
static qkv_status classify_score_all(scorer *s, qkv_context *ctx, int32_t *guesses, double *sum)
{
    const size_t *begins = s->parts.begins;
    size_t most = 0;
    for (size_t i = 0; i < s->parts.parts; i++)
        most = begins[i + 1] - begins[i] > most ? begins[i + 1] - begins[i] : most;
    s->guesses = qkv_calloc(ctx, most, sizeof *s->guesses);
    for (size_t i = 0; i < s->parts.count; i++)
        s->labels[i] = classify_label_of(s->parts.records, qkv__record_number(&s->parts, i));
    qkv_status status = !s->guesses ? QKV_E_MEMORY
                                    : qkv__map_guesses(ctx, s->parts.parts, most, begins,
                                                       s->parts.count, classify_part, s, guesses,
                                                       sum);
    qkv_tape_reset(s->tape);
    qkv__packed_free(&s->texts);
    qkv_free(ctx, s->guesses);
    return status;
}

static qkv_status classify_evaluate_all(qkv_model *m, qkv_tape *t, const qkv_records *r,
                                        size_t limit, qkv_classify_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_bert_config *c = qkv_model_config(m);
    size_t count = qkv__limited(limit, qkv_records_count(r));
    int32_t *labels = qkv_malloc(ctx, 2 * count * sizeof *labels), *guesses = labels + count;
    scorer s = {.model = m, .tape = t, .parts = {.records = r, .count = count}, .labels = labels,
                .texts.ctx = ctx};
    double sum = 0;
    qkv_status status = labels ? qkv__record_parts_cut(&s.parts, ctx, 0, 2, EVAL_ROWS)
                               : QKV_E_MEMORY;
    if (!status)
        status = classify_score_all(&s, ctx, guesses, &sum);
    if (!status)
        *out = qkv__classify_score(guesses, labels, count, c->classes, sum);
    qkv_free(ctx, s.parts.begins);
    qkv_free(ctx, labels);
    return status;
}

/* ---- the task ---------------------------------------------------------------------------- */

static qkv_status classify_check(qkv_model *m, const qkv_records *r, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_bert_config *c = qkv_model_config(m);
    if (qkv_records_fields(r) != FIELDS || qkv_records_ids(r, LABEL) != qkv_records_count(r))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data are no labelled texts", what);
    if (qkv_records_max(r, LABEL) >= (int64_t)c->classes)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have class %d, the model only %zu",
                        what, (int)qkv_records_max(r, LABEL), c->classes);
    return qkv__packed_check(m, r, 2, what);
}

qkv_status qkv_classify_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                 size_t limit, qkv_classify_score *out)
{
    *out = (qkv_classify_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_CLASSIFY_TEXT))
        return QKV_E_ARGUMENT;
    qkv_status status = classify_check(m, records, "held-out");
    return status ? status : classify_evaluate_all(m, t, records, limit, out);
}

static qkv_status task_classify_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    classify *s = self;
    qkv_classify_score score;
    qkv_status status = classify_evaluate_all(s->model, t, s->valid, limit, &score);
    if (!status)
        *out = qkv__classify_metrics(&score, qkv_records_count(s->valid));
    return status;
}

static double classify_flops(void *self)
{
    classify *s = self;
    double tokens = (double)(qkv_records_ids(s->train, 0) + qkv_records_ids(s->train, 1));
    double n = (double)readings(s);
    return qkv_model_flops(s->model,
                           &(qkv_workload){.samples = n, .predictions = n,
                                           .length = tokens / (double)qkv_records_count(s->train)});
}

static void classify_destroy(void *self)
{
    classify *s = self;
    qkv_context *ctx = s->ctx;
    qkv__masking_free(&s->masking, ctx);
    for (size_t i = 0; i < 2; i++)
        qkv__packed_free(&s->texts[i]);
    qkv_free(ctx, s->labels);
    qkv_free(ctx, s);
}

static const qkv_task_type classify_type = {.name = "classify", .unit = "texts", .phases = 1,
                                            .loss = classify_loss,
                                            .evaluate = task_classify_evaluate,
                                            .flops = classify_flops, .destroy = classify_destroy};

static qkv_status classify_check_options(qkv_context *ctx, const qkv_classify_options *o,
                                         const qkv_tokenizer *tokenizer)
{
    if (!(o->rdrop >= 0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "rdrop is 0 or more, not %g", o->rdrop);
    return qkv__masking_check_drop(ctx, o->drop, tokenizer);
}

qkv_status qkv_task_classify(qkv_task *out, qkv_model *model, const qkv_records *train,
                             const qkv_records *valid, const qkv_tokenizer *tokenizer,
                             const qkv_classify_options *options, uint64_t seed)
{
    qkv_classify_options o = options ? *options : (qkv_classify_options){0};
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_CLASSIFY_TEXT))
        return QKV_E_ARGUMENT;
    qkv_status status = classify_check_options(ctx, &o, tokenizer);
    if (!status)
        status = classify_check(model, train, "training");
    if (!status && valid)
        status = classify_check(model, valid, "held-out");
    classify *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (classify){.ctx = ctx, .model = model, .train = train, .valid = valid, .seed = seed,
                    .o = o, .texts = {{.ctx = ctx}, {.ctx = ctx}}};
    const qkv_bert_config *c = qkv_model_config(model);
    if (o.drop > 0)
        status = qkv__masking_init(&s->masking, ctx, tokenizer, c->vocab, o.drop, seed);
    return qkv__task_finish(out, status,
                            (qkv_task){&classify_type, s, model, seed, valid != NULL});
}
