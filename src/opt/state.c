/* state.c - describing a state array, so that whoever saves it needs no other knowledge. */
#include "opt/state.h"

#include "base/device.h"
#include "tensor/make.h"

qkv_state qkv__state_of(const qkv_param *p, const char *what, qkv_real *data, qkv__own own)
{
    qkv_state s = {qkv_param_name(p), what, QKV_REAL, qkv_param_ndim(p), {0}, data,
                   qkv__param_context(p), own.from, own.count};
    for (int i = 0; i < s.ndim; i++)
        s.shape[i] = qkv_param_dim(p, i);
    return s;
}

qkv_state qkv__state_counts(const char *what, int ndim, size_t n, int32_t *data)
{
    return (qkv_state){NULL, what, QKV_I32, ndim, {ndim ? n : 0}, data, NULL, 0, n};
}

static size_t state_bytes_of(const qkv_state *s)
{
    return s->held * (s->dtype == QKV_REAL ? sizeof(qkv_real) : sizeof(int32_t));
}

void *qkv_state_map(const qkv_state *s)
{
    return s->ctx ? qkv__map(s->ctx, s->data, state_bytes_of(s)) : s->data;
}

void qkv_state_unmap(const qkv_state *s, void *mapped, bool written)
{
    if (s->ctx)
        qkv__unmap(s->ctx, mapped, s->data, state_bytes_of(s), written);
}
