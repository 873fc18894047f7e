/* average.c - averages of weights: exponential over steps, or plain over checkpoints. Both are one
 * running mean; they differ in the share of its newest member. */
#include <math.h>

#include "base/device.h"
#include "opt/state.h"
#include "tensor/make.h"
#include "tensor/update.h"

struct qkv_average {
    qkv_context *ctx;
    qkv_params *params;
    qkv_average_options options;
    size_t n; /* parameters when it was made */
    int32_t count;
    qkv__arena *memory;
    qkv__own *own;   /* (n) */
    qkv_real **mean; /* (n) arrays of the own elements */
};

/* Share of the newest member: 1 for the first, 1/n for a plain mean. */
static double average_share(const qkv_average *a)
{
    double n = (double)a->count, decay = a->options.decay;
    if (a->count == 0)
        return 1.0;
    if (decay == 0.0)
        return 1.0 / (n + 1.0);
    return 1.0 - (a->options.ramp ? fmin(decay, (1.0 + n) / (10.0 + n)) : decay);
}

static qkv_status average_allocate(qkv_average *a)
{
    size_t bytes = 0;
    for (size_t i = 0; i < a->n; i++)
        bytes += qkv__state_bytes(a->own[i].count);
    a->mean = qkv_calloc(a->ctx, a->n, sizeof *a->mean);
    const qkv__device *device = qkv__context_device(a->ctx);
    if (!a->mean || qkv__arena_create_on(&a->memory, a->ctx, device, "average"))
        return QKV_E_MEMORY;
    char *at = qkv__arena_zalloc(a->memory, bytes);
    if (!at)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < a->n; i++) {
        a->mean[i] = (qkv_real *)(void *)at;
        at += qkv__state_bytes(a->own[i].count);
    }
    return QKV_OK;
}

qkv_status qkv_average_create(qkv_average **out, qkv_params *params,
                              const qkv_average_options *options)
{
    return qkv__average_create_of(out, params, options, NULL);
}

qkv_status qkv__average_create_of(qkv_average **out, qkv_params *params,
                                  const qkv_average_options *options, const qkv__own *own)
{
    qkv_context *ctx = qkv__params_context(params);
    *out = NULL;
    if (!(options->decay >= 0.0 && options->decay < 1.0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "average: decay is %g; 0 <= decay < 1 expected",
                        options->decay);
    qkv_average *a = qkv_calloc(ctx, 1, sizeof *a);
    if (!a)
        return QKV_E_MEMORY;
    a->ctx = ctx;
    a->params = params;
    a->options = *options;
    a->n = qkv_params_count(params);
    a->own = qkv_calloc(ctx, a->n, sizeof *a->own);
    for (size_t i = 0; i < a->n && a->own; i++)
        if (!qkv__param_fixed(qkv_params_at(params, i)))
            a->own[i] = qkv__own_of(own, params, i);
    if (!a->own || average_allocate(a)) {
        qkv_average_destroy(a);
        return QKV_E_MEMORY;
    }
    *out = a;
    return QKV_OK;
}

void qkv_average_destroy(qkv_average *a)
{
    if (!a)
        return;
    qkv__arena_destroy(a->memory);
    qkv_free(a->ctx, a->mean);
    qkv_free(a->ctx, a->own);
    qkv_free(a->ctx, a);
}

void qkv_average_add(qkv_average *a)
{
    double weight = average_share(a);
    for (size_t i = 0; i < a->n; i++)
        qkv__param_mix(a->mean[i], qkv_params_at(a->params, i), weight, a->own[i].from,
                       a->own[i].count);
    a->count++;
}

qkv_status qkv_average_swap(qkv_average *a)
{
    if (!a->count)
        return qkv_fail(a->ctx, QKV_E_ARGUMENT, "average: nothing was added yet");
    for (size_t i = 0; i < a->n; i++)
        qkv__param_swap(a->mean[i], qkv_params_at(a->params, i), a->own[i].from,
                        a->own[i].count);
    return QKV_OK;
}

size_t qkv_average_state_count(const qkv_average *a) { return 1 + a->n; }

qkv_state qkv_average_state(qkv_average *a, size_t i)
{
    if (i == 0)
        return qkv__state_counts("count", 0, 1, &a->count);
    return qkv__state_of(qkv_params_at(a->params, i - 1), "average", a->mean[i - 1],
                         a->own[i - 1]);
}
