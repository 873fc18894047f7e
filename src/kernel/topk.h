/* topk.h - the k largest elements of a row so far, for ref_rows.c and simd_softmax.c. */
#ifndef QKV_KERNEL_TOP_H
#define QKV_KERNEL_TOP_H

#include <math.h>

#include "kernel/kernel.h"

/* Largest first, of equals the one that came first; -inf with id -1 where there is none. */
typedef struct {
    qkv_real *value;
    int32_t *id;
    size_t k;
} qkv__top;

static inline void qkv__top_clear(const qkv__top *t)
{
    for (size_t i = 0; i < t->k; i++) {
        t->value[i] = (qkv_real)-INFINITY;
        t->id[i] = -1;
    }
}

static inline qkv_real qkv__top_least(const qkv__top *t) { return t->value[t->k - 1]; }

/* x is above the least one. */
static inline void qkv__top_insert(const qkv__top *t, qkv_real x, size_t id)
{
    size_t i = t->k - 1;
    for (; i > 0 && x > t->value[i - 1]; i--) {
        t->value[i] = t->value[i - 1];
        t->id[i] = t->id[i - 1];
    }
    t->value[i] = x;
    t->id[i] = (int32_t)id;
}

/* The logits become log-probabilities. max and sum (of exp(x - max)) are of all that may be
 * chosen; those that may not are counted in unless the rest is normalised without them. */
static inline void qkv__top_finish(const qkv__top *t, const qkv_real *x, double max, double sum,
                                   const qkv_k_top_args *a)
{
    for (size_t i = 0; i < a->bans && !a->renormalize; i++) {
        double b = (double)x[a->banned[i]];
        if (b > max) {
            sum *= exp(max - b);
            max = b;
        }
        sum += b == -INFINITY ? 0 : exp(b - max);
    }
    double log_sum = log(sum);
    for (size_t i = 0; i < t->k; i++)
        if (t->id[i] >= 0 || isnan(log_sum))
            t->value[i] = (qkv_real)((double)t->value[i] - max - log_sum);
}

#endif
