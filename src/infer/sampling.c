/* sampling.c - from logits to a token. Definitions and order are those of Hugging Face's logits
 * processors: repetition, n-grams, temperature, top-k, top-p, min-p. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qkv/infer.h"

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

static int32_t sampling_largest(const qkv_real *x, size_t V)
{
    size_t best = 0;
    for (size_t i = 1; i < V; i++)
        if (x[i] > x[best])
            best = i;
    return (int32_t)best;
}

/* exp(x - max) with the precision of a logit. */
static double mass_of(qkv_real x, qkv_real max)
{
#ifdef QKV_F64
    return exp(x - max);
#else
    return (double)expf(x - max); /* a third of exp's time */
#endif
}

static void softmax(qkv_real *x, size_t V)
{
    qkv_real max = x[sampling_largest(x, V)];
    double sum = 0;
    for (size_t i = 0; i < V; i++) {
        double p = mass_of(x[i], max);
        sum += p;
        x[i] = (qkv_real)p;
    }
    for (size_t i = 0; i < V; i++)
        x[i] = (qkv_real)((double)x[i] / sum);
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, WORD_BITS = 32 };

/* A word that rises as the number falls. */
static uint32_t falling_key(qkv_real x)
{
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> (WORD_BITS - 1) ? bits : ~bits & 0x7fffffffu;
}

/* Its first digit: sign, power of two, and which quarter of the way to the next power. */
static size_t first_digit(qkv_real x) { return falling_key(x) >> (WORD_BITS - DIGIT_BITS); }

/* ids (n) by falling logit, those before in rising order of equals; spare (n). Sorting by digits,
 * the lowest first, is ten times as fast here as by comparisons. */
static void sort_ids(int32_t *ids, int32_t *spare, const qkv_real *x, size_t n)
{
    int32_t *from = ids, *to = spare;
    for (unsigned shift = 0; shift < WORD_BITS; shift += DIGIT_BITS) { /* three times */
        size_t start[DIGITS + 1] = {0};
        for (size_t i = 0; i < n; i++)
            start[(falling_key(x[from[i]]) >> shift) % DIGITS + 1]++;
        for (size_t d = 0; d < DIGITS; d++)
            start[d + 1] += start[d];
        for (size_t i = 0; i < n; i++)
            to[start[(falling_key(x[from[i]]) >> shift) % DIGITS]++] = from[i];
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    memcpy(ids, spare, n * sizeof *ids);
}

/* Tokens with this first digit, by falling logit, ties by rising id; returns how many. Only those
 * among which a limit falls have to be in order, a few of all. */
static size_t sorted_of_digit(int32_t *ids, const qkv_real *x, size_t V, size_t digit)
{
    size_t n = 0;
    for (size_t i = 0; i < V; i++)
        if (first_digit(x[i]) == digit)
            ids[n++] = (int32_t)i;
    sort_ids(ids, ids + V, x, n);
    return n;
}

static void keep_top_k(qkv_real *x, size_t V, size_t k, int32_t *order)
{
    size_t count[DIGITS] = {0}, digit = 0, before = 0;
    for (size_t i = 0; i < V; i++)
        count[first_digit(x[i])]++;
    for (; before + count[digit] < k; digit++)
        before += count[digit];
    (void)sorted_of_digit(order, x, V, digit);
    qkv_real least = x[order[k - 1 - before]]; /* ties with it are kept */
    for (size_t i = 0; i < V; i++)
        if (x[i] < least)
            x[i] = (qkv_real)-INFINITY;
}

/* Drops the unlikeliest tokens as long as they make up at most 1 - p together; never the first. */
static void keep_top_p(qkv_real *x, size_t V, double p, int32_t *order)
{
    double mass[DIGITS] = {0}, sum = 0, tail = 0;
    const qkv_real max = x[sampling_largest(x, V)];
    size_t first = first_digit(max), digit = DIGITS - 1;
    for (size_t i = 0; i < V; i++) {
        double e = mass_of(x[i], max);
        mass[first_digit(x[i])] += e;
        sum += e;
    }
    for (; digit > first && tail + mass[digit] / sum <= 1 - p; digit--)
        tail += mass[digit] / sum;
    for (size_t i = 0; i < V; i++)
        if (first_digit(x[i]) > digit)
            x[i] = (qkv_real)-INFINITY;
    for (size_t n = sorted_of_digit(order, x, V, digit); n-- > (digit == first ? 1 : 0);) {
        tail += mass_of(x[order[n]], max) / sum;
        if (tail > 1 - p)
            break;
        x[order[n]] = (qkv_real)-INFINITY;
    }
}

static void keep_min_p(qkv_real *x, size_t V, double p)
{
    const qkv_real max = x[sampling_largest(x, V)];
    for (size_t i = 0; i < V; i++)
        if (mass_of(x[i], max) < p)
            x[i] = (qkv_real)-INFINITY;
}

void qkv_sampling_distribution(const qkv_sampling *s, qkv_real *logits, size_t V,
                               const int32_t *past, size_t n, int32_t *order)
{
    if (s->repetition_penalty > 0 && s->repetition_penalty != 1)
        penalize(logits, V, past, n, s->repetition_penalty, order);
    if (s->no_repeat_ngram)
        forbid_repeats(logits, V, past, n, s->no_repeat_ngram);
    int32_t best = sampling_largest(logits, V);
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
    if (s->top_k && s->top_k < V)
        keep_top_k(logits, V, s->top_k, order);
    if (s->top_p > 0 && s->top_p < 1)
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
