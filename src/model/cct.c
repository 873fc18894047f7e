/* cct.c - how the compact transformer makes tokens of pixels and one answer of tokens. */
#include <math.h>
#include <stdio.h>

#include "nn/patches.h"
#include "model/cct.h"
#include "tensor/make.h"

static const qkv_conv_options SAME = {.stride = 1, .top = 1, .left = 1, .bottom = 1, .right = 1};
static const qkv_conv_options HALVE = {.stride = 2, .top = 1, .left = 1, .bottom = 1, .right = 1};
enum { WINDOW = 3 }; /* of convolutions and pools */

/* ---- making ------------------------------------------------------------------------------- */

qkv_status qkv__cct_complete(qkv_context *ctx, qkv_vit_config *c)
{
    if (!c->convolutions || c->convolutions > QKV__CONVOLUTIONS || !c->conv_channels)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "qkv_cct: %zu convolutions with %zu channels: 1 to "
                        "%d expected, none without channels", c->convolutions, c->conv_channels,
                        QKV__CONVOLUTIONS);
    c->trunk.patch = 1;
    if (!c->trunk.ff_width)
        c->trunk.ff_width = 2 * c->trunk.width;
    return QKV_OK;
}

size_t qkv__cct_side(const qkv_vit_config *c, size_t pixels)
{
    for (size_t i = 0; i < c->convolutions; i++)
        pixels = (pixels + 1) / 2;
    return pixels;
}

static size_t inputs(const qkv_vit_config *c, size_t i)
{
    return i ? c->conv_channels : c->trunk.channels;
}

static size_t cct_outputs(const qkv_vit_config *c, size_t i)
{
    return i + 1 < c->convolutions ? c->conv_channels : c->trunk.width;
}

qkv_status qkv__cct_make(qkv__cct *x, qkv_model *m, const qkv_vit_config *c)
{
    x->c = c;
    for (size_t i = 0; i < c->convolutions; i++) {
        char name[40];
        size_t shape[] = {cct_outputs(c, i), WINDOW, WINDOW, inputs(c, i)};
        snprintf(name, sizeof name, "convolution.%zu", i);
        x->convolution[i] = qkv_param_create(m->params, name, 4, shape);
    }
    (void)qkv_linear_create(&x->pool, m->params, "pool", c->trunk.width, 1);
    return qkv__params_status(m->params);
}

/* ---- rows --------------------------------------------------------------------------------- */

void qkv__cct_visit(const qkv__cct *x, qkv__visit *v)
{
    const qkv_vit_config *c = x->c;
    for (size_t i = 0; i < c->convolutions; i++) {
        char name[56];
        double std = sqrt(2.0 / (double)(WINDOW * WINDOW * inputs(c, i))); /* He et al. 2015 */
        snprintf(name, sizeof name, "tokenizer.conv_layers.%zu.0.weight", i);
        qkv__visit_convolution(v, name, x->convolution[i], cct_outputs(c, i), inputs(c, i), WINDOW,
                               std);
    }
    qkv__visit_linear_layer(v, "classifier.attention_pool", &x->pool, c->trunk.init_range);
}

void qkv__cct_visit_block(qkv__visit *v, const qkv_block *b, double std)
{
    const qkv_block_params *p = qkv_block_parameters(b);
    size_t d = qkv_block_configuration(b)->width, ff = qkv_block_configuration(b)->ff_width;
    qkv__visit_norm(v, "pre_norm", p->norm1_weight, p->norm1_bias, d);
    qkv__visit_linear(v, "self_attn.qkv", p->qkv_weight, p->qkv_bias, 0, 3 * d, d, std);
    qkv__visit_linear(v, "self_attn.proj", p->out_weight, p->out_bias, 0, d, d, std);
    qkv__visit_norm(v, "norm1", p->norm2_weight, p->norm2_bias, d);
    qkv__visit_linear(v, "linear1", p->up_weight, p->up_bias, 0, ff, d, std);
    qkv__visit_linear(v, "linear2", p->down_weight, p->down_bias, 0, d, ff, std);
}

/* ---- forward ------------------------------------------------------------------------------ */

/* ReLU after the pool, which then has a quarter of the work: the largest of a window is the same
 * before and after it. */
qkv_tensor *qkv__cct_tokens(const qkv__cct *x, qkv_tape *t, qkv_tensor *pixels)
{
    for (size_t i = 0; i < x->c->convolutions; i++) {
        qkv_tensor *y = qkv_conv2d(t, pixels, qkv_use(t, x->convolution[i]), NULL, &SAME);
        pixels = qkv_activate(t, qkv_max_pool2d(t, y, WINDOW, &HALVE), QKV_ACT_RELU);
    }
    return pixels;
}

qkv_tensor *qkv__cct_pool(const qkv__cct *x, qkv_tape *t, qkv_tensor *tokens)
{
    qkv_tensor *scores = qkv_linear_forward(&x->pool, t, tokens, QKV_ACT_NONE);
    if (!scores)
        return NULL;
    size_t B = qkv_dim(tokens, 0), row[] = {B, 1, qkv_dim(tokens, 1)};
    size_t flat[] = {B, qkv_dim(tokens, 2)};
    qkv_tensor *weights = qkv_softmax(t, qkv_reshape(t, scores, 3, row));
    qkv_tensor *mixture = qkv_matmul(t, qkv_probe(t, "pool", weights), false, tokens, false);
    return mixture ? qkv_reshape(t, mixture, 2, flat) : NULL;
}

double qkv__cct_flops(const qkv_vit_config *c, qkv_pass pass, double images, size_t height,
                      size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < c->convolutions; i++) {
        double products = (double)(WINDOW * WINDOW * inputs(c, i) * cct_outputs(c, i));
        products *= images * (double)height * (double)width;
        sum += qkv__flops(i || pass ? pass : QKV_PASS_INPUT, products, 0);
        height = (height + 1) / 2;
        width = (width + 1) / 2;
    }
    return sum;
}
