/* sampling.c - from logits to a token. Definitions and order are those of Hugging Face's logits
 * processors: repetition, n-grams, temperature, top-k, top-p, min-p. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qkv/run.h"

qkv_sampling qkv_sampling_defaults(void)
{
    return (qkv_sampling){.temperature = 0.8, .top_p = 1, .repetition_penalty = 1};
}

/* Each distinct token once; seen (V) is scratch. */
static void penalize(qkv_real *logits, size_t V, const int32_t *past, size_t n, double penalty,
                     int32_t *seen)
{
    memset(seen, 0, V * sizeof *seen);
    for (size_t i = 0; i < n; i++) {
        if (past[i] < 0 || (size_t)past[i] >= V || seen[past[i]]++)
            continue;
        qkv_real *x = &logits[past[i]];
        *x = (qkv_real)(*x < 0 ? *x * penalty : *x / penalty);
    }
}

/* Forbids tokens that would complete an n-gram which is there already. */
static void forbid_repeats(qkv_real *logits, size_t V, const int32_t *past, size_t n, size_t gram)
{
    for (size_t i = 0; n + 1 >= gram && i + gram <= n; i++)
        if (memcmp(past + i, past + n + 1 - gram, (gram - 1) * sizeof *past) == 0) {
            int32_t id = past[i + gram - 1];
            if (id >= 0 && (size_t)id < V)
                logits[id] = (qkv_real)-INFINITY;
        }
}

static int32_t largest(const qkv_real *x, size_t V)
{
    size_t best = 0;
    for (size_t i = 1; i < V; i++)
        if (x[i] > x[best])
            best = i;
    return (int32_t)best;
}

static void softmax(qkv_real *x, size_t V)
{
    double max = (double)x[largest(x, V)], sum = 0;
    for (size_t i = 0; i < V; i++)
        sum += exp((double)x[i] - max);
    for (size_t i = 0; i < V; i++)
        x[i] = (qkv_real)(exp((double)x[i] - max) / sum);
}

/* Ids by falling logit, ties by rising id: a merge sort, since comparisons need the logits. */
static void sort_ids(int32_t *ids, int32_t *spare, const qkv_real *x, size_t n)
{
    if (n < 2)
        return;
    size_t half = n / 2, a = 0, b = half, k = 0;
    sort_ids(ids, spare, x, half);
    sort_ids(ids + half, spare, x, n - half);
    while (a < half || b < n)
        spare[k++] = b >= n || (a < half && x[ids[a]] >= x[ids[b]]) ? ids[a++] : ids[b++];
    memcpy(ids, spare, n * sizeof *ids);
}

static void keep_top_k(qkv_real *x, size_t V, size_t k, const int32_t *order)
{
    qkv_real least = x[order[k - 1]]; /* ties with it are kept */
    for (size_t i = 0; i < V; i++)
        if (x[i] < least)
            x[i] = (qkv_real)-INFINITY;
}

/* Drops the unlikeliest tokens as long as they make up at most 1 - p together. */
static void keep_top_p(qkv_real *x, size_t V, double p, const int32_t *order)
{
    double max = (double)x[order[0]], sum = 0, tail = 0;
    for (size_t i = 0; i < V; i++)
        sum += exp((double)x[i] - max);
    for (size_t i = V; i-- > 1;) {
        tail += exp((double)x[order[i]] - max) / sum;
        if (tail > 1 - p)
            break;
        x[order[i]] = (qkv_real)-INFINITY;
    }
}

static void keep_min_p(qkv_real *x, size_t V, double p)
{
    double max = (double)x[largest(x, V)];
    for (size_t i = 0; i < V; i++)
        if (exp((double)x[i] - max) < p)
            x[i] = (qkv_real)-INFINITY;
}

void qkv_sampling_distribution(const qkv_sampling *s, qkv_real *logits, size_t V,
                               const int32_t *past, size_t n, int32_t *order)
{
    if (s->repetition_penalty > 0 && s->repetition_penalty != 1)
        penalize(logits, V, past, n, s->repetition_penalty, order);
    if (s->no_repeat_ngram)
        forbid_repeats(logits, V, past, n, s->no_repeat_ngram);
    int32_t best = largest(logits, V);
    if (!isfinite(logits[best])) { /* nothing left to choose from */
        memset(logits, 0, V * sizeof *logits);
        return;
    }
    if (s->temperature <= 0) {
        memset(logits, 0, V * sizeof *logits);
        logits[best] = 1;
        return;
    }
    for (size_t i = 0; i < V; i++)
        logits[i] = (qkv_real)((double)logits[i] / s->temperature);
    bool by_k = s->top_k && s->top_k < V, by_p = s->top_p < 1;
    if (by_k || by_p) {
        for (size_t i = 0; i < V; i++)
            order[i] = (int32_t)i;
        sort_ids(order, order + V, logits, V);
    }
    if (by_k)
        keep_top_k(logits, V, s->top_k, order);
    if (by_p)
        keep_top_p(logits, V, s->top_p, order);
    if (s->min_p > 0)
        keep_min_p(logits, V, s->min_p);
    softmax(logits, V);
}

int32_t qkv_sampling_draw(const qkv_real *probabilities, size_t V, double u)
{
    double sum = 0;
    int32_t last = -1;
    for (size_t i = 0; i < V; i++) {
        if (probabilities[i] <= 0)
            continue;
        sum += (double)probabilities[i];
        last = (int32_t)i;
        if (u < sum)
            break;
    }
    return last;
}
