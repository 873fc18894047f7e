/* translate.c - predicting the target sentence from the source: pairs laid one after another. */
#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "model/marian.h"
#include "task/common.h"
#include "task/pair_loss.h"

enum { EVAL_BUDGET = 4096 }; /* ids in one evaluation batch */

typedef struct {
    qkv_model *model;
    const qkv_records *train, *valid;
    qkv_packed_batches *packs;
    qkv_translate_options o;
    uint64_t seed;
    qkv_ids cut; /* what was drawn last */
    bool begun;  /* a loss was asked for */
    double pairs, source, target; /* means: pairs read in a sample, ids of a source and a target */
} translate;

/* ---- checks ------------------------------------------------------------------------------- */

/* The decoder can begin. */
static qkv_status check_start(const qkv_model *m)
{
    const qkv_marian_config *c = qkv_model_config(m);
    if (c->start >= 0 && (size_t)c->start < c->vocab)
        return QKV_OK;
    return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "decoder_start_token_id %d: a token "
                    "below the vocabulary's %zu expected", c->start, c->vocab);
}

/* Each side has a token and no more than the model has positions. */
static qkv_status check_sizes(const qkv_model *m, const qkv_id_pair *p, const char *what, size_t i)
{
    static const char *const names[] = {"source", "target"};
    const qkv_marian_config *c = qkv_model_config(m);
    for (size_t f = 0; f < QKV__SIDES; f++)
        if (p->size[f] < 1 || p->size[f] > c->positions)
            return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the %s data, pair %zu: its "
                            "%s has %zu tokens, 1 to %zu expected", what, i + 1, names[f],
                            p->size[f], c->positions);
    return QKV_OK;
}

static qkv_status check_token(const qkv_model *m, int32_t id, const char *what)
{
    const qkv_marian_config *c = qkv_model_config(m);
    if (id >= 0 && (size_t)id < c->vocab)
        return QKV_OK;
    return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the %s data has token %d, the model "
                    "only %zu", what, (int)id, c->vocab);
}

/* ---- training ----------------------------------------------------------------------------- */

static qkv_id_pair get_pair(const qkv_records *r, uint64_t record)
{
    qkv_id_pair p;
    for (size_t f = 0; f < QKV__SIDES; f++)
        p.size[f] = qkv_records_get(r, (size_t)record, f, &p.ids[f]);
    return p;
}

/* Cuts both sides anew; which way is a function of the seed, the pack and the pair's place in it.
 * Too long a side stays as it is. False on failure (the tape says why). */
static bool resegment(translate *s, qkv_tape *t, uint64_t pack, size_t place, qkv_id_pair *p)
{
    static const unsigned flags[QKV__SIDES] = {0, QKV_ENCODE_TARGET};
    const qkv_marian_config *c = qkv_model_config(s->model);
    qkv_rng r;
    qkv_rng_init(&r, s->seed, qkv_hash64("recut", 5) + pack);
    r.index = place;
    for (size_t f = 0; f < QKV__SIDES; f++) {
        uint64_t seed = qkv__rng_u64(&r);
        s->cut.count = 0;
        if (!qkv__take_status(t, qkv_tokenizer_resegment(s->o.tokenizer, p->ids[f], p->size[f],
                                                         flags[f], s->o.sampling, seed, &s->cut)))
            return false;
        if (s->cut.count > c->positions)
            continue;
        int32_t *ids = qkv__step_alloc(t, s->cut.count * sizeof *ids);
        if (!ids)
            return false;
        memcpy(ids, s->cut.data, s->cut.count * sizeof *ids);
        p->ids[f] = ids;
        p->size[f] = s->cut.count;
    }
    return true;
}

/* An update: which of its pairs are the part's, and what the others have to do with it. */
typedef struct {
    qkv_id_pair *all;     /* of the part */
    size_t pairs, tokens; /* of the part; target tokens of the whole update */
    qkv_randomness before[QKV__SIDES];
} update;

static size_t count_pairs(translate *s, const qkv_micro_batch *part)
{
    size_t pairs = 0;
    const uint64_t *records;
    for (size_t i = 0; i < part->count; i++)
        pairs += qkv_packed_batches_get(s->packs, qkv__first_sample(part) + i, &records);
    return pairs;
}

/* False on failure (the tape says why). */
static bool read_update(translate *s, qkv_tape *t, const qkv_micro_batch *part, update *u)
{
    *u = (update){.all = qkv__step_alloc(t, count_pairs(s, part) * sizeof *u->all)};
    for (size_t f = 0; f < QKV__SIDES; f++)
        u->before[f] = (qkv_randomness){.seed = s->seed, .step = part->step,
                                        .samples = part->count};
    for (size_t i = 0; u->all && i < part->total; i++) {
        uint64_t pack = part->step * part->total + i;
        const uint64_t *records;
        size_t n = qkv_packed_batches_get(s->packs, pack, &records);
        bool mine = i >= part->first && i < part->first + part->count;
        for (size_t k = 0; k < n; k++) {
            qkv_id_pair p = get_pair(s->train, records[k]);
            if (s->o.sampling > 0 && !resegment(s, t, pack, k, &p))
                return false;
            u->tokens += p.size[QKV__TARGET];
            for (size_t f = 0; f < QKV__SIDES && i < part->first; f++)
                u->before[f].first_row += p.size[f];
            if (mine)
                u->all[u->pairs++] = p;
        }
    }
    return u->all != NULL;
}

static qkv_tensor *translate_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    translate *s = self;
    update u;
    if (!s->begun) /* now the weights are those of a resumed run, and alike on all ranks */
        qkv__marian_hold_start(s->model);
    s->begun = true;
    if (!read_update(s, t, part, &u))
        return NULL;
    double rows = (double)(u.tokens * qkv__pair_readings(s->o.rdrop));
    qkv_cross_entropy_options o = {.smoothing = s->o.smoothing, .rdrop = s->o.rdrop,
                                   .normalizer = rows};
    qkv_cross_entropy_terms terms;
    o.terms = qkv__terms_of(part, &o, &terms);
    qkv_tensor *y = qkv__pair_loss(s->model, t, u.all, u.pairs, u.before, &o);
    qkv__report_cross_entropy(part, &o);
    return y;
}

static size_t translate_units(void *self)
{
    translate *s = self;
    return (size_t)(s->pairs * (s->source + s->target));
}

static double translate_flops(void *self)
{
    translate *s = self;
    return qkv_model_flops(s->model, &(qkv_workload){.samples = s->pairs, .length = s->source,
                                                     .target_length = s->target});
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* Records k count / evaluated for k below `evaluated`: those from begins[i] on are part i. */
typedef struct {
    qkv_model *model;
    qkv_tape *t;
    const qkv_records *records;
    size_t evaluated, parts, *begins;
} translate_scorer;

static qkv_id_pair scored_pair(const translate_scorer *s, size_t k)
{
    return get_pair(s->records, k * qkv_records_count(s->records) / s->evaluated);
}

static size_t pair_ids(const qkv_id_pair *p)
{
    return p->size[QKV__SOURCE] + p->size[QKV__TARGET];
}

/* Parts of EVAL_BUDGET ids or less, unless one pair has more. Returns the target tokens of all. */
static size_t cut_pairs(translate_scorer *s)
{
    size_t size = 0, tokens = 0;
    for (size_t k = 0; k < s->evaluated; k++) {
        qkv_id_pair p = scored_pair(s, k);
        size_t more = pair_ids(&p);
        if (!k || size + more > EVAL_BUDGET) {
            s->begins[s->parts++] = k;
            size = 0;
        }
        size += more;
        tokens += p.size[QKV__TARGET];
    }
    s->begins[s->parts] = s->evaluated;
    return tokens;
}

static qkv_status translate_score_part(void *user, size_t part, double *sum)
{
    const translate_scorer *s = user;
    size_t from = s->begins[part], n = s->begins[part + 1] - from;
    qkv__begin_inference(s->t);
    qkv_id_pair *all = qkv__step_alloc(s->t, n * sizeof *all);
    for (size_t i = 0; all && i < n; i++)
        all[i] = scored_pair(s, from + i);
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM};
    qkv_tensor *y = all ? qkv__pair_loss(s->model, s->t, all, n, NULL, &o) : NULL;
    *sum = (double)qkv_item(s->t, y);
    return qkv_tape_status(s->t);
}

/* Pairs from the first on, EVAL_BUDGET ids or less unless one pair has more: log p of their targets
 * into log_p. *count: how many. */
static qkv_status log_p_of_some(qkv_model *m, qkv_tape *t, const qkv_id_pair *pairs, size_t *count,
                                double *log_p)
{
    size_t n = 0, size = 0, tokens = 0, row = 0;
    for (; n < *count && (!n || size + pair_ids(&pairs[n]) <= EVAL_BUDGET); n++) {
        size += pair_ids(&pairs[n]);
        tokens += pairs[n].size[QKV__TARGET];
    }
    *count = n;
    qkv__begin_inference(t);
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM,
                                   .row_loss = qkv__step_alloc(t, tokens * sizeof(qkv_real))};
    if (o.row_loss)
        (void)qkv__pair_loss(m, t, pairs, n, NULL, &o);
    for (size_t i = 0; i < n && !qkv_tape_status(t); i++) {
        log_p[i] = 0;
        for (size_t k = 0; k < pairs[i].size[QKV__TARGET]; k++)
            log_p[i] -= (double)o.row_loss[row++];
    }
    return qkv_tape_status(t);
}

static qkv_status check_pairs(const qkv_model *m, const qkv_id_pair *pairs, size_t n)
{
    qkv_status status = check_start(m);
    for (size_t i = 0; i < n && !status; i++) {
        status = check_sizes(m, &pairs[i], "scored", i);
        for (size_t f = 0; f < QKV__SIDES && !status; f++)
            for (size_t k = 0; k < pairs[i].size[f] && !status; k++)
                status = check_token(m, pairs[i].ids[f][k], "scored");
    }
    return status;
}

qkv_status qkv_translate_log_p(qkv_model *m, qkv_tape *t, const qkv_id_pair *pairs, size_t n,
                               double *log_p)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    qkv_status status = check_pairs(m, pairs, n);
    for (size_t first = 0, some; first < n && !status; first += some) {
        some = n - first;
        status = log_p_of_some(m, t, pairs + first, &some, log_p + first);
    }
    qkv_tape_reset(t);
    return status;
}

qkv_status qkv_translate_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                  size_t limit, qkv_translate_score *out)
{
    *out = (qkv_translate_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    size_t count = qkv_records_count(records), all = qkv_records_ids(records, QKV__TARGET);
    translate_scorer s = {.model = m, .t = t, .records = records, .evaluated = count};
    if (!count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "no sentence pairs to evaluate on");
    if (limit && limit < all)
        s.evaluated = count * limit / all ? count * limit / all : 1;
    double sum = 0;
    s.begins = qkv_calloc(ctx, s.evaluated + 1, sizeof *s.begins);
    if (!s.begins)
        return QKV_E_MEMORY;
    out->tokens = cut_pairs(&s);
    qkv_status status = qkv__dist_map_sum(ctx, s.parts, 1, translate_score_part, &s, &sum);
    qkv_tape_reset(t);
    qkv_free(ctx, s.begins);
    out->loss = sum / (double)out->tokens;
    out->perplexity = exp(out->loss);
    return status;
}

static qkv_status translate_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    translate *s = self;
    qkv_translate_score r;
    qkv_status status = qkv_translate_evaluate(s->model, t, s->valid, limit, &r);
    *out = (qkv_metrics){.item = {{"loss", r.loss}, {"perplexity", r.perplexity}}, .count = 2,
                         .scored = r.tokens, .units = qkv_records_ids(s->valid, QKV__TARGET)};
    return status;
}

static void translate_destroy(void *self)
{
    translate *s = self;
    qkv_context *ctx = qkv_model_context(s->model);
    qkv_packed_batches_destroy(s->packs);
    qkv_ids_free(&s->cut, ctx);
    qkv_free(ctx, s);
}

static const qkv_task_type type = {.name = "translate", .unit = "tokens", .phases = 1,
                                   .loss = translate_loss, .evaluate = translate_evaluate,
                                   .units = translate_units,
                                   .flops = translate_flops, .destroy = translate_destroy};

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status check_records(const qkv_model *m, const qkv_records *r, const char *what)
{
    qkv_status status = check_start(m);
    if (!status && (qkv_records_fields(r) != QKV__SIDES || !qkv_records_count(r)))
        status = qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the %s data: sentence pairs "
                          "expected, found %zu records of %zu sequences", what,
                          qkv_records_count(r), qkv_records_fields(r));
    for (size_t f = 0; f < QKV__SIDES && !status; f++)
        if (qkv_records_max(r, f) >= 0)
            status = check_token(m, qkv_records_max(r, f), what);
    for (size_t i = 0; !status && i < qkv_records_count(r); i++) {
        const qkv_id_pair p = get_pair(r, i);
        status = check_sizes(m, &p, what, i);
    }
    return status;
}

static qkv_status check_sampling(qkv_context *ctx, const qkv_translate_options *o)
{
    if (!o->tokenizer)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "sampling needs the tokenizer");
    qkv_status status = qkv_tokenizer_sample(o->tokenizer, o->sampling, 0);
    (void)qkv_tokenizer_sample(o->tokenizer, 0, 0);
    return status;
}

qkv_status qkv_task_translate(qkv_task *out, qkv_model *model, const qkv_records *train,
                              const qkv_records *valid, const qkv_translate_options *options,
                              uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(model);
    qkv_status status = check_records(model, train, "training");
    if (!status && valid)
        status = check_records(model, valid, "held-out");
    if (!status && options->sampling != 0)
        status = check_sampling(ctx, options);
    translate *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    double n = (double)qkv_records_count(train);
    *s = (translate){.model = model, .train = train, .valid = valid, .o = *options, .seed = seed,
                     .source = (double)qkv_records_ids(train, QKV__SOURCE) / n,
                     .target = (double)qkv_records_ids(train, QKV__TARGET) / n};
    size_t readings = qkv__pair_readings(options->rdrop);
    status = qkv_packed_batches_create(&s->packs, ctx, train, options->budget / readings, seed);
    if (!status)
        s->pairs = (double)readings * n / (double)qkv_packed_batches_per_epoch(s->packs);
    return qkv__task_finish(out, status, (qkv_task){&type, s, model, seed, valid != NULL});
}
