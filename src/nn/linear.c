/* linear.c - a linear layer: a matrix and a bias. */
#include "nn/state_entries.h"
#include "tensor/make.h"

bool qkv_linear_create(qkv_linear_layer *out, qkv_params *ps, const char *name, size_t in,
                       size_t outputs)
{
    out->weight = qkv__param_linear(qkv__layer_param(ps, name, "weight", outputs, in));
    out->bias = qkv__layer_param(ps, name, "bias", outputs, 0);
    return out->weight && out->bias;
}

qkv_tensor *qkv_linear_forward(const qkv_linear_layer *l, qkv_tape *t, qkv_tensor *x,
                               qkv_activation act)
{
    return qkv_linear(t, x, qkv_use(t, l->weight), l->bias ? qkv_use(t, l->bias) : NULL, act);
}
