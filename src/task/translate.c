/* translate.c - predicting the target sentence from the source: pairs laid one after another. */
#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "model/marian.h"
#include "task/common.h"

enum { SOURCE, TARGET, FIELDS };
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

/* ---- batches ------------------------------------------------------------------------------ */

/* One pair's ids, each side with the token that ends it: in the records, or in step memory. */
typedef struct {
    const int32_t *ids[FIELDS];
    size_t size[FIELDS];
} pair;

/* Some pairs on the tape: their ids one after another, and where each begins. All in step
 * memory. */
typedef struct {
    size_t pairs;
    int32_t *offsets[FIELDS]; /* (pairs + 1) */
    int32_t *ids[FIELDS];     /* the decoder's inputs for TARGET */
    int32_t *targets;         /* once for every reading */
} batch;

static pair get_pair(const qkv_records *r, uint64_t record)
{
    pair p;
    for (size_t f = 0; f < FIELDS; f++)
        p.size[f] = qkv_records_get(r, (size_t)record, f, &p.ids[f]);
    return p;
}

static size_t readings_of(double rdrop)
{
    return rdrop > 0 ? 2 : 1;
}

/* False when memory is out. */
static bool make_batch(batch *b, qkv_tape *t, const pair *all, size_t pairs, size_t readings)
{
    b->pairs = pairs;
    for (size_t f = 0; f < FIELDS; f++) {
        b->offsets[f] = qkv__step_alloc(t, (pairs + 1) * sizeof(int32_t));
        if (!b->offsets[f])
            return false;
        b->offsets[f][0] = 0;
        for (size_t i = 0; i < pairs; i++)
            b->offsets[f][i + 1] = b->offsets[f][i] + (int32_t)all[i].size[f];
        b->ids[f] = qkv__step_alloc(t, ((size_t)b->offsets[f][pairs] + 1) * sizeof(int32_t));
    }
    b->targets = qkv__step_alloc(
        t, (readings * (size_t)b->offsets[TARGET][pairs] + 1) * sizeof(int32_t));
    return b->ids[SOURCE] && b->ids[TARGET] && b->targets;
}

static void fill_batch(batch *b, const pair *all, int32_t start, size_t readings)
{
    size_t targets = (size_t)b->offsets[TARGET][b->pairs];
    for (size_t i = 0; i < b->pairs; i++) {
        const pair *p = &all[i];
        const int32_t *target = p->ids[TARGET];
        size_t n = p->size[TARGET];
        memcpy(b->ids[SOURCE] + b->offsets[SOURCE][i], p->ids[SOURCE],
               p->size[SOURCE] * sizeof *target);
        memcpy(b->targets + b->offsets[TARGET][i], target, n * sizeof *target);
        int32_t *in = b->ids[TARGET] + b->offsets[TARGET][i]; /* one behind the targets */
        in[0] = start;
        memcpy(in + 1, target, (n - 1) * sizeof *target);
    }
    if (readings == 2)
        memcpy(b->targets + targets, b->targets, targets * sizeof *b->targets);
}

static qkv_marian_side translate_side(qkv_tape *t, const batch *b, size_t field)
{
    size_t shape[] = {1, (size_t)b->offsets[field][b->pairs]};
    return (qkv_marian_side){.ids = qkv_tensor_ids(t, b->ids[field], 2, shape),
                             .sequences = b->pairs, .offsets = b->offsets[field]};
}

/* The decoder's output (1, rows, width). before: see batch_loss. */
static qkv_tensor *read_batch(qkv_model *m, qkv_tape *t, const batch *b,
                              const qkv_randomness before[FIELDS], size_t reading)
{
    qkv_marian_side sides[FIELDS];
    qkv_tensor *y[FIELDS] = {NULL};
    for (size_t f = 0; f < FIELDS; f++) {
        sides[f] = translate_side(t, b, f);
        if (before) {
            qkv_randomness r = before[f];
            r.seed ^= (uint64_t)reading << 63;
            qkv_tape_randomness(t, &r);
        }
        y[f] = f == SOURCE ? qkv_marian_encode(m, t, &sides[SOURCE])
                           : qkv_marian_decode(m, t, &sides[TARGET], y[SOURCE], &sides[SOURCE],
                                               NULL);
    }
    return y[TARGET];
}

/* Cross-entropy of the pairs' targets, read twice where o asks for rdrop. before: rows of each
 * side that the update has before these (dropout counts on), and its randomness; NULL: nothing is
 * dropped. NULL once anything failed. */
static qkv_tensor *translate_batch_loss(qkv_model *m, qkv_tape *t, const pair *all, size_t pairs,
                                        const qkv_randomness before[FIELDS],
                                        const qkv_cross_entropy_options *o)
{
    const qkv_marian_config *c = qkv_model_config(m);
    size_t readings = readings_of(o->rdrop);
    qkv_tensor *hidden[2];
    batch b;
    if (!make_batch(&b, t, all, pairs, readings))
        return NULL;
    fill_batch(&b, all, c->start, readings);
    for (size_t i = 0; i < readings; i++)
        hidden[i] = read_batch(m, t, &b, before, i);
    size_t shape[] = {1, readings * (size_t)b.offsets[TARGET][pairs]};
    return qkv_marian_loss(m, t, readings == 1 ? hidden[0] : qkv_concat(t, 1, 2, hidden),
                           qkv_tensor_ids(t, b.targets, 2, shape), o);
}

/* ---- training ----------------------------------------------------------------------------- */

/* Cuts both sides anew; which way is a function of the seed, the pack and the pair's place in it.
 * Too long a side stays as it is. False on failure (the tape says why). */
static bool resegment(translate *s, qkv_tape *t, uint64_t pack, size_t place, pair *p)
{
    static const unsigned flags[FIELDS] = {0, QKV_ENCODE_TARGET};
    const qkv_marian_config *c = qkv_model_config(s->model);
    qkv_rng r;
    qkv_rng_init(&r, s->seed, qkv_hash64("recut", 5) + pack);
    r.index = place;
    for (size_t f = 0; f < FIELDS; f++) {
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
    pair *all;            /* of the part */
    size_t pairs, tokens; /* of the part; target tokens of the whole update */
    qkv_randomness before[FIELDS];
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
    for (size_t f = 0; f < FIELDS; f++)
        u->before[f] = (qkv_randomness){.seed = s->seed, .step = part->step,
                                        .samples = part->count};
    for (size_t i = 0; u->all && i < part->total; i++) {
        uint64_t pack = part->step * part->total + i;
        const uint64_t *records;
        size_t n = qkv_packed_batches_get(s->packs, pack, &records);
        bool mine = i >= part->first && i < part->first + part->count;
        for (size_t k = 0; k < n; k++) {
            pair p = get_pair(s->train, records[k]);
            if (s->o.sampling > 0 && !resegment(s, t, pack, k, &p))
                return false;
            u->tokens += p.size[TARGET];
            for (size_t f = 0; f < FIELDS && i < part->first; f++)
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
    double rows = (double)(u.tokens * readings_of(s->o.rdrop));
    qkv_cross_entropy_options o = {.smoothing = s->o.smoothing, .rdrop = s->o.rdrop,
                                   .normalizer = rows};
    qkv_cross_entropy_terms terms;
    o.terms = qkv__terms_of(part, &o, &terms);
    qkv_tensor *y = translate_batch_loss(s->model, t, u.all, u.pairs, u.before, &o);
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

static pair scored_pair(const translate_scorer *s, size_t k)
{
    return get_pair(s->records, k * qkv_records_count(s->records) / s->evaluated);
}

/* Parts of EVAL_BUDGET ids or less, unless one pair has more. Returns the target tokens of all. */
static size_t cut_pairs(translate_scorer *s)
{
    size_t size = 0, tokens = 0;
    for (size_t k = 0; k < s->evaluated; k++) {
        pair p = scored_pair(s, k);
        size_t more = p.size[SOURCE] + p.size[TARGET];
        if (!k || size + more > EVAL_BUDGET) {
            s->begins[s->parts++] = k;
            size = 0;
        }
        size += more;
        tokens += p.size[TARGET];
    }
    s->begins[s->parts] = s->evaluated;
    return tokens;
}

static qkv_status translate_score_part(void *user, size_t part, double *sum)
{
    const translate_scorer *s = user;
    size_t from = s->begins[part], n = s->begins[part + 1] - from;
    qkv__begin_inference(s->t);
    pair *all = qkv__step_alloc(s->t, n * sizeof *all);
    for (size_t i = 0; all && i < n; i++)
        all[i] = scored_pair(s, from + i);
    qkv_cross_entropy_options o = {.reduction = QKV_REDUCE_SUM};
    qkv_tensor *y = all ? translate_batch_loss(s->model, s->t, all, n, NULL, &o) : NULL;
    *sum = (double)qkv_item(s->t, y);
    return qkv_tape_status(s->t);
}

qkv_status qkv_translate_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                  size_t limit, qkv_translate_score *out)
{
    *out = (qkv_translate_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    size_t count = qkv_records_count(records), all = qkv_records_ids(records, TARGET);
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
                         .scored = r.tokens, .units = qkv_records_ids(s->valid, TARGET)};
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

/* The decoder can begin. Every sequence has a token and no more than the model has positions. */
static qkv_status check_records(const qkv_model *m, const qkv_records *r, const char *what)
{
    static const char *const names[] = {"source", "target"};
    const qkv_marian_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    if (c->start < 0 || (size_t)c->start >= c->vocab)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "decoder_start_token_id %d: a token below the "
                        "vocabulary's %zu expected", c->start, c->vocab);
    if (qkv_records_fields(r) != FIELDS || !qkv_records_count(r))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data: sentence pairs expected, found %zu "
                        "records of %zu sequences", what, qkv_records_count(r),
                        qkv_records_fields(r));
    for (size_t f = 0; f < FIELDS; f++) {
        int32_t max = qkv_records_max(r, f);
        if (max >= 0 && (size_t)max >= c->vocab)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data has token %d, the model only %zu",
                            what, (int)max, c->vocab);
        for (size_t i = 0; i < qkv_records_count(r); i++) {
            size_t n = get_pair(r, i).size[f];
            if (n < 1 || n > c->positions)
                return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data, pair %zu: its %s has %zu "
                                "tokens, 1 to %zu expected", what, i + 1, names[f], n,
                                c->positions);
        }
    }
    return QKV_OK;
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
                     .source = (double)qkv_records_ids(train, SOURCE) / n,
                     .target = (double)qkv_records_ids(train, TARGET) / n};
    size_t readings = readings_of(options->rdrop);
    status = qkv_packed_batches_create(&s->packs, ctx, train, options->budget / readings, seed);
    if (!status)
        s->pairs = (double)readings * n / (double)qkv_packed_batches_per_epoch(s->packs);
    return qkv__task_finish(out, status, (qkv_task){&type, s, model, seed, valid != NULL});
}
