/* dry.c - kernels that do nothing, for contexts that only want to know how much memory a step
 * takes. What an op reads back (sums, losses) is zero. */
#include <string.h>

#include "kernel/kernel.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static void dry_gemm(const qkv_exec *e, qkv_real *c, const qkv_real *a, const qkv_real *b, const
                     qkv_k_gemm_args *args)
{}

static void dry_gemv(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
                     const qkv_real *w, const qkv_real *bias, size_t m, size_t n, size_t k)
{}

static void dry_pack(const qkv_exec *e, qkv_real *packed, const qkv_real *w, size_t n, size_t k)
{}

static void dry_axpy(const qkv_exec *e, qkv_real *y, const qkv_real *x, double alpha, bool acc,
                     size_t n)
{}

static void dry_add(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{}

static void dry_mul(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, bool acc,
                    size_t n)
{}

static void dry_scale_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real
                           *factor, bool acc, size_t N, size_t C)
{}

static void dry_map(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t n)
{}

static void dry_act(const qkv_exec *e, qkv_real *y, const qkv_real *x, qkv_k_act act, size_t n)
{}

static void dry_act_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *x, const qkv_real *dy,
                        qkv_k_act act, bool acc, size_t n)
{}

static void dry_gated(const qkv_exec *e, qkv_real *y, const qkv_real *gate, size_t ldg, const
                      qkv_real *up, size_t ldu, qkv_k_act act, size_t N, size_t C)
{}

static void dry_gated_bwd(const qkv_exec *e, qkv_real *dgate, size_t lddg, bool acc_gate, qkv_real
                          *dup, size_t lddu, bool acc_up, const qkv_real *gate, size_t ldg, const
                          qkv_real *up, size_t ldu, const qkv_real *dy, qkv_k_act act, size_t N,
                          size_t C)
{}

static void dry_sum_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t ldx, bool acc,
                         size_t N, size_t C)
{}

static double dry_sum(const qkv_exec *e, const qkv_real *x, size_t n)
{
    return 0;
}

static void dry_copy(const qkv_exec *e, qkv_real *y, const size_t *sy, const qkv_real *x, const
                     size_t *sx, const size_t *shape, int ndim, bool acc)
{}

static void dry_conv(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w, const
                     qkv_real *bias, const qkv_k_conv_args *args)
{}

static void dry_conv_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                         const qkv_k_conv_args *args, bool acc)
{}

static void dry_max_pool(const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x, const
                         qkv_k_conv_args *args)
{}

static void dry_max_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const int32_t
                             *from, const qkv_k_conv_args *args, bool acc)
{}

static void dry_mean_pool(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_k_conv_args
                          *args)
{}

static void dry_mean_pool_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const
                              qkv_k_conv_args *args, bool acc)
{}

static void dry_move(const qkv_exec *e, qkv_real *x, size_t row, const size_t *to, const size_t
                     *from, size_t moves, size_t n)
{}

static void dry_norm(const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean, qkv_real *rstd,
                     const qkv_real *x, const qkv_real *residual, const qkv_real *weight, const
                     qkv_real *bias, const qkv_k_norm_args *args)
{}

static void dry_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight, bool
                         acc_weight, qkv_real *dbias, bool acc_bias, const qkv_real *s, const
                         qkv_real *mean, const qkv_real *rstd, const qkv_real *weight, const
                         qkv_real *dy, const qkv_real *dsum, const qkv_k_norm_args *args)
{}

static void dry_channel_dot(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *x,
                            const qkv_real *m, size_t N, size_t C)
{}

static void dry_channel_map(const qkv_exec *e, qkv_real *y, bool acc, const qkv_real *x, const
                            qkv_k_channel_map_args *args, size_t N, size_t C)
{}

static void dry_group_norm(const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd, const
                           qkv_real *x, const qkv_real *weight, const qkv_real *bias, const
                           qkv_k_group_norm_args *args)
{}

static void dry_group_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                               qkv_real *dbias, const qkv_real *dy, const qkv_real *x, const
                               qkv_real *mean, const qkv_real *rstd, const qkv_real *weight, const
                               qkv_real *bias, const qkv_k_group_norm_args *args)
{}

static void dry_softmax(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C)
{}

static void dry_softmax_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *y, const qkv_real *dy,
                            bool acc, size_t N, size_t C)
{}

static void dry_xent(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax, qkv_real
                     *dlogits, const qkv_real *logits, const int32_t *targets, const qkv_k_xent_args
                     *args)
{}

static void dry_xent_soft(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                          qkv_real *dlogits, const qkv_real *logits, const qkv_real *targets, const
                          qkv_k_xent_args *args)
{}

static void dry_xent_pair(const qkv_exec *e, qkv_real *loss, qkv_real *da, qkv_real *db, const
                          qkv_real *a, const qkv_real *b, const int32_t *targets, const
                          qkv_k_xent_args *args)
{}

static void dry_top(const qkv_exec *e, qkv_real *value, int32_t *id, const qkv_real *x, const
                    qkv_k_top_args *args)
{}

static double dry_loss(const qkv_exec *e, const qkv_real *x, const qkv_real *target, const
                       qkv_k_loss_args *args, size_t n)
{
    return 0;
}

static void dry_loss_bwd(const qkv_exec *e, qkv_real *d, const qkv_real *x, const qkv_real *target,
                         bool acc, const qkv_k_loss_args *args, size_t n)
{}

static void dry_embed(const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_real *table,
                      double scale, const int32_t *positions, const qkv_real *ptable, size_t N,
                      size_t C)
{}

static void dry_embed_bwd(const qkv_exec *e, qkv_real *dtable, const int32_t *ids, const qkv_real
                          *dy, double scale, size_t N, size_t C)
{}

static void dry_nearest(const qkv_exec *e, int32_t *id, const qkv_real *products, const qkv_real
                        *x2, const qkv_real *code2, size_t N, size_t K)
{
    memset(id, 0, N * sizeof *id);
}

static void dry_rotary(const qkv_exec *e, qkv_real *y, const qkv_real *x, const int32_t *positions,
                       const qkv_k_rotary_args *args)
{}

static void dry_dropout(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *residual,
                        bool acc, const qkv_k_dropout_args *args, size_t n)
{}

static void dry_attention(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q, const
                          qkv_real *k, const qkv_real *v, const qkv_k_attention_args *args)
{}

static void dry_attention_bwd(const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv, qkv_real
                              *dbias, const qkv_real *dout, const qkv_real *out, const qkv_real
                              *lse, const qkv_real *q, const qkv_real *k, const qkv_real *v, const
                              qkv_k_attention_args *args, const qkv_k_attention_bwd_args *bwd)
{}

static void dry_attention_rows(const qkv_exec *e, qkv_real *weights, const qkv_real *lse, const
                               qkv_real *q, const qkv_real *k, const qkv_k_attention_args *args,
                               size_t b, size_t h, size_t row, size_t rows)
{}

static void dry_update(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                       const qkv_real *g, const qkv_k_update_args *args, size_t n)
{}

void qkv__kernels_dry(qkv_kernels *k)
{
    *k = (qkv_kernels){
        .gemm = dry_gemm,
        .gemv = dry_gemv,
        .pack = dry_pack,
        .packed = dry_gemv,
        .axpy = dry_axpy,
        .add = dry_add,
        .mul = dry_mul,
        .scale_rows = dry_scale_rows,
        .exp = dry_map,
        .reciprocal = dry_map,
        .act = dry_act,
        .act_bwd = dry_act_bwd,
        .gated = dry_gated,
        .gated_bwd = dry_gated_bwd,
        .sum_rows = dry_sum_rows,
        .sum = dry_sum,
        .sum_squares = dry_sum,
        .copy = dry_copy,
        .move = dry_move,
        .max_pool = dry_max_pool,
        .max_pool_bwd = dry_max_pool_bwd,
        .mean_pool = dry_mean_pool,
        .mean_pool_bwd = dry_mean_pool_bwd,
        .conv = dry_conv,
        .conv_bwd_data = dry_conv_bwd,
        .conv_bwd_weights = dry_conv_bwd,
        .norm = dry_norm,
        .norm_bwd = dry_norm_bwd,
        .channel_dot = dry_channel_dot,
        .channel_map = dry_channel_map,
        .group_norm = dry_group_norm,
        .group_norm_bwd = dry_group_norm_bwd,
        .softmax = dry_softmax,
        .softmax_bwd = dry_softmax_bwd,
        .xent = dry_xent,
        .xent_soft = dry_xent_soft,
        .xent_pair = dry_xent_pair,
        .top = dry_top,
        .loss = dry_loss,
        .loss_bwd = dry_loss_bwd,
        .embed = dry_embed,
        .embed_bwd = dry_embed_bwd,
        .nearest = dry_nearest,
        .rotary = dry_rotary,
        .dropout = dry_dropout,
        .attention = dry_attention,
        .attention_bwd = dry_attention_bwd,
        .attention_rows = dry_attention_rows,
        .sgd = dry_update,
        .rmsprop = dry_update,
        .adam = dry_update,
        .adamw = dry_update,
    };
}
