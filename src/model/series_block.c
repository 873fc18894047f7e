/* series_block.c - the names of a block's parameters in models of series. */
#include "model/series_block.h"

void qkv__visit_series_block(qkv__visit *v, const qkv_block_params *p, size_t width,
                             size_t ff_width, double std)
{
    size_t d = width, ff = ff_width;
    qkv__visit_norm(v, "norm1", p->norm1_weight, p->norm1_bias, d);
    qkv__visit_linear(v, "attn.qkv", p->qkv_weight, p->qkv_bias, 0, 3 * d, d, std);
    qkv__visit_linear(v, "attn.out", p->out_weight, p->out_bias, 0, d, d, std);
    if (p->q_weight) {
        qkv__visit_norm(v, "norm_x", p->norm_x_weight, p->norm_x_bias, d);
        qkv__visit_linear(v, "cross.q", p->q_weight, p->q_bias, 0, d, d, std);
        qkv__visit_linear(v, "cross.kv", p->kv_weight, p->kv_bias, 0, 2 * d, d, std);
        qkv__visit_linear(v, "cross.out", p->out_x_weight, p->out_x_bias, 0, d, d, std);
    }
    qkv__visit_norm(v, "norm2", p->norm2_weight, p->norm2_bias, d);
    qkv__visit_linear(v, "ff.up", p->up_weight, p->up_bias, 0, ff, d, std);
    qkv__visit_linear(v, "ff.down", p->down_weight, p->down_bias, 0, d, ff, std);
}
