/* shortlist.c - a lexicon in memory, and the tokens that some source tokens leave to choose
 * among. */
#include "text/shortlist.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ------------------------------------------------------------------------------- */

static int by_pair(const void *a, const void *b)
{
    const qkv_shortlist_entry *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

static int most_probable_first(const void *a, const void *b)
{
    const qkv_shortlist_entry *x = a, *y = b;
    if (x->probability != y->probability)
        return x->probability > y->probability ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

typedef struct {
    double sum; /* of p(id | source) over all source tokens */
    int32_t id;
} rank;

static int most_frequent_first(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->sum != y->sum)
        return x->sum > y->sum ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

const qkv_shortlist_entry *qkv__shortlist_twice(qkv_shortlist_entry *entries, size_t count)
{
    if (count)
        qsort(entries, count, sizeof *entries, by_pair);
    for (size_t i = 1; i < count; i++)
        if (by_pair(&entries[i - 1], &entries[i]) == 0)
            return &entries[i];
    return NULL;
}

static bool shortlist_rank(qkv_shortlist *s)
{
    rank *ranks = qkv_calloc(s->ctx, s->vocab, sizeof *ranks);
    if (!ranks)
        return false;
    for (size_t i = 0; i < s->vocab; i++)
        ranks[i].id = (int32_t)i;
    for (size_t i = 0; i < s->count; i++)
        ranks[s->entries[i].target].sum += (double)s->entries[i].probability;
    qsort(ranks, s->vocab, sizeof *ranks, most_frequent_first);
    for (size_t i = 0; i < s->vocab; i++)
        s->ranked[i] = ranks[i].id;
    qkv_free(s->ctx, ranks);
    return true;
}

qkv_status qkv__shortlist_make(qkv_shortlist **out, qkv_context *ctx, size_t vocab,
                               qkv_shortlist_entry *entries, size_t count)
{
    qkv_shortlist *s = qkv_calloc(ctx, 1, sizeof *s);
    *out = NULL;
    if (!s) {
        qkv_free(ctx, entries);
        return QKV_E_MEMORY;
    }
    *s = (qkv_shortlist){.ctx = ctx, .vocab = vocab, .count = count, .entries = entries};
    s->begins = qkv_calloc(ctx, vocab + 1, sizeof *s->begins);
    s->ranked = qkv_calloc(ctx, vocab, sizeof *s->ranked);
    if (!s->begins || !s->ranked || !shortlist_rank(s)) {
        qkv_shortlist_destroy(s);
        return QKV_E_MEMORY;
    }
    for (size_t i = 0; i < count; i++)
        s->begins[entries[i].source + 1]++;
    for (size_t i = 0; i < vocab; i++) {
        if (s->begins[i + 1] > 1)
            qsort(entries + s->begins[i], s->begins[i + 1], sizeof *entries, most_probable_first);
        s->begins[i + 1] += s->begins[i];
    }
    *out = s;
    return QKV_OK;
}

static bool entry_fits(const qkv_shortlist_entry *e, size_t vocab)
{
    return e->source >= 0 && (size_t)e->source < vocab && e->target >= 0 &&
           (size_t)e->target < vocab && e->probability > 0 && e->probability <= 1;
}

qkv_status qkv_shortlist_create(qkv_shortlist **out, qkv_context *ctx, size_t vocab,
                                const qkv_shortlist_entry *entries, size_t count)
{
    *out = NULL;
    if (vocab < 1 || vocab > QKV_TOKENIZER_ID_LIMIT)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "a shortlist for %zu tokens: 1 to %d expected", vocab,
                        QKV_TOKENIZER_ID_LIMIT);
    for (size_t i = 0; i < count; i++)
        if (!entry_fits(&entries[i], vocab))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "entry %zu of a shortlist: tokens below %zu and a "
                            "probability above 0, at most 1, expected, found %d, %d, %g", i, vocab,
                            (int)entries[i].source, (int)entries[i].target,
                            (double)entries[i].probability);
    qkv_shortlist_entry *copy = qkv_calloc(ctx, count + 1, sizeof *copy);
    if (!copy)
        return QKV_E_MEMORY;
    if (count)
        memcpy(copy, entries, count * sizeof *copy);
    const qkv_shortlist_entry *twice = qkv__shortlist_twice(copy, count);
    if (!twice)
        return qkv__shortlist_make(out, ctx, vocab, copy, count);
    qkv_fail(ctx, QKV_E_ARGUMENT, "a shortlist: source token %d with target token %d occurs twice",
             (int)twice->source, (int)twice->target);
    qkv_free(ctx, copy);
    return QKV_E_ARGUMENT;
}

void qkv_shortlist_destroy(qkv_shortlist *s)
{
    if (!s)
        return;
    qkv_free(s->ctx, s->entries);
    qkv_free(s->ctx, s->begins);
    qkv_free(s->ctx, s->ranked);
    qkv_ids_free(&s->always, s->ctx);
    qkv_free(s->ctx, s);
}

size_t qkv_shortlist_vocab(const qkv_shortlist *s) { return s->vocab; }

const qkv_shortlist_entry *qkv_shortlist_entries(const qkv_shortlist *s, size_t *count)
{
    *count = s->count;
    return s->entries;
}

/* ---- the tokens of a list ------------------------------------------------------------------- */

static void shortlist_mark(const qkv_shortlist *s, const qkv_shortlist_options *o,
                           const int32_t *ids, size_t n, unsigned char *in)
{
    for (size_t i = 0; i < o->first && i < s->vocab; i++)
        in[s->ranked[i]] = 1;
    for (size_t i = 0; i < s->always.count; i++)
        in[s->always.data[i]] = 1;
    for (size_t i = 0; i < n; i++) {
        size_t begin = s->begins[ids[i]], count = s->begins[ids[i] + 1] - begin;
        for (size_t k = 0; k < count && k < o->best; k++)
            in[s->entries[begin + k].target] = 1;
    }
}

qkv_status qkv_shortlist_tokens(const qkv_shortlist *s, const qkv_shortlist_options *options,
                                const int32_t *ids, size_t n, qkv_ids *out)
{
    out->count = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= s->vocab)
            return qkv_fail(s->ctx, QKV_E_ARGUMENT, "source token %d: the shortlist has %zu tokens",
                            (int)ids[i], s->vocab);
    unsigned char *in = qkv_calloc(s->ctx, s->vocab, 1);
    if (!in)
        return QKV_E_MEMORY;
    shortlist_mark(s, options, ids, n, in);
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->vocab && !status; i++)
        if (in[i])
            status = qkv_ids_add(out, s->ctx, (int32_t)i);
    qkv_free(s->ctx, in);
    return status;
}
