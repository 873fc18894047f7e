/* embed.c - vectors of texts, learnt from pairs that mean the same. */
#include "qkv/bert.h"
#include "qkv/embed.h"
#include "task/common.h"
#include "task/masking.h"
#include "task/vectors.h"

enum { SIDES = 2 }; /* fields of a record */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_records *train, *valid;
    uint64_t seed;
    qkv_embed_options o;
    qkv__masking masking; /* when words are dropped */
    qkv__packed texts;    /* of the part at hand: all texts, then all partners */
} embed;

qkv_embed_options qkv_embed_defaults(void) { return (qkv_embed_options){.temperature = 0.05}; }

/* ---- training ---------------------------------------------------------------------------- */

/* The record that is the sample: each epoch has an order of its own. */
static size_t embed_record_of(const embed *s, uint64_t sample)
{
    return (size_t)qkv__epoch_place(s->seed, "embed", sample, qkv_records_count(s->train));
}

/* Ids of the update's samples before the part. */
static size_t ids_before(const embed *s, const qkv_micro_batch *part)
{
    size_t rows = 0;
    for (size_t i = 0; i < part->first; i++)
        for (size_t side = 0; side < SIDES; side++) {
            const int32_t *ids;
            rows += qkv_records_get(s->train, embed_record_of(s, part->step * part->total + i),
                                    side, &ids);
        }
    return rows;
}

static bool embed_make_part(embed *s, const qkv_micro_batch *part)
{
    qkv__packed *p = &s->texts;
    qkv__packed_clear(p);
    for (size_t side = 0; side < SIDES; side++)
        for (size_t i = 0; i < part->count; i++) {
            uint64_t sample = qkv__first_sample(part) + i;
            size_t row = p->rows;
            qkv__packed_field(p, s->train, embed_record_of(s, sample), side);
            if (s->masking.share > 0 && !p->failed)
                qkv__masking_drop(&s->masking, sample | (uint64_t)side << 63, p->ids + row,
                                  p->rows - row);
        }
    return !p->failed;
}

static qkv_tensor *embed_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    embed *s = self;
    size_t n = part->count;
    if (!embed_make_part(s, part))
        return NULL;
    qkv_randomness r = {.seed = s->seed, .step = part->step, .first_row = ids_before(s, part),
                        .samples = SIDES * n};
    qkv_tape_randomness(t, &r);
    qkv_tensor *x = qkv__text_vectors(&s->texts, s->model, t);
    qkv_tensor *q = qkv_slice(t, x, 0, 0, n), *k = qkv_slice(t, x, 0, n, SIDES * n);
    qkv_tensor *there = qkv_infonce_loss(t, q, k, s->o.temperature);
    qkv_tensor *back = qkv_infonce_loss(t, k, q, s->o.temperature);
    return qkv__share_of_batch(t, qkv_scale(t, qkv_add(t, there, back), 0.5), part);
}

/* ---- evaluation -------------------------------------------------------------------------- */

static qkv_status evaluate_pairs(qkv_model *m, qkv_tape *t, const qkv_records *r,
                                 const qkv_embed_options *o, size_t limit, qkv_recall_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t width = qkv__vector_width(m);
    size_t n = qkv__limited(limit, qkv_records_count(r));
    qkv_real *x = qkv_calloc(ctx, SIDES * n, width * sizeof *x);
    qkv_status status = x ? QKV_OK : QKV_E_MEMORY;
    for (size_t side = 0; side < SIDES && !status; side++)
        status = qkv__field_vectors(m, t, r, side, NULL, n, x + side * n * width);
    if (!status)
        status = qkv__recall(ctx, t, x, x + n * width, n, width, o->temperature, out);
    qkv_free(ctx, x);
    return status;
}

/* ---- checks ------------------------------------------------------------------------------ */

static qkv_status embed_check_options(qkv_context *ctx, const qkv_embed_options *o,
                                      const qkv_tokenizer *tokenizer)
{
    qkv_status status = qkv__temperature_check(ctx, o->temperature);
    return status ? status : qkv__masking_check_drop(ctx, o->drop, tokenizer);
}

static qkv_status embed_check_records(const qkv_model *m, const qkv_records *r, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_bert_config *c = qkv_model_config(m);
    if (qkv_records_fields(r) != SIDES || !qkv_records_count(r))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data hold no pairs of texts", what);
    for (size_t side = 0; side < SIDES; side++) {
        if (qkv_records_max(r, side) >= (int64_t)c->vocab)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have token %d, the model only %zu",
                            what, (int)qkv_records_max(r, side), c->vocab);
        for (size_t i = 0; i < qkv_records_count(r); i++) {
            const int32_t *ids;
            size_t n = qkv_records_get(r, i, side, &ids);
            if (!n || n > c->positions)
                return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have a text of %zu tokens: 1 to "
                                "the model's %zu positions expected", what, n, c->positions);
        }
    }
    return QKV_OK;
}

qkv_status qkv_embed_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                              const qkv_embed_options *options, size_t limit,
                              qkv_recall_score *out)
{
    const qkv_embed_options o = options ? *options : qkv_embed_defaults();
    *out = (qkv_recall_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_EMBED_TEXT))
        return QKV_E_ARGUMENT;
    qkv_status status = embed_check_records(m, records, "held-out");
    return status ? status : evaluate_pairs(m, t, records, &o, limit, out);
}

/* ---- the task ---------------------------------------------------------------------------- */

static qkv_status task_embed_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    embed *s = self;
    qkv_recall_score score;
    qkv_status status = evaluate_pairs(s->model, t, s->valid, &s->o, limit, &score);
    if (status)
        return status;
    *out = (qkv_metrics){.more_is_better = true, .scored = score.pairs,
                         .units = qkv_records_count(s->valid)};
    qkv__recall_add(out, &score);
    qkv_metrics_add(out, "loss", score.loss);
    return QKV_OK;
}

static double embed_flops(void *self)
{
    embed *s = self;
    double tokens = (double)(qkv_records_ids(s->train, 0) + qkv_records_ids(s->train, 1));
    double texts = SIDES * (double)qkv_records_count(s->train);
    return qkv_model_flops(s->model, &(qkv_workload){.samples = SIDES, .length = tokens / texts});
}

static void embed_destroy(void *self)
{
    embed *s = self;
    qkv_context *ctx = s->ctx;
    qkv__masking_free(&s->masking, ctx);
    qkv__packed_free(&s->texts);
    qkv_free(ctx, s);
}

static const qkv_task_type embed_type = {.name = "embed", .unit = "pairs", .phases = 1,
                                         .loss = embed_loss, .evaluate = task_embed_evaluate,
                                         .flops = embed_flops, .destroy = embed_destroy};

qkv_status qkv_task_embed(qkv_task *out, qkv_model *model, const qkv_records *train,
                          const qkv_records *valid, const qkv_tokenizer *tokenizer,
                          const qkv_embed_options *options, uint64_t seed)
{
    const qkv_embed_options o = options ? *options : qkv_embed_defaults();
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_EMBED_TEXT))
        return QKV_E_ARGUMENT;
    qkv_status status = embed_check_options(ctx, &o, tokenizer);
    if (!status)
        status = embed_check_records(model, train, "training");
    if (!status && valid)
        status = embed_check_records(model, valid, "held-out");
    embed *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (embed){.ctx = ctx, .model = model, .train = train, .valid = valid, .seed = seed, .o = o,
                 .texts.ctx = ctx};
    const qkv_bert_config *c = qkv_model_config(model);
    if (o.drop > 0)
        status = qkv__masking_init(&s->masking, ctx, tokenizer, c->vocab, o.drop, seed);
    return qkv__task_finish(out, status, (qkv_task){&embed_type, s, model, seed, valid != NULL});
}
