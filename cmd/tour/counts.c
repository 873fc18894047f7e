/* counts.c - what counting alone predicts: the baselines that a language model has to beat.
 *
 * Each order falls back on the one below it by as much as new tokens were seen to follow:
 *     p_k(c | h) = (count(h c) + kinds(h) p_{k-1}(c | h')) / (count(h) + kinds(h))
 * kinds(h) is the number of different tokens seen after h, h' is h without its oldest token, and
 * p_{-1} is uniform. (Witten and Bell 1991, "The zero-frequency problem".) */
#include <math.h>

#include "tour/chapter.h"

enum { ORDERS = 3 };                 /* no token before, one, two */
static const size_t most = 1u << 25; /* counts in a table */

typedef struct {
    size_t V, orders;
    uint32_t *count[ORDERS]; /* (V^k, V) */
    uint32_t *total[ORDERS], *kinds[ORDERS]; /* (V^k) */
} counts;

static void counts_free_counts(counts *n, qkv_context *ctx)
{
    for (size_t k = 0; k < ORDERS; k++) {
        qkv_free(ctx, n->count[k]);
        qkv_free(ctx, n->total[k]);
        qkv_free(ctx, n->kinds[k]);
    }
}

static qkv_status make_counts(counts *n, qkv_context *ctx, size_t V)
{
    size_t histories = 1;
    *n = (counts){.V = V};
    for (size_t k = 0; k < ORDERS && histories <= most / V; k++, histories *= V) {
        n->count[k] = qkv_calloc(ctx, histories * V, sizeof *n->count[k]);
        n->total[k] = qkv_calloc(ctx, histories, sizeof *n->total[k]);
        n->kinds[k] = qkv_calloc(ctx, histories, sizeof *n->kinds[k]);
        if (!n->count[k] || !n->total[k] || !n->kinds[k])
            return QKV_E_MEMORY;
        n->orders = k + 1;
    }
    return QKV_OK;
}

/* The index of the k tokens before ids[i]. */
static size_t history(const counts *n, const int32_t *ids, size_t i, size_t k)
{
    size_t h = 0;
    for (size_t j = i - k; j < i; j++)
        h = h * n->V + (size_t)ids[j];
    return h;
}

static void counts_learn(counts *n, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < n->orders && k <= i; k++) {
            size_t h = history(n, ids, i, k);
            uint32_t *cell = &n->count[k][h * n->V + (size_t)ids[i]];
            n->kinds[k][h] += *cell == 0;
            n->total[k][h]++;
            (*cell)++;
        }
}

static void counts_evaluate(const counts *n, const int32_t *ids, size_t count, double loss[ORDERS])
{
    for (size_t i = 1; i < count; i++) {
        double p = 1.0 / (double)n->V;
        for (size_t k = 0; k < n->orders; k++) {
            if (k <= i) {
                size_t h = history(n, ids, i, k);
                double kinds = n->kinds[k][h], total = n->total[k][h];
                double seen = n->count[k][h * n->V + (size_t)ids[i]];
                p = total > 0 ? (seen + kinds * p) / (total + kinds) : p;
            }
            loss[k] -= log(p) / (double)(count - 1);
        }
    }
}

static int32_t *counts_read_all(qkv_context *ctx, const qkv_tokens *t)
{
    int32_t *ids = qkv_malloc(ctx, qkv_tokens_count(t) * sizeof *ids);
    if (ids)
        qkv_tokens_read(t, 0, qkv_tokens_count(t), ids);
    return ids;
}

qkv_status tour_count(tour_counts *out, qkv_context *ctx, const qkv_tokens *train,
                      const qkv_tokens *valid, size_t V)
{
    double loss[ORDERS] = {0};
    counts n;
    int32_t *seen = counts_read_all(ctx, train), *asked = counts_read_all(ctx, valid);
    qkv_status status = make_counts(&n, ctx, V);
    if (!seen || !asked)
        status = QKV_E_MEMORY;
    if (!status) {
        counts_learn(&n, seen, qkv_tokens_count(train));
        counts_evaluate(&n, asked, qkv_tokens_count(valid), loss);
        *out = (tour_counts){log((double)V), loss[0], loss[1], loss[2]};
    }
    counts_free_counts(&n, ctx);
    qkv_free(ctx, seen);
    qkv_free(ctx, asked);
    return status;
}
