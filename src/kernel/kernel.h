/* kernel.h - every numeric inner loop, as one table of function pointers.
 *
 * A kernel sees raw pointers and sizes: no tensors, no tape, no errors, no allocation but
 * scratch from its exec. Callers have checked the shapes. Unless a comment says otherwise
 * arrays are dense, row-major qkv_real; outputs come first; an output may not alias an input.
 * acc true: add to the output; false: store (the output may hold anything).
 * Sums run in an order that depends on sizes alone, or on sizes and the team size.
 *
 * Shape letters: B batch, T query length, S key length, H heads, D head width, C channels,
 * V classes, N rows (any leading dims, flattened), K inner size of a product, n elements.
 *
 * Plain C (ref_*.c) fills the whole table and is the reference for every other entry; the
 * AVX2, then the AVX-512 file overwrite what they have. A slot is REQUIRED of the reference
 * and optional for everybody else. */
#ifndef QKV_KERNEL_H
#define QKV_KERNEL_H

#include "base/base.h"

/* What every kernel needs to know about where it runs. */
typedef struct {
    int threads;         /* OpenMP team size, >= 1 */
    qkv__arena *scratch; /* for temporaries; a kernel marks and releases it (outside regions) */
    bool dry;            /* of kernels that serve in a dry table too: stop at the scratch taken */
} qkv_exec;

/* Elementwise functions; the order is qkv_activation's (ops.h). */
typedef enum {
    QKV_K_NONE, QKV_K_RELU, QKV_K_GELU, QKV_K_GELU_TANH, QKV_K_QUICK_GELU, QKV_K_SILU,
    QKV_K_SIGMOID, QKV_K_TANH, QKV_K_LEAKY_RELU, QKV_K_ACT_COUNT
} qkv_k_act;

/* ---- products ------------------------------------------------------------------------- */

/* c (m, n; row stride ldc) = [c +] op(a) (m, k) op(b) (k, n) [+ bias (n) on every row].
 * ta: a is stored (k, m); tb: b is stored (n, k). ld*: row stride of what is stored. */
typedef struct {
    bool ta, tb, acc;
    size_t m, n, k, lda, ldb, ldc;
    const qkv_real *bias; /* NULL: none */
} qkv_k_gemm_args;
typedef void qkv_k_gemm_fn(const qkv_exec *e, qkv_real *c, const qkv_real *a, const qkv_real *b,
                           const qkv_k_gemm_args *args);

/* y (m, n; row stride ldy) = x (m, k; row stride ldx) w^T + bias, w (n, k) dense, for few rows
 * (1 .. 32 or so): reads w once, at the speed of memory. */
typedef void qkv_k_gemv_fn(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x,
                           size_t ldx, const qkv_real *w, const qkv_real *bias, size_t m,
                           size_t n, size_t k);

/* Weights w (n, k) in the order in which products of many rows read them: groups of QKV_K_PACKED
 * rows of w, each turned; packed (n / QKV_K_PACKED rounded up, k, QKV_K_PACKED), 0 past row n. */
enum { QKV_K_PACKED = 16 };
typedef void qkv_k_pack_fn(const qkv_exec *e, qkv_real *packed, const qkv_real *w, size_t n,
                           size_t k);

/* ---- convolution: pictures (B, H, W, C), channels last -------------------------------------- */

/* Windows KH x KW, `stride` apart, over the picture with `top` rows and `left` columns of zeros
 * before it, and as many behind it as OH and OW need. */
typedef struct {
    size_t B, H, W, C, N, KH, KW, OH, OW, stride, top, left;
} qkv_k_conv_args;
/* y (B, OH, OW, N) = x * w + bias: y[b, i, j, n] = bias[n] + sum of w[n, k, l, c]
 * x[b, i stride + k - top, j stride + l - left, c]. w (N, KH, KW, C); bias (N) or NULL. */
typedef void qkv_k_conv_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                           const qkv_real *bias, const qkv_k_conv_args *args);
typedef void qkv_k_conv_bwd_data_fn(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                                    const qkv_real *w, const qkv_k_conv_args *args, bool acc);
typedef void qkv_k_conv_bwd_weights_fn(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                                       const qkv_real *x, const qkv_k_conv_args *args, bool acc);

/* Windows as in a convolution, for each of C channels; a window that lies beside the picture gives
 * -infinity, or 0. from (B, OH, OW, C): which pixel, row x W + column, was the largest, the first
 * of equals; -1: none. The mean counts the zeros around the picture. */
typedef void qkv_k_max_pool_fn(const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x,
                               const qkv_k_conv_args *args);
typedef void qkv_k_max_pool_bwd_fn(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                                   const int32_t *from, const qkv_k_conv_args *args, bool acc);
typedef void qkv_k_mean_pool_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                                const qkv_k_conv_args *args);
typedef void qkv_k_mean_pool_bwd_fn(const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
                                    const qkv_k_conv_args *args, bool acc);

/* ---- elementwise ------------------------------------------------------------------------- */

typedef void qkv_k_axpy_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x, double alpha,
                           bool acc, size_t n); /* y = [y +] alpha x; y may be x */
typedef void qkv_k_add_fn(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b,
                          size_t n); /* y = a + b; y may be a or b */
typedef void qkv_k_mul_fn(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b,
                          bool acc, size_t n); /* y = [y +] a b; y may be a or b */

/* y (N, C) = [y +] factor[n] x, and not looked at where the factor is 0. */
typedef void qkv_k_scale_rows_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                                 const qkv_real *factor, bool acc, size_t N, size_t C);

typedef void qkv_k_map_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                          size_t n); /* y = exp x, or 1/x; y may be x */

/* y = act(x). y may be x. */
typedef void qkv_k_act_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x, qkv_k_act act,
                          size_t n);
/* dx = [dx +] act'(x) dy. dx may be dy when storing. x is the activation's input. */
typedef void qkv_k_act_bwd_fn(const qkv_exec *e, qkv_real *dx, const qkv_real *x,
                              const qkv_real *dy, qkv_k_act act, bool acc, size_t n);

/* y (N, C) = act(gate) up; rows of gate and up are ldg and ldu apart. */
typedef void qkv_k_gated_fn(const qkv_exec *e, qkv_real *y, const qkv_real *gate, size_t ldg,
                            const qkv_real *up, size_t ldu, qkv_k_act act, size_t N, size_t C);
/* dgate = [dgate +] act'(gate) up dy; dup = [dup +] act(gate) dy. Either may be NULL. */
typedef void qkv_k_gated_bwd_fn(const qkv_exec *e, qkv_real *dgate, size_t lddg, bool acc_gate,
                                qkv_real *dup, size_t lddu, bool acc_up, const qkv_real *gate,
                                size_t ldg, const qkv_real *up, size_t ldu, const qkv_real *dy,
                                qkv_k_act act, size_t N, size_t C);

/* y[c] = [y +] sum over rows of x (N, C; row stride ldx): bias gradients, broadcast sums. */
typedef void qkv_k_sum_rows_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t ldx,
                               bool acc, size_t N, size_t C);

/* Sum of x and of x^2, in double, in blocks of a fixed size. */
typedef double qkv_k_sum_fn(const qkv_exec *e, const qkv_real *x, size_t n);

/* Strided copy: y (shape; strides sy) = [y +] x (shape; strides sx), ndim <= 8, strides in
 * elements. */
typedef void qkv_k_copy_fn(const qkv_exec *e, qkv_real *y, const size_t *sy, const qkv_real *x,
                           const size_t *sx, const size_t *shape, int ndim, bool acc);

/* Rows of n elements, `row` apart, in place: row to[i] = row from[i], one after another. */
typedef void qkv_k_move_fn(const qkv_exec *e, qkv_real *x, size_t row, const size_t *to,
                           const size_t *from, size_t moves, size_t n);

/* ---- norms --------------------------------------------------------------------------------- */

/* rms: no mean. sum (N, C) = x + residual when residual is not NULL (sum may be NULL then too,
 * and then s is not kept); s is x otherwise. y = (s - mean) rstd weight + bias. mean (N; not
 * written when rms) and rstd (N) are for the backward pass and may be NULL. weight, bias may
 * be NULL. */
typedef struct {
    bool rms;
    double eps;
    size_t N, C;
} qkv_k_norm_args;
typedef void qkv_k_norm_fn(const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean,
                           qkv_real *rstd, const qkv_real *x, const qkv_real *residual,
                           const qkv_real *weight, const qkv_real *bias,
                           const qkv_k_norm_args *args);
/* dx = [dx +] gradient of the norm with respect to s (+ dsum when not NULL: the gradient that
 * reached s itself). dx may be dsum when storing. dweight, dbias (C) = [+=], NULL: not wanted.
 * dx NULL: not wanted. */
typedef void qkv_k_norm_bwd_fn(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                               bool acc_weight, qkv_real *dbias, bool acc_bias,
                               const qkv_real *s, const qkv_real *mean, const qkv_real *rstd,
                               const qkv_real *weight, const qkv_real *dy, const qkv_real *dsum,
                               const qkv_k_norm_args *args);

/* ---- channel by channel, over all rows ------------------------------------------------- */

/* y[c] = sum over n of (x[n,c] - m[c]) a[n,c]; a NULL: of its square. */
typedef void qkv_k_channel_dot_fn(const qkv_exec *e, qkv_real *y, const qkv_real *a,
                                  const qkv_real *x, const qkv_real *m, size_t N, size_t C);
/* y[n,c] = [y +] (x[n,c] - m[c]) q[c] + p[c] u[n,c] + r[c]; without m, u and p, r where they are
 * NULL. y may be x or u when storing. */
typedef struct {
    const qkv_real *m, *q, *u, *p, *r;
} qkv_k_channel_map_args;
typedef void qkv_k_channel_map_fn(const qkv_exec *e, qkv_real *y, bool acc, const qkv_real *x,
                                  const qkv_k_channel_map_args *args, size_t N, size_t C);

/* ---- groups of channels, picture by picture ----------------------------------------------- */

/* Of B pictures (N places, C channels), C/G neighbouring channels are a group: y = act(u) with
 * u = (x - mean) rstd weight + bias, mean and rstd (B, G) of the group's N C/G numbers; both are
 * written. weight, bias (C). */
typedef struct {
    size_t B, N, C, G;
    double eps;
    bool silu; /* act(u) = u sigmoid(u); else u */
} qkv_k_group_norm_args;
typedef void qkv_k_group_norm_fn(const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd,
                                 const qkv_real *x, const qkv_real *weight, const qkv_real *bias,
                                 const qkv_k_group_norm_args *args);
/* dx as in other kernels; dweight and dbias (C) are stored. Each may be NULL. */
typedef void qkv_k_group_norm_bwd_fn(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                                     qkv_real *dbias, const qkv_real *dy, const qkv_real *x,
                                     const qkv_real *mean, const qkv_real *rstd,
                                     const qkv_real *weight, const qkv_real *bias,
                                     const qkv_k_group_norm_args *args);

/* ---- softmax and cross-entropy --------------------------------------------- */

/* y[r,:] = exp(x[r,:] - max) / sum. A row of all -inf gives zeros. y may be x. */
typedef void qkv_k_softmax_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N,
                              size_t C);
/* dx = [dx +] y (dy - <y, dy>). dx may be dy when storing. */
typedef void qkv_k_softmax_bwd_fn(const qkv_exec *e, qkv_real *dx, const qkv_real *y,
                                  const qkv_real *dy, bool acc, size_t N, size_t C);

/* For rows of logits (N, V): loss[r] = sum_v q_v (-log p_v), where q = on at the target and
 * off elsewhere (on + (V-1) off = 1; ignored rows, target == ignore: loss 0); argmax[r] the
 * first largest, or NULL. If dlogits is not NULL it gets scale (p - q), 0 for ignored rows;
 * dlogits may be logits. nll[r] = -log p_target, or NULL. Targets are valid. */
typedef struct {
    double on, off, scale;
    int32_t ignore;
    size_t N, V;
    double agreement; /* of xent_pair */
} qkv_k_xent_args;
typedef void qkv_k_xent_fn(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                           qkv_real *dlogits, const qkv_real *logits, const int32_t *targets,
                           const qkv_k_xent_args *args);
/* The same where every row's target is a distribution, targets (N, V): q = off + (on - off) of it,
 * no row is ignored, and nll[r] = -<target, log p>. */
typedef void qkv_k_xent_soft_fn(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                                qkv_real *dlogits, const qkv_real *logits,
                                const qkv_real *targets, const qkv_k_xent_args *args);

/* The same for two readings p and q of every row: logits a and b, each (N, V). loss[r] is the sum
 * of both cross-entropies and of agreement (KL(p||q) + KL(q||p)) / 2; da and db, both or neither
 * NULL, get scale times its gradients and may be a and b. */
typedef void qkv_k_xent_pair_fn(const qkv_exec *e, qkv_real *loss, qkv_real *da, qkv_real *db,
                                const qkv_real *a, const qkv_real *b, const int32_t *targets,
                                const qkv_k_xent_args *args);

/* For rows of logits x (N, V): id[r,:] are the k largest columns that are not banned, the largest
 * first (of equals the lower column), value[r,:] their log-probabilities; id -1 and -inf where
 * there are no more above -inf, and NaN where one of x is. banned (bans): columns in increasing
 * order; renormalize: they have no share in the probabilities. k >= 1. */
typedef struct {
    size_t N, V, k, bans;
    const int32_t *banned;
    bool renormalize;
} qkv_k_top_args;
typedef void qkv_k_top_fn(const qkv_exec *e, qkv_real *value, int32_t *id, const qkv_real *x,
                          const qkv_k_top_args *args);

/* ---- pointwise losses ------------------------------------------------------------- */

/* (x-t)^2, |x-t|, Huber's with threshold delta, and -t log s - (1-t) log(1-s), s = sigmoid(x). */
typedef enum { QKV_K_SQUARED, QKV_K_ABSOLUTE, QKV_K_HUBER, QKV_K_BINARY } qkv_k_loss_kind;
typedef struct {
    qkv_k_loss_kind loss;
    double delta, scale;
    bool to_target; /* of the backward pass: with respect to the target, not to x */
} qkv_k_loss_args;
/* The sum over n elements, in double, in blocks of a fixed size. */
typedef double qkv_k_loss_fn(const qkv_exec *e, const qkv_real *x, const qkv_real *target,
                             const qkv_k_loss_args *args, size_t n);
/* d = [d +] scale times the slope. */
typedef void qkv_k_loss_bwd_fn(const qkv_exec *e, qkv_real *d, const qkv_real *x,
                               const qkv_real *target, bool acc, const qkv_k_loss_args *args,
                               size_t n);

/* ---- rows by index -------------------------------------------------------------- */

/* y (N, C) = scale table[ids] + ptable[positions]; positions and ptable may be NULL. */
typedef void qkv_k_embed_fn(const qkv_exec *e, qkv_real *y, const int32_t *ids,
                            const qkv_real *table, double scale, const int32_t *positions,
                            const qkv_real *ptable, size_t N, size_t C);
/* dtable[ids[r],:] += scale dy[r,:], rows in increasing order for every channel. */
typedef void qkv_k_embed_bwd_fn(const qkv_exec *e, qkv_real *dtable, const int32_t *ids,
                                const qkv_real *dy, double scale, size_t N, size_t C);

/* id[n]: the column of products (N, K) for which x2[n] + code2[k] - 2 products[n,k] is least, the
 * first of equals: with products <x, code>, x2 = |x|^2 and code2 = |code|^2, the nearest code. */
typedef void qkv_k_nearest_fn(const qkv_exec *e, int32_t *id, const qkv_real *products,
                              const qkv_real *x2, const qkv_real *code2, size_t N, size_t K);

/* ---- rotary ----------------------------------------------------------------------- */

/* y = x with its first `width` channels rotated by sign * position * base^(-2i/width), pairs
 * (i, i + width/2). x: N rows sx apart of H heads hx apart of D; y likewise; positions (N). */
typedef struct {
    size_t N, H, D, width, sx, hx, sy, hy;
    double base;
    int sign; /* +1 forward, -1 backward */
    bool acc;
} qkv_k_rotary_args;
typedef void qkv_k_rotary_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                             const int32_t *positions, const qkv_k_rotary_args *args);

/* ---- dropout ---------------------------------------------------------------------- */

/* Element i of the tensor is element first + i of the global one. It is kept when the word
 * that Philox gives for counter (lo(g/4), hi(g/4), lo(step), site) and key seed, lane g%4, is
 * >= p 2^32: the same on every machine, thread count and rank. */
typedef struct {
    double p;
    uint64_t seed, step, first;
    uint32_t site;
} qkv_k_dropout_args;
/* p 2^32 for p in [0, 1): a word is kept when it is not below it. */
static inline uint32_t qkv__dropout_threshold(double p) { return (uint32_t)(p * 4294967296.0); }
/* y = [y +] [residual +] keep ? x / (1-p) : 0. residual may be NULL. y may be x or residual.
 * The backward pass is the same function on dy. */
typedef void qkv_k_dropout_fn(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                              const qkv_real *residual, bool acc, const qkv_k_dropout_args *args,
                              size_t n);

/* ---- attention ---------------------------------------------------------------------- */

/* One sequence b: T_b queries, S_b keys. Element (token i, head h, channel d) of q is at
 * q + (q_begin[b] + i) * q_row + h * q_head + d; k, v, out likewise with their own strides;
 * lse (row, head) at lse + (q_begin[b] + i) * H + h holds the log-sum-exp of the scores (-inf
 * for a query that sees nothing). Query i sees key j < k_len[b] when !causal or
 * j <= i + k_len_full[b] - q_len[b]. */
typedef struct {
    size_t B, H, Hkv, D, Dv;
    const size_t *q_begin, *q_len; /* (B) */
    const size_t *k_begin, *k_len; /* (B): k_len after key lengths were applied */
    const size_t *k_len_full;      /* (B): before; the diagonal refers to it */
    size_t q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head;
    double scale;
    bool causal;
    /* bias[b, h, i, j] at bias + b*bias_b + h*bias_h + i*bias_t + j; a stride of 0 broadcasts.
     * NULL: none. */
    const qkv_real *bias;
    size_t bias_b, bias_h, bias_t;
    /* Dropout of the weights: element ((first_row + q_begin[b] + i) * H + h) * 2^20 + j of the
     * stream; p 0: none. */
    qkv_k_dropout_args dropout;
} qkv_k_attention_args;
typedef void qkv_k_attention_fn(const qkv_exec *e, qkv_real *out, qkv_real *lse,
                                const qkv_real *q, const qkv_real *k, const qkv_real *v,
                                const qkv_k_attention_args *args);
/* dq, dk, dv have the strides below; each is stored, or added to if its acc flag is set; NULL:
 * not wanted. dbias (as bias, same strides) is always added to. dout has out's strides. */
typedef struct {
    size_t dq_row, dq_head, dk_row, dk_head, dv_row, dv_head, do_row, do_head;
    bool acc_q, acc_k, acc_v;
} qkv_k_attention_bwd_args;
typedef void qkv_k_attention_bwd_fn(const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv,
                                    qkv_real *dbias, const qkv_real *dout, const qkv_real *out,
                                    const qkv_real *lse, const qkv_real *q, const qkv_real *k,
                                    const qkv_real *v, const qkv_k_attention_args *args,
                                    const qkv_k_attention_bwd_args *bwd);
/* weights (rows, k_len[b]) of queries row .. row+rows-1 of one sequence and head, exactly, from
 * q, k and lse; before dropout. */
typedef void qkv_k_attention_rows_fn(const qkv_exec *e, qkv_real *weights, const qkv_real *lse,
                                     const qkv_real *q, const qkv_real *k,
                                     const qkv_k_attention_args *args, size_t b, size_t h,
                                     size_t row, size_t rows);

/* ---- updates --------------------------------------------------------------------------- */

/* PyTorch's definitions; g is scaled by grad_scale first (clipping). Hyper-parameters and bias
 * corrections are computed in double by the caller. State arrays that a rule does not use are
 * NULL. */
typedef struct {
    double lr, weight_decay, grad_scale;
    double momentum, dampening;
    bool nesterov, first; /* first: the momentum buffer is set, not mixed */
    double alpha, eps;    /* RMSprop */
    double beta1, beta2, correction1, correction2; /* Adam: 1-beta1^t, sqrt(1-beta2^t) */
} qkv_k_update_args;
/* p, s1, s2, s3 (n) in and out, g (n) in. sgd: s1 momentum buffer. rmsprop: s1 square average,
 * s2 momentum buffer, s3 gradient average (centred). adam, adamw: s1 m, s2 v. */
typedef void qkv_k_update_fn(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2,
                             qkv_real *s3, const qkv_real *g, const qkv_k_update_args *args,
                             size_t n);

typedef struct {
    qkv_k_gemm_fn *gemm;
    qkv_k_gemv_fn *gemv;
    qkv_k_pack_fn *pack;
    qkv_k_gemv_fn *packed; /* as gemv, for more rows, w packed */
    qkv_k_conv_fn *conv;
    qkv_k_conv_bwd_data_fn *conv_bwd_data;
    qkv_k_conv_bwd_weights_fn *conv_bwd_weights;
    qkv_k_max_pool_fn *max_pool;
    qkv_k_max_pool_bwd_fn *max_pool_bwd;
    qkv_k_mean_pool_fn *mean_pool;
    qkv_k_mean_pool_bwd_fn *mean_pool_bwd;
    qkv_k_axpy_fn *axpy;
    qkv_k_add_fn *add;
    qkv_k_mul_fn *mul;
    qkv_k_scale_rows_fn *scale_rows;
    qkv_k_map_fn *exp, *reciprocal;
    qkv_k_act_fn *act;
    qkv_k_act_bwd_fn *act_bwd;
    qkv_k_gated_fn *gated;
    qkv_k_gated_bwd_fn *gated_bwd;
    qkv_k_sum_rows_fn *sum_rows;
    qkv_k_sum_fn *sum, *sum_squares;
    qkv_k_copy_fn *copy;
    qkv_k_move_fn *move;
    qkv_k_norm_fn *norm;
    qkv_k_norm_bwd_fn *norm_bwd;
    qkv_k_channel_dot_fn *channel_dot;
    qkv_k_channel_map_fn *channel_map;
    qkv_k_group_norm_fn *group_norm;
    qkv_k_group_norm_bwd_fn *group_norm_bwd;
    qkv_k_softmax_fn *softmax;
    qkv_k_softmax_bwd_fn *softmax_bwd;
    qkv_k_xent_fn *xent;
    qkv_k_xent_soft_fn *xent_soft;
    qkv_k_xent_pair_fn *xent_pair;
    qkv_k_top_fn *top;
    qkv_k_loss_fn *loss;
    qkv_k_loss_bwd_fn *loss_bwd;
    qkv_k_embed_fn *embed;
    qkv_k_embed_bwd_fn *embed_bwd;
    qkv_k_nearest_fn *nearest;
    qkv_k_rotary_fn *rotary;
    qkv_k_dropout_fn *dropout;
    qkv_k_attention_fn *attention;
    qkv_k_attention_bwd_fn *attention_bwd;
    qkv_k_attention_rows_fn *attention_rows;
    qkv_k_update_fn *sgd, *rmsprop, *adam, *adamw;
} qkv_kernels;

/* The table for the given QKV_ISA_* bits, and QKV__BF16: products of QKV__BF16_LEAST
 * multiplications or more (gemm) with operands rounded to bf16, to nearest, ties to even, where the
 * processor has instructions for them (AVX512_BF16). Built on first use, never freed, safe to
 * share. */
enum { QKV__BF16 = 1 << 2, QKV__BF16_LEAST = 1 << 15 };
const qkv_kernels *qkv__kernels(unsigned isa);

/* What work of this context runs on: kernels that compute, or those of a dry context, which do
 * nothing but take the scratch memory that computing would. training: of steps that are recorded,
 * which may be in bf16. */
const qkv_kernels *qkv__kernels_of(const qkv_context *ctx, bool training);
qkv_exec qkv__exec_of(const qkv_context *ctx, qkv__arena *scratch);

/* Fill or overwrite slots: one function per file of kernels. The simd_*.c files are written
 * once in the vector types of simd.h and compiled once per instruction set, whose name ends
 * the function's. */
void qkv__kernels_ref_elementwise(qkv_kernels *k);
void qkv__kernels_ref_pointwise(qkv_kernels *k); /* scaled rows, exp, 1/x, losses */
void qkv__kernels_ref_rows(qkv_kernels *k); /* norms, softmax, cross-entropy, rows by index */
void qkv__kernels_ref_channels(qkv_kernels *k);
void qkv__kernels_ref_group_norm(qkv_kernels *k);
void qkv__kernels_ref_attention(qkv_kernels *k);
void qkv__kernels_ref_gemm(qkv_kernels *k); /* gemm, gemv, pack, packed */
void qkv__kernels_ref_conv(qkv_kernels *k);
void qkv__kernels_ref_pool(qkv_kernels *k);
void qkv__kernels_ref_update(qkv_kernels *k);
void qkv__kernels_elementwise_avx2(qkv_kernels *k);
void qkv__kernels_rows_avx2(qkv_kernels *k);
void qkv__kernels_channels_avx2(qkv_kernels *k);
void qkv__kernels_group_norm_avx2(qkv_kernels *k);
void qkv__kernels_softmax_avx2(qkv_kernels *k);
void qkv__kernels_attention_avx2(qkv_kernels *k);
void qkv__kernels_gemv_avx2(qkv_kernels *k);
void qkv__kernels_packed_avx2(qkv_kernels *k);
void qkv__kernels_pool_avx2(qkv_kernels *k);
void qkv__kernels_update_avx2(qkv_kernels *k);
void qkv__kernels_elementwise_avx512(qkv_kernels *k);
void qkv__kernels_rows_avx512(qkv_kernels *k);
void qkv__kernels_channels_avx512(qkv_kernels *k);
void qkv__kernels_group_norm_avx512(qkv_kernels *k);
void qkv__kernels_softmax_avx512(qkv_kernels *k);
void qkv__kernels_attention_avx512(qkv_kernels *k);
void qkv__kernels_gemv_avx512(qkv_kernels *k);
void qkv__kernels_packed_avx512(qkv_kernels *k);
void qkv__kernels_pool_avx512(qkv_kernels *k);
void qkv__kernels_update_avx512(qkv_kernels *k);
void qkv__kernels_bf16_avx512(qkv_kernels *k); /* gemm, over what serves f32 */
/* y (n) = x in bf16, to nearest, ties to even. */
typedef void qkv_k_round_fn(const qkv_exec *e, uint16_t *y, const qkv_real *x, size_t n);
qkv_k_round_fn qkv__round_bf16_avx512;
void qkv__kernels_dnnl(qkv_kernels *k); /* gemm */
/* conv*; round not NULL: of pictures that it rounds to bf16. First without. */
void qkv__kernels_dnnl_conv(qkv_kernels *k, qkv_k_round_fn *round);
void qkv__kernels_dry(qkv_kernels *k);  /* all of it */

#endif
