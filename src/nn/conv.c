/* conv.c - convolutions as layers. */
#include "nn/conv.h"

#include <math.h>
#include <stdio.h>

const qkv_conv_options qkv__conv_same = {.stride = 1, .top = 1, .left = 1, .bottom = 1,
                                         .right = 1};

bool qkv__conv_make(qkv__conv *c, qkv_params *ps, const char *name, size_t in, size_t out,
                    size_t window, bool bias)
{
    char full[256];
    size_t shape[] = {out, window, window, in}, flat[] = {out, in};
    *c = (qkv__conv){.in = in, .out = out, .window = window};
    snprintf(full, sizeof full, "%s.weight", name);
    c->weight = qkv_param_create(ps, full, window > 1 ? 4 : 2, window > 1 ? shape : flat);
    c->bias = bias ? qkv__layer_param(ps, name, "bias", out, 0) : NULL;
    return c->weight && (c->bias || !bias);
}

void qkv__visit_conv(qkv__visit *v, const char *name, const qkv__conv *c, double std)
{
    char full[256];
    double range = 1 / sqrt((double)(c->in * c->window * c->window));
    qkv_state_entry weight = {.kind = QKV_STATE_PARAM, .param = c->weight, .ndim = 4,
                              .shape = {c->out, c->in, c->window, c->window}, .perm = {0, 3, 1, 2},
                              .init = std > 0 ? QKV_INIT_NORMAL : QKV_INIT_UNIFORM,
                              .scale = std > 0 ? std : range, .decay = true};
    qkv_state_entry bias = {.kind = QKV_STATE_PARAM, .param = c->bias, .ndim = 1, .shape = {c->out},
                            .init = std > 0 ? QKV_INIT_ZEROS : QKV_INIT_UNIFORM, .scale = range};
    snprintf(full, sizeof full, "%s.weight", name);
    qkv__visit_entry(v, &weight, full);
    snprintf(full, sizeof full, "%s.bias", name);
    if (c->bias)
        qkv__visit_entry(v, &bias, full);
}

qkv_tensor *qkv__conv_forward(const qkv__conv *c, qkv_tape *t, qkv_tensor *x,
                              const qkv_conv_options *options)
{
    qkv_tensor *w = qkv_use(t, c->weight), *b = c->bias ? qkv_use(t, c->bias) : NULL;
    return c->window > 1 ? qkv_conv2d(t, x, w, b, options)
                         : qkv_linear(t, x, w, b, QKV_ACT_NONE);
}

double qkv__conv_flops(const qkv__conv *c, double pixels, int passes)
{
    return 2 * passes * (double)(c->in * c->window * c->window * c->out) * pixels;
}
