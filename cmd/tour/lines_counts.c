/* lines_counts.c - what counting makes of lines: the guesses that a BERT has to beat. */
#include <math.h>

#include "tour/lines.h"

/* The id most often counted. */
static size_t greatest(const uint32_t *count, size_t V)
{
    size_t best = 0;
    for (size_t v = 1; v < V; v++)
        best = count[v] > count[best] ? v : best;
    return best;
}

qkv_status tour_count_guesses(tour_guesses *out, qkv_context *ctx, const qkv_records *learn,
                              const qkv_records *valid, size_t V)
{
    uint32_t *pair = qkv_calloc(ctx, V * V, sizeof *pair); /* (before, word) */
    uint32_t *single = qkv_calloc(ctx, V, sizeof *single);
    size_t *next = qkv_calloc(ctx, V, sizeof *next), words = 0, common = 0, after = 0;
    const int32_t *ids;
    bool fine = pair && single && next;
    for (size_t i = 0; fine && i < qkv_records_count(learn); i++) {
        size_t n = qkv_records_get(learn, i, 0, &ids);
        for (size_t k = 1; k + 1 < n; k++) {
            pair[(size_t)ids[k - 1] * V + (size_t)ids[k]]++;
            single[ids[k]]++;
        }
    }
    for (size_t v = 0; fine && v < V; v++)
        next[v] = greatest(pair + v * V, V);
    size_t commonest = fine ? greatest(single, V) : 0;
    for (size_t i = 0; fine && i < qkv_records_count(valid); i++) {
        size_t n = qkv_records_get(valid, i, 0, &ids);
        for (size_t k = 1; k + 1 < n; k++) {
            words++;
            common += (size_t)ids[k] == commonest;
            after += (size_t)ids[k] == next[ids[k - 1]];
        }
    }
    qkv_free(ctx, pair);
    qkv_free(ctx, single);
    qkv_free(ctx, next);
    words += words == 0;
    *out = (tour_guesses){(double)common / (double)words, (double)after / (double)words};
    return fine ? QKV_OK : QKV_E_MEMORY;
}

/* log p(word | class) (classes, V) and log p(class) behind them, from counts with one added. */
static void estimate(double *logs, size_t V, size_t classes, const qkv_records *learn)
{
    double *prior = logs + classes * V;
    const int32_t *ids, *label;
    for (size_t i = 0; i < qkv_records_count(learn); i++) {
        (void)qkv_records_get(learn, i, 2, &label);
        size_t n = qkv_records_get(learn, i, 0, &ids);
        for (size_t k = 0; k < n; k++)
            logs[(size_t)*label * V + (size_t)ids[k]]++;
        prior[*label]++;
    }
    for (size_t c = 0; c < classes; c++) {
        double all = 0;
        for (size_t v = 0; v < V; v++)
            all += logs[c * V + v] + 1;
        for (size_t v = 0; v < V; v++)
            logs[c * V + v] = log((logs[c * V + v] + 1) / all);
        prior[c] = log((prior[c] + 1) / (double)(qkv_records_count(learn) + classes));
    }
}

qkv_status tour_naive_bayes(double *right, qkv_context *ctx, const qkv_records *learn,
                            const qkv_records *valid, size_t V, size_t classes)
{
    double *logs = qkv_calloc(ctx, classes * (V + 1), sizeof *logs);
    size_t found = 0;
    if (!logs)
        return QKV_E_MEMORY;
    estimate(logs, V, classes, learn);
    for (size_t i = 0; i < qkv_records_count(valid); i++) {
        const int32_t *ids, *label;
        size_t n = qkv_records_get(valid, i, 0, &ids), best = 0;
        double highest = -INFINITY;
        (void)qkv_records_get(valid, i, 2, &label);
        for (size_t c = 0; c < classes; c++) {
            double sum = logs[classes * V + c];
            for (size_t k = 0; k < n; k++)
                sum += logs[c * V + (size_t)ids[k]];
            best = sum > highest ? c : best;
            highest = fmax(highest, sum);
        }
        found += best == (size_t)*label;
    }
    qkv_free(ctx, logs);
    *right = (double)found / (double)(qkv_records_count(valid) ? qkv_records_count(valid) : 1);
    return QKV_OK;
}
