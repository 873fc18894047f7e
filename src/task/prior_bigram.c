/* prior_bigram.c - codes told from their left neighbours, by counting. */
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "qkv/prior.h"

enum { WEIGHTS = 101, LEFT_OUT = 10 }; /* weights tried; one grid of so many chooses among them */

typedef struct {
    qkv_context *ctx;
    size_t vocab, columns, codes;
    uint64_t *pairs; /* (count) vocab * left + code, rising */
    size_t count;
    size_t *met;     /* (vocab) how often */
    size_t total;
} counts;

static int prior_bigram_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of the first `grids` grids. */
static qkv_status prior_bigram_count_codes(counts *c, const qkv_code_grids *g, size_t grids)
{
    size_t n = grids * g->codes;
    c->pairs = qkv_calloc(c->ctx, n + 1, sizeof *c->pairs);
    c->met = qkv_calloc(c->ctx, c->vocab, sizeof *c->met);
    if (!c->pairs || !c->met)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        c->met[g->grids[i]]++;
        if (i % g->codes % c->columns)
            c->pairs[c->count++] = (uint64_t)g->grids[i - 1] * c->vocab + (uint64_t)g->grids[i];
    }
    c->total = n;
    qsort(c->pairs, c->count, sizeof *c->pairs, prior_bigram_compare);
    return QKV_OK;
}

static void prior_bigram_free_counts(counts *c)
{
    qkv_free(c->ctx, c->pairs);
    qkv_free(c->ctx, c->met);
}

/* How many pairs are below. */
static size_t below(const counts *c, uint64_t pair)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->pairs[middle] < pair)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The probability of code i of the grids by itself and, below 0 where there is none, after the one
 * on its left. */
static void chances(const counts *c, const qkv_code_grids *g, size_t i, double *alone,
                    double *after)
{
    uint64_t code = (uint64_t)g->grids[i], V = c->vocab;
    *alone = ((double)c->met[code] + 1) / ((double)c->total + (double)V);
    *after = -1;
    if (i % g->codes % c->columns == 0)
        return;
    uint64_t left = (uint64_t)g->grids[i - 1];
    size_t first = below(c, left * V), all = below(c, (left + 1) * V) - first;
    size_t these = below(c, left * V + code + 1) - below(c, left * V + code);
    if (all)
        *after = (double)these / (double)all;
}

/* sums[from .. to) += -log2 p of the codes of the grids from number `first` on, with those of the
 * weights, which go from 0 to 1. */
static void add_bits(const counts *c, const qkv_code_grids *g, size_t first, size_t from, size_t to,
                     double *sums)
{
    for (size_t i = first * g->codes; i < g->count * g->codes; i++) {
        double alone, after;
        chances(c, g, i, &alone, &after);
        for (size_t k = from; k < to; k++) {
            double w = after < 0 ? 0 : (double)k / WEIGHTS; /* below 1: no code is impossible */
            sums[k] -= log2(w * after + (1 - w) * alone);
        }
    }
}

qkv_status qkv_prior_bigram(qkv_context *ctx, const qkv_code_grids *train,
                            const qkv_code_grids *valid, size_t vocab, double *bits)
{
    size_t columns = train->columns ? train->columns : train->codes;
    counts part = {.ctx = ctx, .vocab = vocab, .columns = columns}, all = part;
    double sums[WEIGHTS] = {0};
    size_t best = 0, known = train->count - train->count / LEFT_OUT;
    *bits = NAN;
    qkv_status status = prior_bigram_count_codes(&part, train, known);
    if (!status) {
        add_bits(&part, train, known, 0, WEIGHTS, sums);
        for (size_t k = 0; k < WEIGHTS; k++)
            best = sums[k] < sums[best] ? k : best;
        status = prior_bigram_count_codes(&all, train, train->count);
    }
    if (!status) {
        sums[best] = 0;
        add_bits(&all, valid, 0, best, best + 1, sums);
        *bits = sums[best] / (double)(valid->count * valid->codes);
    }
    prior_bigram_free_counts(&part);
    prior_bigram_free_counts(&all);
    return status;
}
