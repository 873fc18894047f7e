/* chat.c - predicting what the assistant says: conversations laid one after another. */
#include <math.h>
#include <string.h>

#include "qkv/gpt.h"
#include "task/common.h"
#include "task/parts.h"

enum { IDS, MARKS, FIELDS };
enum { EVAL_ROWS = 4096 }; /* ids in one evaluation batch */

/* Conversations, each but its last id, and of each id the next one where the assistant says it. */
typedef struct {
    int32_t *ids, *targets; /* (rows) */
    int32_t *offsets;       /* (sequences + 1) */
    size_t rows, sequences, answers; /* answers: targets that are not ignored */
    size_t ids_room, targets_room, offsets_room;
} batch;

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_records *train, *valid;
    qkv_packed_batches *packs;
    uint64_t seed;
    batch b;
} chat;

/* ---- batches --------------------------------------------------------------------------------- */

static void chat_free_batch(qkv_context *ctx, batch *b)
{
    qkv_free(ctx, b->ids);
    qkv_free(ctx, b->targets);
    qkv_free(ctx, b->offsets);
}

static size_t chat_record(const qkv_records *r, uint64_t record, const int32_t *fields[FIELDS])
{
    (void)qkv_records_get(r, (size_t)record, MARKS, &fields[MARKS]);
    return qkv_records_get(r, (size_t)record, IDS, &fields[IDS]);
}

static size_t chat_answers(const qkv_records *r, uint64_t record)
{
    const int32_t *fields[FIELDS];
    size_t n = chat_record(r, record, fields), found = 0;
    for (size_t i = 1; i < n; i++)
        found += fields[MARKS][i] != 0;
    return found;
}

static bool chat_add(qkv_context *ctx, batch *b, const qkv_records *r, uint64_t record)
{
    const int32_t *fields[FIELDS];
    size_t n = chat_record(r, record, fields) - 1, rows = b->rows + n;
    if (!qkv__grow(ctx, &b->ids, &b->ids_room, rows, sizeof *b->ids) ||
        !qkv__grow(ctx, &b->targets, &b->targets_room, rows, sizeof *b->targets) ||
        !qkv__grow(ctx, &b->offsets, &b->offsets_room, b->sequences + 2, sizeof *b->offsets))
        return false;
    memcpy(b->ids + b->rows, fields[IDS], n * sizeof *b->ids);
    for (size_t i = 0; i < n; i++) {
        bool said = fields[MARKS][i + 1] != 0;
        b->targets[b->rows + i] = said ? fields[IDS][i + 1] : QKV_IGNORED;
        b->answers += said;
    }
    b->rows = rows;
    b->offsets[0] = 0;
    b->offsets[++b->sequences] = (int32_t)rows;
    return true;
}

static qkv_tensor *chat_batch_loss(const batch *b, qkv_model *m, qkv_tape *t,
                                   const qkv_cross_entropy_options *o)
{
    const size_t shape[] = {1, b->rows};
    qkv_tensor *h = qkv_lm_hidden(m, t, qkv_tensor_ids(t, b->ids, 2, shape), b->sequences,
                                  b->offsets, NULL);
    return qkv_lm_loss(m, t, h, qkv_tensor_ids(t, b->targets, 2, shape), o);
}

/* ---- training -------------------------------------------------------------------------------- */

static qkv_tensor *chat_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    chat *s = self;
    size_t answers = 0; /* of the whole update: they divide the loss */
    qkv_randomness r = {.seed = s->seed, .step = part->step, .samples = part->count};
    s->b.rows = s->b.sequences = s->b.answers = 0;
    for (size_t i = 0; i < part->total; i++) {
        const uint64_t *records;
        size_t n = qkv_packed_batches_get(s->packs, part->step * part->total + i, &records);
        for (size_t k = 0; k < n; k++) {
            answers += chat_answers(s->train, records[k]);
            if (i < part->first)
                r.first_row += qkv_records_get(s->train, (size_t)records[k], IDS,
                                               &(const int32_t *){NULL}) - 1;
            else if (i < part->first + part->count &&
                     !chat_add(s->ctx, &s->b, s->train, records[k]))
                return NULL;
        }
    }
    qkv_tape_randomness(t, &r);
    qkv_cross_entropy_options o = {.normalizer = answers ? (double)answers : 1};
    return chat_batch_loss(&s->b, s->model, t, &o);
}

/* Ids that a sample reads, on average. */
static size_t chat_units(void *self)
{
    chat *s = self;
    return qkv_records_ids(s->train, IDS) / qkv_packed_batches_per_epoch(s->packs);
}

static double chat_flops(void *self)
{
    chat *s = self;
    double rows = (double)chat_units(self);
    qkv_workload w = {.length = (double)qkv_records_ids(s->train, IDS) /
                                (double)qkv_records_count(s->train)};
    w.samples = rows / w.length;
    return qkv_model_flops(s->model, &w);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

enum { LOSS, ANSWERS, RIGHT, TOKENS, SUMS }; /* of a part */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *tape;
    qkv__record_parts parts;
    batch b;
    int32_t *guesses;
    size_t room;
} chat_scorer;

static qkv_status chat_score_part(void *user, size_t part, double *sums)
{
    chat_scorer *s = user;
    batch *b = &s->b;
    b->rows = b->sequences = b->answers = 0;
    for (size_t i = s->parts.begins[part]; i < s->parts.begins[part + 1]; i++)
        if (!chat_add(s->ctx, b, s->parts.records, qkv__record_number(&s->parts, i)))
            return QKV_E_MEMORY;
    if (!qkv__grow(s->ctx, &s->guesses, &s->room, b->rows, sizeof *s->guesses))
        return QKV_E_MEMORY;
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = s->guesses};
    qkv__begin_inference(s->tape);
    sums[LOSS] = (double)qkv_item(s->tape, chat_batch_loss(b, s->model, s->tape, &o));
    for (size_t i = 0; i < b->rows; i++)
        sums[RIGHT] += b->targets[i] != QKV_IGNORED && s->guesses[i] == b->targets[i];
    sums[ANSWERS] = (double)b->answers;
    sums[TOKENS] = (double)b->rows;
    return qkv_tape_status(s->tape);
}

static qkv_status chat_check_records(qkv_context *ctx, const qkv_model *m, const qkv_records *r,
                                     const char *what)
{
    if (qkv_records_fields(r) != FIELDS || !qkv_records_count(r) ||
        qkv_records_ids(r, IDS) != qkv_records_ids(r, MARKS))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s conversations: records of ids and as many "
                        "marks expected", what);
    for (size_t i = 0; i < qkv_records_count(r); i++) {
        const int32_t *ids;
        size_t n = qkv_records_get(r, i, IDS, &ids);
        if (n < 2 || n != qkv_records_get(r, i, MARKS, &ids) || n - 1 > qkv_lm_positions(m))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s conversation %zu: 2 to %zu ids and as "
                            "many marks expected, found %zu ids", what, i + 1,
                            qkv_lm_positions(m) + 1, n);
    }
    int32_t max = qkv_records_max(r, IDS);
    if (max < 0 || (size_t)max >= qkv_lm_vocab(m))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s conversations have token %d, the model only "
                        "%zu", what, (int)max, qkv_lm_vocab(m));
    return QKV_OK;
}

static qkv_status chat_score(qkv_model *m, qkv_tape *t, const qkv_records *records, size_t limit,
                             qkv_chat_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t count = qkv_records_count(records), ids = qkv_records_ids(records, IDS);
    if (limit && ids > limit)
        count = (size_t)((double)count * (double)limit / (double)ids);
    chat_scorer s = {.ctx = ctx, .model = m, .tape = t,
                     .parts = {.records = records, .count = count ? count : 1}};
    double sums[SUMS] = {0};
    *out = (qkv_chat_score){0};
    qkv_status status = qkv__record_parts_cut(&s.parts, ctx, IDS, 1, EVAL_ROWS);
    if (!status)
        status = qkv__dist_map_sum(ctx, s.parts.parts, SUMS, chat_score_part, &s, sums);
    if (!status && !(sums[ANSWERS] > 0))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the assistant says nothing in the conversations");
    if (!status)
        *out = (qkv_chat_score){sums[LOSS] / sums[ANSWERS], exp(sums[LOSS] / sums[ANSWERS]),
                                sums[RIGHT] / sums[ANSWERS], (size_t)sums[ANSWERS],
                                (size_t)sums[TOKENS]};
    qkv_tape_reset(t);
    chat_free_batch(ctx, &s.b);
    qkv_free(ctx, s.guesses);
    qkv_free(ctx, s.parts.begins);
    return status;
}

qkv_status qkv_chat_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records, size_t limit,
                             qkv_chat_score *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_status status = chat_check_records(qkv_model_context(m), m, records, "held-out");
    return status ? status : chat_score(m, t, records, limit, out);
}

static qkv_status chat_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    chat *s = self;
    qkv_chat_score score;
    qkv_status status = chat_score(s->model, t, s->valid, limit, &score);
    *out = (qkv_metrics){.item = {{"loss", score.loss}, {"perplexity", score.perplexity},
                                  {"accuracy", score.accuracy}},
                         .count = 3, .scored = score.tokens,
                         .units = qkv_records_ids(s->valid, IDS) -
                                  qkv_records_count(s->valid)};
    return status;
}

/* ---- the task -------------------------------------------------------------------------------- */

static void chat_destroy(void *self)
{
    chat *s = self;
    qkv_packed_batches_destroy(s->packs);
    chat_free_batch(s->ctx, &s->b);
    qkv_free(s->ctx, s);
}

static const qkv_task_type chat_type = {.name = "chat", .unit = "tokens", .phases = 1,
                                        .loss = chat_loss, .evaluate = chat_evaluate,
                                        .units = chat_units, .flops = chat_flops,
                                        .destroy = chat_destroy};

qkv_status qkv_task_chat(qkv_task *out, qkv_model *model, const qkv_records *train,
                         const qkv_records *valid, size_t length, uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(model);
    qkv_status status = chat_check_records(ctx, model, train, "training");
    if (!status && valid)
        status = chat_check_records(ctx, model, valid, "held-out");
    chat *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (chat){.ctx = ctx, .model = model, .train = train, .valid = valid, .seed = seed};
    status = qkv_packed_batches_create(&s->packs, ctx, train, FIELDS * length, seed);
    return qkv__task_finish(out, status, (qkv_task){&chat_type, s, model, seed, valid != NULL});
}
