/* shortlist_learn.c - IBM's model 1 (Brown et al. 1993, section 4.1): which source token each
 * target token comes from is not known, so that expectation maximisation finds both this and
 * p(target | source).
 *
 * An iteration goes through the source tokens twice, each time through the records that a token is
 * in, with its probabilities spread over the vocabulary: first every place of a target sentence
 * sums the probabilities of all tokens of its source, then a token's counts are its own share of
 * these sums. So nothing is looked up, and the counts of one token are in memory at a time. */
#include <stdlib.h>

#include "text/shortlist.h"

enum { SOURCE, TARGET };
enum { LEAST_KEPT = 256 }; /* translations of a token between iterations */

typedef struct {
    int32_t target;
    float p;
} translation;

/* Translations of all source tokens. */
typedef struct {
    translation *list;
    size_t count, capacity;
    size_t *begins; /* (vocab + 1) */
} lexicon;

typedef struct {
    qkv_context *ctx;
    const qkv_records *pairs;
    size_t vocab, keep;
    size_t *begins;   /* (vocab + 1) each source token's part of records */
    uint32_t *records; /* where it occurs, as often as it does */
    size_t *places;   /* (pairs) of a record's first target token among all */
    float *norms;     /* (target tokens) sum of p(target | source) over a record's source tokens */
    float *p;         /* (vocab) of one source token */
    float *empty;     /* (vocab) of the empty word, which is in every record */
    double *counts;   /* (vocab) of one source token, and .. */
    int32_t *counted; /* (vocab) .. which targets have some */
    translation *sorted; /* (vocab) */
    lexicon now, next;
    bool first;       /* iteration: all translations are equally probable */
} learner;

/* ---- the data ------------------------------------------------------------------------------- */

static qkv_status learn_check(const learner *l)
{
    size_t n = qkv_records_count(l->pairs);
    if (qkv_records_fields(l->pairs) != 2 || n < 1 || n > UINT32_MAX)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "a shortlist is learnt from pairs of sentences, "
                        "found %zu records of %zu", n, qkv_records_fields(l->pairs));
    for (size_t r = 0; r < n; r++)
        for (size_t side = SOURCE; side <= TARGET; side++) {
            const int32_t *ids;
            size_t count = qkv_records_get(l->pairs, r, side, &ids);
            for (size_t i = 0; i < count; i++)
                if (ids[i] < 0 || (size_t)ids[i] >= l->vocab)
                    return qkv_fail(l->ctx, QKV_E_ARGUMENT, "pair %zu has token %d: tokens below "
                                    "%zu expected", r, (int)ids[i], l->vocab);
        }
    return QKV_OK;
}

static bool learn_make_room(learner *l)
{
    size_t n = qkv_records_count(l->pairs), V = l->vocab;
    l->begins = qkv_calloc(l->ctx, V + 2, sizeof *l->begins);
    l->records = qkv_calloc(l->ctx, qkv_records_ids(l->pairs, SOURCE) + 1, sizeof *l->records);
    l->places = qkv_calloc(l->ctx, n, sizeof *l->places);
    l->norms = qkv_calloc(l->ctx, qkv_records_ids(l->pairs, TARGET) + 1, sizeof *l->norms);
    l->p = qkv_calloc(l->ctx, V, sizeof *l->p);
    l->empty = qkv_calloc(l->ctx, V, sizeof *l->empty);
    l->counts = qkv_calloc(l->ctx, V, sizeof *l->counts);
    l->counted = qkv_calloc(l->ctx, V, sizeof *l->counted);
    l->sorted = qkv_calloc(l->ctx, V, sizeof *l->sorted);
    l->now.begins = qkv_calloc(l->ctx, V + 1, sizeof *l->now.begins);
    l->next.begins = qkv_calloc(l->ctx, V + 1, sizeof *l->next.begins);
    return l->begins && l->records && l->places && l->norms && l->p && l->empty && l->counts &&
           l->counted && l->sorted && l->now.begins && l->next.begins;
}

/* Which records each source token is in. */
static void learn_index(learner *l)
{
    size_t n = qkv_records_count(l->pairs), place = 0;
    const int32_t *ids;
    for (size_t r = 0; r < n; r++) {
        size_t count = qkv_records_get(l->pairs, r, SOURCE, &ids);
        for (size_t i = 0; i < count; i++)
            l->begins[ids[i] + 2]++;
        l->places[r] = place;
        place += qkv_records_get(l->pairs, r, TARGET, &ids);
    }
    for (size_t i = 0; i < l->vocab; i++)
        l->begins[i + 2] += l->begins[i + 1];
    for (size_t r = 0; r < n; r++) {
        size_t count = qkv_records_get(l->pairs, r, SOURCE, &ids);
        for (size_t i = 0; i < count; i++) /* afterwards begins[id + 1] is where id's part ends */
            l->records[l->begins[ids[i] + 1]++] = (uint32_t)r;
    }
}

/* ---- expectation ----------------------------------------------------------------------------- */

/* l->p becomes what a source token's translations are worth, or 0 again. */
static void learn_spread(learner *l, size_t source, bool set)
{
    for (size_t i = l->now.begins[source]; i < l->now.begins[source + 1] && !l->first; i++)
        l->p[l->now.list[i].target] = set ? l->now.list[i].p : 0;
}

static void learn_add_norms(learner *l)
{
    size_t n = qkv_records_count(l->pairs);
    const int32_t *ids;
    for (size_t r = 0; r < n; r++) {
        size_t count = qkv_records_get(l->pairs, r, TARGET, &ids);
        for (size_t i = 0; i < count; i++)
            l->norms[l->places[r] + i] = l->empty[ids[i]];
    }
    for (size_t s = 0; s < l->vocab; s++) {
        learn_spread(l, s, true);
        for (size_t k = l->begins[s]; k < l->begins[s + 1]; k++) {
            size_t r = l->records[k], count = qkv_records_get(l->pairs, r, TARGET, &ids);
            float *norm = l->norms + l->places[r];
            for (size_t i = 0; i < count; i++)
                norm[i] += l->p[ids[i]];
        }
        learn_spread(l, s, false);
    }
}

/* Adds a record's share of a token with probabilities p to the counts; *n of them are not 0. */
static void learn_count(learner *l, size_t record, const float *p, size_t *n)
{
    const int32_t *ids;
    size_t count = qkv_records_get(l->pairs, record, TARGET, &ids);
    const float *norm = l->norms + l->places[record];
    for (size_t i = 0; i < count; i++) {
        if (!(p[ids[i]] > 0))
            continue;
        if (!(l->counts[ids[i]] > 0))
            l->counted[(*n)++] = ids[i];
        l->counts[ids[i]] += (double)p[ids[i]] / (double)norm[i];
    }
}

/* ---- maximisation ---------------------------------------------------------------------------- */

static int likelier_first(const void *a, const void *b)
{
    const translation *x = a, *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

/* l->sorted becomes the probabilities that counts of n targets give, which are 0 afterwards. */
static void learn_normalise(learner *l, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += l->counts[l->counted[i]];
    for (size_t i = 0; i < n; i++) {
        int32_t id = l->counted[i];
        l->sorted[i] = (translation){id, (float)(l->counts[id] / sum)};
        l->counts[id] = 0;
    }
}

static qkv_status learn_source(learner *l, size_t source)
{
    size_t n = 0;
    learn_spread(l, source, true);
    for (size_t k = l->begins[source]; k < l->begins[source + 1]; k++)
        learn_count(l, l->records[k], l->p, &n);
    learn_spread(l, source, false);
    learn_normalise(l, n);
    if (n)
        qsort(l->sorted, n, sizeof *l->sorted, likelier_first);
    n = n < l->keep ? n : l->keep;
    lexicon *x = &l->next;
    if (!qkv__grow(l->ctx, &x->list, &x->capacity, x->count + n, sizeof *x->list))
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n && l->sorted[i].p > 0; i++)
        x->list[x->count++] = l->sorted[i];
    x->begins[source + 1] = x->count;
    return QKV_OK;
}

static void learn_empty(learner *l)
{
    size_t n = 0;
    for (size_t r = 0; r < qkv_records_count(l->pairs); r++)
        learn_count(l, r, l->empty, &n);
    learn_normalise(l, n);
    for (size_t i = 0; i < n; i++)
        l->empty[l->sorted[i].target] = l->sorted[i].p;
}

static qkv_status learn_iteration(learner *l)
{
    qkv_status status = QKV_OK;
    learn_add_norms(l);
    l->next.count = 0;
    for (size_t s = 0; s < l->vocab && !status; s++)
        status = learn_source(l, s);
    learn_empty(l);
    lexicon old = l->now;
    l->now = l->next;
    l->next = old;
    if (l->first)
        for (size_t i = 0; i < l->vocab; i++)
            l->p[i] = 0;
    l->first = false;
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static qkv_status learn_finish(learner *l, const qkv_shortlist_learn_options *o,
                               qkv_shortlist **out)
{
    size_t count = 0;
    qkv_shortlist_entry *entries = qkv_calloc(l->ctx, l->now.count + 1, sizeof *entries);
    if (!entries)
        return QKV_E_MEMORY;
    for (size_t s = 0; s < l->vocab; s++)
        for (size_t i = l->now.begins[s]; i < l->now.begins[s + 1]; i++) {
            const translation *t = &l->now.list[i];
            if (i - l->now.begins[s] < o->most && (double)t->p >= o->least)
                entries[count++] = (qkv_shortlist_entry){(int32_t)s, t->target, t->p};
        }
    return qkv__shortlist_make(out, l->ctx, l->vocab, entries, count);
}

static void learn_free(learner *l)
{
    void *all[] = {l->begins, l->records, l->places, l->norms,     l->p,           l->empty,
                   l->counts, l->counted, l->sorted, l->now.begins, l->next.begins, l->now.list,
                   l->next.list};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv_free(l->ctx, all[i]);
}

qkv_status qkv_shortlist_learn(qkv_shortlist **out, qkv_context *ctx, const qkv_records *pairs,
                               size_t vocab, const qkv_shortlist_learn_options *o)
{
    learner l = {.ctx = ctx, .pairs = pairs, .vocab = vocab, .first = true,
                 .keep = o->most > LEAST_KEPT ? o->most : LEAST_KEPT};
    *out = NULL;
    qkv_status status = learn_check(&l);
    if (!status && !learn_make_room(&l))
        status = QKV_E_MEMORY;
    if (!status)
        learn_index(&l);
    for (size_t i = 0; i < vocab && !status; i++)
        l.p[i] = l.empty[i] = 1;
    for (size_t i = 0; i < o->iterations && !status; i++) {
        status = qkv__progress(ctx, "learning a shortlist", "iterations", i, o->iterations);
        if (!status)
            status = learn_iteration(&l);
    }
    if (!status)
        status = learn_finish(&l, o, out);
    learn_free(&l);
    return status;
}
