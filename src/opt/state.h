/* state.h - the numbers an optimiser or an average keeps per parameter: one block of memory,
 * cut into arrays of the parameters' sizes. */
#ifndef QKV_OPT_STATE_H
#define QKV_OPT_STATE_H

#include "base/base.h"
#include "qkv/opt.h"

/* Bytes that an array of n numbers takes in the block: whole cache lines. */
static inline size_t qkv__state_bytes(size_t n)
{
    return (n * sizeof(qkv_real) + 63) / 64 * 64;
}

/* What of a parameter's elements this rank keeps numbers for. */
typedef struct {
    size_t from, count;
} qkv__own;

/* own[i], or all of parameter i where own is NULL. */
static inline qkv__own qkv__own_of(const qkv__own *own, const qkv_params *params, size_t i)
{
    return own ? own[i] : (qkv__own){0, qkv_param_count(qkv_params_at(params, i))};
}

/* The description of what an array of p's shape has of its own elements. */
qkv_state qkv__state_of(const qkv_param *p, const char *what, qkv_real *data, qkv__own own);
/* Of n counts of the whole object. */
qkv_state qkv__state_counts(const char *what, int ndim, size_t n, int32_t *data);

/* ---- for ranks, each of which updates its own elements and keeps their state alone ---------- */

/* As the public functions; own: (parameters), not kept; NULL: all elements. A parameter that Muon
 * updates is whole or not there. */
qkv_status qkv__optimizer_create_of(qkv_optimizer **out, qkv_params *params,
                                    const qkv_optimizer_options *options,
                                    const qkv_optimizer_rule *rules, size_t n_rules,
                                    const qkv__own *own);
qkv_status qkv__average_create_of(qkv_average **out, qkv_params *params,
                                  const qkv_average_options *options, const qkv__own *own);

/* One update in parts: first the count of every parameter that has a gradient goes up, then each
 * element from .. from + n - 1 that is this rank's is updated, once. grad: of these elements; NULL:
 * the parameter's own; scale: of gradients. False: out of memory. */
void qkv__optimizer_count(qkv_optimizer *o);
bool qkv__optimizer_update(qkv_optimizer *o, size_t param, size_t from, size_t n,
                           const qkv_real *grad, double lr, double scale);

#endif
