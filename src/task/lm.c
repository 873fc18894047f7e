/* lm.c - predicting the next token. */
#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "task/common.h"

enum { EVAL_ROWS = 4096 }; /* tokens in one evaluation batch */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_tokens *train, *valid;
    size_t length;
    uint64_t seed;
    int32_t *ids; /* (2, count, length) of the largest part so far: ids, then targets */
    size_t room;
} lm;

static qkv_tensor *lm_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    lm *s = self;
    size_t T = s->length, shape[] = {part->count, T}, n = part->count * T;
    if (!qkv__grow(s->ctx, &s->ids, &s->room, 2 * n, sizeof *s->ids))
        return NULL;
    for (size_t i = 0; i < part->count; i++)
        qkv_tokens_window(s->train, s->seed, qkv__first_sample(part) + i, T, s->ids + i * T,
                          s->ids + n + i * T);
    qkv_tensor *ids = qkv_tensor_ids(t, s->ids, 2, shape);
    qkv_tensor *targets = qkv_tensor_ids(t, s->ids + n, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(s->model, t, ids, 0, NULL, NULL);
    qkv_cross_entropy_options o = {.normalizer = (double)(part->total * T)};
    return qkv_lm_loss(s->model, t, h, targets, &o);
}

/* What is evaluated: windows 0, stride, 2 stride.. of T tokens, evenly over all of the text. */
typedef struct {
    const qkv_tokens *tokens;
    size_t T, windows, total; /* windows evaluated, and all whole ones */
} windows;

/* An evaluation of windows, a batch of them a part; the short last one is a part of its own. */
typedef struct {
    qkv_model *m;
    qkv_tape *t;
    windows w;
    size_t batch, rest, all; /* windows of a part; tokens of the last one, 0: none; to score */
    int32_t *ids;            /* (2, batch, T): ids, then targets */
} lm_scorer;

/* -log p of ids (B, T) given those before, in sum. */
static qkv_status lm_score(const lm_scorer *s, size_t B, size_t T, double *sum)
{
    size_t shape[] = {B, T};
    qkv_tape *t = s->t;
    qkv__begin_inference(t);
    qkv_tensor *x = qkv_tensor_ids(t, s->ids, 2, shape);
    qkv_tensor *y = qkv_tensor_ids(t, s->ids + B * T, 2, shape);
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM};
    qkv_tensor *h = qkv_lm_hidden(s->m, t, x, 0, NULL, NULL);
    *sum = (double)qkv_item(t, qkv_lm_loss(s->m, t, h, y, &o));
    return qkv_tape_status(t);
}

static qkv_status score_part(void *user, size_t part, double *sum)
{
    const lm_scorer *s = user;
    const windows *w = &s->w;
    size_t done = part * s->batch, left = w->windows > done ? w->windows - done : 0;
    size_t B = left < s->batch ? left : s->batch, T = B ? w->T : s->rest;
    for (size_t i = 0; i < B; i++) {
        size_t from = (done + i) * w->total / w->windows * T;
        qkv_tokens_read(w->tokens, from, T, s->ids + i * T);
        qkv_tokens_read(w->tokens, from + 1, T, s->ids + (B + i) * T);
    }
    if (!B) {
        qkv_tokens_read(w->tokens, s->all - T, T, s->ids);
        qkv_tokens_read(w->tokens, s->all - T + 1, T, s->ids + T);
    }
    return lm_score(s, B ? B : 1, T, sum);
}

qkv_status qkv_lm_evaluate(qkv_model *m, qkv_tape *t, const qkv_tokens *tokens, size_t T,
                           size_t limit, qkv_lm_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_lm_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    size_t all = qkv_tokens_count(tokens);
    if (all < 2)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "held-out text of %zu tokens: at least 2 are needed",
                        all);
    all -= 1; /* to score */
    lm_scorer s = {.m = m, .t = t, .w = {tokens, T, all / T, all / T}, .rest = all % T, .all = all,
                   .batch = EVAL_ROWS / T ? EVAL_ROWS / T : 1};
    if (limit && all > limit && s.w.total) {
        s.w.windows = limit / T ? limit / T : 1;
        s.rest = 0;
    }
    double sum = 0;
    size_t parts = (s.w.windows + s.batch - 1) / s.batch + (s.rest > 0);
    s.ids = qkv_malloc(ctx, 2 * s.batch * T * sizeof *s.ids);
    qkv_status status = s.ids ? qkv__dist_map_sum(ctx, parts, 1, score_part, &s, &sum)
                              : QKV_E_MEMORY;
    qkv_free(ctx, s.ids);
    qkv_tape_reset(t);
    out->tokens = s.w.windows * T + s.rest;
    double share = (double)out->tokens / (double)all;
    out->loss = sum / (double)out->tokens;
    out->perplexity = exp(out->loss);
    out->bits_per_byte = sum / 0.6931471805599453 / ((double)qkv_tokens_bytes(tokens) * share);
    return status;
}

static qkv_status lm_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    lm *s = self;
    qkv_lm_score score_;
    qkv_status status = qkv_lm_evaluate(s->model, t, s->valid, s->length, limit, &score_);
    *out = (qkv_metrics){.item = {{"loss", score_.loss}, {"perplexity", score_.perplexity},
                                  {"bits_per_byte", score_.bits_per_byte}},
                         .count = 3, .scored = score_.tokens,
                         .units = qkv_tokens_count(s->valid) - 1};
    return status;
}

static size_t lm_units(void *self) { return ((lm *)self)->length; }

static double lm_flops(void *self)
{
    lm *s = self;
    return qkv_model_flops(s->model,
                           &(qkv_workload){.samples = 1, .length = (double)s->length});
}

static void lm_destroy(void *self)
{
    lm *s = self;
    qkv_free(s->ctx, s->ids);
    qkv_free(s->ctx, s);
}

static const qkv_task_type lm_type = {.name = "lm", .unit = "tokens", .phases = 1, .loss = lm_loss,
                                      .evaluate = lm_evaluate, .units = lm_units, .flops = lm_flops,
                                      .destroy = lm_destroy};

static qkv_status lm_check_tokens(qkv_context *ctx, const qkv_model *m, const qkv_tokens *tokens,
                                  const char *what, size_t least)
{
    if (qkv_tokens_count(tokens) < least)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s text has %zu tokens; at least %zu are needed",
                        what, qkv_tokens_count(tokens), least);
    int32_t max = qkv_tokens_max(tokens);
    if (max < 0 || (size_t)max >= qkv_lm_vocab(m))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s text has token %d, the model only %zu",
                        what, (int)max, qkv_lm_vocab(m));
    return QKV_OK;
}

qkv_status qkv_task_lm(qkv_task *out, qkv_model *model, const qkv_tokens *train,
                       const qkv_tokens *valid, size_t length, uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(model);
    qkv_status status = lm_check_tokens(ctx, model, train, "training", length + 1);
    if (!status && valid)
        status = lm_check_tokens(ctx, model, valid, "held-out", 2);
    lm *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    *s = (lm){.ctx = ctx, .model = model, .train = train, .valid = valid, .length = length,
              .seed = seed};
    return qkv__task_finish(out, status, (qkv_task){&lm_type, s, model, seed, valid != NULL});
}
