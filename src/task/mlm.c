/* mlm.c - guessing hidden words: masked language modelling. */
#include <math.h>

#include "qkv/bert.h"
#include "task/common.h"
#include "task/masking.h"
#include "task/packed.h"
#include "task/parts.h"

enum { EVAL_ROWS = 4096 };                       /* ids in one evaluation batch */
static const uint64_t EVAL_SEED = 0x6D61736B65640ull; /* all models are asked the same words */

/* Texts with words hidden in them. */
typedef struct {
    qkv__packed texts;
    int32_t *rows, *targets; /* (hidden): which rows of texts, and what was there */
    size_t hidden, rows_room, targets_room;
} batch;

/* Where a sample of the update begins. */
typedef struct {
    size_t row, sequence, hidden;
} mark;

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_records *train, *valid;
    qkv_packed_batches *packs;
    qkv_mlm_options o;
    uint64_t seed;
    qkv__masking masking;
    batch update, part; /* all samples of the update at hand, and those of the part at hand */
    mark *marks;        /* (samples + 1) of the update */
    size_t samples, marks_room;
    uint64_t step;
} mlm;

/* ---- batches ----------------------------------------------------------------------------- */

static void free_batch(batch *b)
{
    qkv_free(b->texts.ctx, b->rows);
    qkv_free(b->texts.ctx, b->targets);
    qkv__packed_free(&b->texts);
    *b = (batch){.texts = b->texts};
}

static void mlm_clear(batch *b)
{
    qkv__packed_clear(&b->texts);
    b->hidden = 0;
}

/* Room for a hidden word in every row. */
static bool mlm_make_room(batch *b)
{
    qkv_context *ctx = b->texts.ctx;
    size_t n = b->texts.row_room;
    return !b->texts.failed && qkv__grow(ctx, &b->rows, &b->rows_room, n, sizeof *b->rows) &&
           qkv__grow(ctx, &b->targets, &b->targets_room, n, sizeof *b->targets);
}

/* Hides words of the rows from `begin` on. */
static bool hide(batch *b, const qkv__masking *m, uint64_t sample, size_t begin)
{
    if (!mlm_make_room(b))
        return false;
    b->hidden += qkv__masking_hide(m, sample, b->texts.ids + begin, b->texts.rows - begin, begin,
                                   b->rows + b->hidden, b->targets + b->hidden);
    return true;
}

static qkv_tensor *mlm_batch_loss(const batch *b, qkv_model *m, qkv_tape *t,
                                  const qkv_cross_entropy_options *o)
{
    qkv_tensor *h = qkv__packed_hidden(&b->texts, m, t);
    return qkv_bert_word_loss(m, t, h, qkv_tensor_ids(t, b->rows, 1, &b->hidden),
                              qkv_tensor_ids(t, b->targets, 1, &b->hidden), o);
}

/* ---- training ---------------------------------------------------------------------------- */

/* All packs of the update, words hidden: how many there are in all divides the loss. */
static bool make_update(mlm *s, const qkv_micro_batch *part)
{
    if (s->samples == part->total && s->step == part->step)
        return true;
    s->samples = 0;
    mlm_clear(&s->update);
    if (!qkv__grow(s->ctx, &s->marks, &s->marks_room, part->total + 1, sizeof *s->marks))
        return false;
    batch *u = &s->update;
    for (size_t i = 0; i < part->total; i++) {
        uint64_t sample = part->step * part->total + i;
        const uint64_t *records;
        size_t n = qkv_packed_batches_get(s->packs, sample, &records), begin = u->texts.rows;
        s->marks[i] = (mark){begin, u->texts.sequences, u->hidden};
        for (size_t k = 0; k < n; k++)
            qkv__packed_record(&u->texts, s->train, (size_t)records[k], 1);
        if (!hide(u, &s->masking, sample, begin))
            return false;
    }
    s->marks[part->total] = (mark){u->texts.rows, u->texts.sequences, u->hidden};
    s->samples = part->total;
    s->step = part->step;
    return true;
}

static bool mlm_make_part(mlm *s, size_t first, size_t count)
{
    const mark *from = &s->marks[first], *to = &s->marks[first + count];
    const batch *u = &s->update;
    batch *b = &s->part;
    mlm_clear(b);
    for (size_t i = from->sequence; i < to->sequence; i++) {
        int32_t begin = u->texts.offsets[i], end = u->texts.offsets[i + 1];
        qkv__packed_add(&b->texts, u->texts.ids + begin, (size_t)(end - begin), 0);
        qkv__packed_end(&b->texts);
    }
    if (!mlm_make_room(b))
        return false;
    for (size_t i = from->hidden; i < to->hidden; i++) {
        b->rows[b->hidden] = u->rows[i] - (int32_t)from->row;
        b->targets[b->hidden++] = u->targets[i];
    }
    return true;
}

static qkv_tensor *mlm_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    mlm *s = self;
    if (!make_update(s, part) || !mlm_make_part(s, part->first, part->count))
        return NULL;
    qkv_randomness r = {.seed = s->seed, .step = part->step,
                        .first_row = s->marks[part->first].row, .samples = part->count};
    qkv_tape_randomness(t, &r);
    size_t all = s->update.hidden;
    qkv_cross_entropy_options o = {.normalizer = all ? (double)all : 1};
    return mlm_batch_loss(&s->part, s->model, t, &o);
}

/* ---- evaluation -------------------------------------------------------------------------- */

enum { LOSS, WORDS, RIGHT, IDS, SUMS }; /* of a part */

typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv__masking *masking;
    qkv__record_parts parts;
    batch b; /* the part at hand */
    int32_t *guesses;
    size_t room;
} evaluation;

/* Fills b with the part's texts, words hidden. */
static bool mlm_read_part(evaluation *j, size_t part)
{
    batch *b = &j->b;
    mlm_clear(b);
    for (size_t i = j->parts.begins[part]; i < j->parts.begins[part + 1]; i++) {
        size_t record = qkv__record_number(&j->parts, i), begin = b->texts.rows;
        qkv__packed_record(&b->texts, j->parts.records, record, 1);
        if (!hide(b, j->masking, record, begin))
            return false;
    }
    return qkv__grow(b->texts.ctx, &j->guesses, &j->room, b->rows_room, sizeof *j->guesses);
}

static qkv_status mlm_evaluate_part(void *user, size_t part, double *sums)
{
    evaluation *j = user;
    const batch *b = &j->b;
    if (!mlm_read_part(j, part))
        return QKV_E_MEMORY;
    if (b->hidden) {
        qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM, .row_argmax = j->guesses};
        qkv__begin_inference(j->tape);
        sums[LOSS] = (double)qkv_item(j->tape, mlm_batch_loss(b, j->model, j->tape, &o));
        if (qkv_tape_status(j->tape))
            return qkv_tape_status(j->tape);
    }
    for (size_t i = 0; i < b->hidden; i++)
        sums[RIGHT] += j->guesses[i] == b->targets[i];
    sums[WORDS] = (double)b->hidden;
    sums[IDS] = (double)b->texts.rows;
    return QKV_OK;
}

/* Records to evaluate: all, or as many as hold about `limit` ids. */
static size_t evaluated(const qkv_records *r, size_t limit)
{
    size_t n = qkv_records_count(r), ids = qkv_records_ids(r, 0);
    if (!limit || ids <= limit)
        return n;
    size_t some = (size_t)((double)n * (double)limit / (double)ids);
    return some ? some : 1;
}

static qkv_status mlm_evaluate_with(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                    const qkv__masking *masking, size_t limit, qkv_mlm_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    evaluation j = {.model = m, .tape = t, .masking = masking, .b.texts.ctx = ctx,
                    .parts = {.records = records, .count = evaluated(records, limit)}};
    double sums[SUMS] = {0};
    *out = (qkv_mlm_score){0};
    qkv_status status = qkv__record_parts_cut(&j.parts, ctx, 0, 1, EVAL_ROWS);
    if (!status)
        status = qkv__dist_map_sum(ctx, j.parts.parts, SUMS, mlm_evaluate_part, &j, sums);
    if (!status && !(sums[WORDS] > 0))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "no word was hidden: the text is too short");
    if (!status) {
        out->loss = sums[LOSS] / sums[WORDS];
        out->perplexity = exp(out->loss);
        out->accuracy = sums[RIGHT] / sums[WORDS];
        out->words = (size_t)sums[WORDS];
        out->tokens = (size_t)sums[IDS];
    }
    qkv_tape_reset(t);
    free_batch(&j.b);
    qkv_free(ctx, j.guesses);
    qkv_free(ctx, j.parts.begins);
    return status;
}

qkv_status qkv_mlm_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                            const qkv_tokenizer *tokenizer, const qkv_mlm_options *options,
                            size_t limit, qkv_mlm_score *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_FILL_MASK))
        return QKV_E_ARGUMENT;
    qkv_mlm_options o = options ? *options : qkv_mlm_defaults();
    qkv_context *ctx = qkv_model_context(m);
    qkv__masking masking = {0};
    qkv_status status = qkv__packed_check(m, records, 1, "held-out");
    if (!status)
        status = qkv__masking_init(&masking, ctx, tokenizer,
                                   ((const qkv_bert_config *)qkv_model_config(m))->vocab, o.share,
                                   EVAL_SEED);
    if (!status)
        status = mlm_evaluate_with(m, t, records, &masking, limit, out);
    qkv__masking_free(&masking, ctx);
    return status;
}

/* ---- the task ---------------------------------------------------------------------------- */

static qkv_status mlm_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    mlm *s = self;
    qkv_mlm_score score;
    qkv__masking fixed = s->masking;
    fixed.seed = EVAL_SEED;
    qkv_status status = mlm_evaluate_with(s->model, t, s->valid, &fixed, limit, &score);
    *out = (qkv_metrics){.item = {{"loss", score.loss}, {"perplexity", score.perplexity},
                                  {"accuracy", score.accuracy}},
                         .count = 3, .scored = score.tokens,
                         .units = qkv_records_ids(s->valid, 0)};
    return status;
}

/* In a pack, on average. */
static size_t mlm_units(void *self)
{
    mlm *s = self;
    return qkv_records_ids(s->train, 0) / qkv_packed_batches_per_epoch(s->packs);
}

static double mlm_flops(void *self)
{
    mlm *s = self;
    double rows = (double)mlm_units(self);
    qkv_workload w = {.length = (double)qkv_records_ids(s->train, 0) /
                                (double)qkv_records_count(s->train),
                      .predictions = s->o.share * rows};
    w.samples = rows / w.length;
    return qkv_model_flops(s->model, &w);
}

static void mlm_destroy(void *self)
{
    mlm *s = self;
    qkv_context *ctx = s->ctx;
    qkv_packed_batches_destroy(s->packs);
    qkv__masking_free(&s->masking, ctx);
    free_batch(&s->update);
    free_batch(&s->part);
    qkv_free(ctx, s->marks);
    qkv_free(ctx, s);
}

static const qkv_task_type mlm_type = {.name = "mlm", .unit = "tokens", .phases = 1, .loss =
    mlm_loss,
                                       .evaluate = mlm_evaluate, .units = mlm_units,
                                       .flops = mlm_flops, .destroy = mlm_destroy};

qkv_mlm_options qkv_mlm_defaults(void) { return (qkv_mlm_options){.budget = 4096, .share = 0.15}; }

qkv_status qkv_task_mlm(qkv_task *out, qkv_model *model, const qkv_records *train,
                        const qkv_records *valid, const qkv_tokenizer *tokenizer,
                        const qkv_mlm_options *options, uint64_t seed)
{
    qkv_mlm_options o = options ? *options : qkv_mlm_defaults();
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_FILL_MASK))
        return QKV_E_ARGUMENT;
    qkv_status status = QKV_OK;
    if (!(o.share > 0 && o.share <= 1))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the share of hidden words is above 0 and at most "
                          "1, not %g", o.share);
    if (!status)
        status = qkv__packed_check(model, train, 1, "training");
    if (!status && valid)
        status = qkv__packed_check(model, valid, 1, "held-out");
    mlm *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (mlm){.ctx = ctx, .model = model, .train = train, .valid = valid, .o = o, .seed = seed,
               .update.texts.ctx = ctx, .part.texts.ctx = ctx};
    const qkv_bert_config *c = qkv_model_config(model);
    status = qkv__masking_init(&s->masking, ctx, tokenizer, c->vocab, o.share, seed);
    if (!status)
        status = qkv_packed_batches_create(&s->packs, ctx, train, o.budget, seed);
    return qkv__task_finish(out, status, (qkv_task){&mlm_type, s, model, seed, valid != NULL});
}
