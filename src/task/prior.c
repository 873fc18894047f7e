/* prior.c - a GPT over the codes of images. */
#include "qkv/prior.h"

#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "task/common.h"

enum { EVAL_ROWS = 4096 }; /* tokens in one evaluation batch, at least one grid */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_code_grids *train, *valid;
    double keep;
    double bigram; /* bits per held-out code, see qkv_prior_bigram */
    uint64_t seed;
    int32_t *ids, *targets; /* (count, length), (count, codes) of the largest part so far */
    size_t ids_room, targets_room;
} prior_task;

static size_t prior_length_of(const qkv_code_grids *g) { return g->before + g->codes - 1; }

/* ids (before + codes - 1): what stands before grid i and all of it but its last code. */
static void put_ids(int32_t *ids, const qkv_code_grids *g, size_t i)
{
    for (size_t k = 0; k < g->before; k++)
        ids[k] = g->conditions ? g->conditions[i * g->before + k] : 0;
    memcpy(ids + g->before, g->grids + i * g->codes, (g->codes - 1) * sizeof *ids);
}

/* Some codes become others, by chance: the same ones for a sample wherever it is computed. */
static void prior_blur(const prior_task *s, int32_t *ids, uint64_t sample)
{
    const qkv_code_grids *g = s->train;
    size_t vocab = qkv_lm_vocab(s->model);
    qkv_rng r;
    qkv_rng_init(&r, s->seed, qkv_hash64("grids", 5) + sample);
    for (size_t k = g->before; k < prior_length_of(g) && s->keep < 1; k++) {
        bool keep = qkv_rng_uniform(&r) < s->keep;
        int32_t other = (int32_t)qkv_rng_below(&r, (uint32_t)vocab);
        ids[k] = keep ? ids[k] : other;
    }
}

/* Logits' loss of n grids, divided by `normalizer` codes. */
static qkv_tensor *loss_of(qkv_model *m, qkv_tape *t, const qkv_code_grids *g, const int32_t *ids,
                           const int32_t *targets, size_t n, const qkv_cross_entropy_options *o)
{
    const size_t in[] = {n, prior_length_of(g)}, out[] = {n, g->codes};
    qkv_tensor *h = qkv_lm_hidden(m, t, qkv_tensor_ids(t, ids, 2, in), 0, NULL, NULL);
    h = h ? qkv_slice(t, h, 1, g->before - 1, prior_length_of(g)) : NULL;
    return qkv_lm_loss(m, t, h, qkv_tensor_ids(t, targets, 2, out), o);
}

static qkv_tensor *prior_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    prior_task *s = self;
    const qkv_code_grids *g = s->train;
    double begun = qkv_now();
    if (!qkv__grow(s->ctx, &s->ids, &s->ids_room, part->count * prior_length_of(g),
                   sizeof *s->ids) ||
        !qkv__grow(s->ctx, &s->targets, &s->targets_room, part->count * g->codes,
                   sizeof *s->targets))
        return NULL;
    for (size_t i = 0; i < part->count; i++) {
        uint64_t sample = qkv__first_sample(part) + i;
        size_t number = (size_t)qkv_shuffled(sample % g->count, g->count,
                                             s->seed + sample / g->count);
        put_ids(s->ids + i * prior_length_of(g), g, number);
        prior_blur(s, s->ids + i * prior_length_of(g), sample);
        memcpy(s->targets + i * g->codes, g->grids + number * g->codes,
               g->codes * sizeof *s->targets);
    }
    qkv__add_data_time(part, begun);
    qkv_cross_entropy_options o = {.normalizer = (double)(part->total * g->codes)};
    return loss_of(s->model, t, g, s->ids, s->targets, part->count, &o);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

static qkv_status prior_check(const qkv_model *m, const qkv_code_grids *g, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t vocab = qkv_lm_vocab(m), positions = qkv_lm_positions(m);
    if (!g->count || !g->codes || !g->before ||
        (qkv_lm_has_max_positions(m) && prior_length_of(g) > positions))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu %s grids of %zu codes after %zu tokens, and "
                        "the model has %zu positions", g->count, what, g->codes, g->before,
                        positions);
    for (size_t i = 0; i < g->count * g->codes; i++)
        if (g->grids[i] < 0 || (size_t)g->grids[i] >= vocab)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s grid %zu: code %d, and the model has %zu",
                            what, i / g->codes, (int)g->grids[i], vocab);
    for (size_t i = 0; g->conditions && i < g->count * g->before; i++)
        if (g->conditions[i] < 0 || (size_t)g->conditions[i] >= vocab)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s grid %zu: it hangs on token %d, and the "
                            "model has %zu", what, i / g->before, (int)g->conditions[i], vocab);
    return QKV_OK;
}

/* `count` grids, evenly over all, a batch of them a part; memory for one. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_code_grids *g;
    size_t count, batch;
    int32_t *ids, *targets; /* (batch, length), (batch, codes) */
} prior_scorer;

/* -log p of the part's codes, in sum. */
static qkv_status prior_part(void *user, size_t part, double *sum)
{
    const prior_scorer *s = user;
    const qkv_code_grids *g = s->g;
    size_t from = part * s->batch, left = s->count - from, n = left < s->batch ? left : s->batch;
    for (size_t i = 0; i < n; i++) {
        size_t number = qkv__evenly(from + i, s->count, g->count);
        put_ids(s->ids + i * prior_length_of(g), g, number);
        memcpy(s->targets + i * g->codes, g->grids + number * g->codes,
               g->codes * sizeof *s->targets);
    }
    qkv__begin_inference(s->tape);
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM};
    *sum = (double)qkv_item(s->tape, loss_of(s->model, s->tape, g, s->ids, s->targets, n, &o));
    return qkv_tape_status(s->tape);
}

qkv_status qkv_prior_evaluate(qkv_model *m, qkv_tape *t, const qkv_code_grids *g, size_t limit,
                              qkv_prior_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_prior_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_status status = prior_check(m, g, "held-out");
    if (status)
        return status;
    size_t count = limit && limit < g->count * g->codes ? limit / g->codes : g->count;
    count = count ? count : 1;
    prior_scorer s = {.model = m, .tape = t, .g = g, .count = count,
                      .batch = EVAL_ROWS / prior_length_of(g) + 1};
    double sum = 0;
    s.ids = qkv_calloc(ctx, s.batch, prior_length_of(g) * sizeof *s.ids);
    s.targets = qkv_calloc(ctx, s.batch, g->codes * sizeof *s.targets);
    status = s.ids && s.targets ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map_sum(ctx, (count + s.batch - 1) / s.batch, 1, prior_part, &s, &sum);
    qkv_tape_reset(t);
    qkv_free(ctx, s.targets);
    qkv_free(ctx, s.ids);
    out->codes = count * g->codes;
    out->loss = sum / (double)out->codes;
    out->bits_per_code = out->loss / log(2);
    return status;
}

/* ---- the task ----------------------------------------------------------------------------- */

static qkv_status prior_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    prior_task *s = self;
    qkv_prior_score score_;
    qkv_status status = qkv_prior_evaluate(s->model, t, s->valid, limit, &score_);
    *out = (qkv_metrics){.item = {{"bits_per_code", score_.bits_per_code},
                                  {"bits_bigram", s->bigram}, {"loss", score_.loss}},
                         .count = 3, .scored = score_.codes,
                         .units = s->valid->count * s->valid->codes};
    return status;
}

static size_t prior_units(void *self) { return ((prior_task *)self)->train->codes; }

static double prior_flops(void *self)
{
    const prior_task *s = self;
    size_t T = prior_length_of(s->train);
    return qkv_model_flops(s->model, &(qkv_workload){.samples = 1, .length = (double)T});
}

static void prior_destroy(void *self)
{
    prior_task *s = self;
    qkv_free(s->ctx, s->ids);
    qkv_free(s->ctx, s->targets);
    qkv_free(s->ctx, s);
}

/* Its name in checkpoints is that of the first versions. */
static const qkv_task_type prior_task_type = {.name = "grids", .unit = "codes", .phases = 1,
                                              .loss = prior_loss, .evaluate = prior_evaluate,
                                              .units = prior_units,
                                              .flops = prior_flops, .destroy = prior_destroy};

qkv_status qkv_task_prior(qkv_task *out, qkv_model *model, const qkv_code_grids *train,
                          const qkv_code_grids *valid, double keep, uint64_t seed)
{
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_status status = prior_check(model, train, "training");
    if (!status && valid)
        status = prior_check(model, valid, "held-out");
    if (!status && !(keep > 0 && keep <= 1))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the share of codes to keep is in (0, 1], not %g",
                          keep);
    prior_task *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (prior_task){.ctx = ctx, .model = model, .train = train, .valid = valid, .keep = keep,
                      .seed = seed};
    if (valid)
        status = qkv_prior_bigram(ctx, train, valid, qkv_lm_vocab(model), &s->bigram);
    return qkv__task_finish(out, status,
                            (qkv_task){&prior_task_type, s, model, seed, valid != NULL});
}
