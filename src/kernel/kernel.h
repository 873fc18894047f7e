/* kernel.h - every numeric inner loop, as one table of function pointers; slots.h lists them.
 *
 * A kernel sees raw pointers and sizes: no tensors, no tape, no errors, no allocation but
 * scratch from its exec. Callers have checked the shapes. Unless a comment says otherwise
 * arrays are contiguous, row-major qkv_real; outputs come first; an output may not alias an input.
 * acc true: add to the output; false: store (the output may hold anything).
 * Sums run in an order that depends on sizes alone, or on sizes and the team size.
 *
 * Shape letters: B batch, T query length, S key length, H heads, D head width, C channels,
 * V classes, N rows (any leading dims, flattened), K inner size of a product, n elements.
 *
 * Plain C (ref_*.c) fills the whole table and is the reference for every other entry; files of
 * the processor's instruction sets (AVX2, then AVX-512; NEON) overwrite what they have. A slot is
 * REQUIRED of the reference and optional for everybody else. */
#ifndef QKV_KERNEL_H
#define QKV_KERNEL_H

#include <string.h>

#include "base/base.h"

/* What every kernel needs to know about where it runs. */
typedef struct {
    int threads;         /* OpenMP team size, >= 1 */
    qkv__arena *scratch; /* for temporaries; a kernel marks and releases it (outside regions) */
    bool meta;           /* of kernels that serve in a dry table too: stop at the scratch taken */
    /* Bit i: the kernel's parameter i, of those that point to reals, from 0, holds bf16 instead, 2
     * bytes a number; strides are in numbers all the same. Only kernels of devices that round
     * activations (device.h) meet others than 0. */
    unsigned bf16;
} qkv_exec;

/* Elementwise functions; the order is qkv_activation's (ops.h). */
typedef enum {
    QKV_K_NONE, QKV_K_RELU, QKV_K_GELU, QKV_K_GELU_TANH, QKV_K_QUICK_GELU, QKV_K_SILU,
    QKV_K_SIGMOID, QKV_K_TANH, QKV_K_LEAKY_RELU, QKV_K_ACT_COUNT
} qkv_k_act;

/* ---- products ------------------------------------------------------------------------- */

/* c (m, n; row stride ldc) = [c +] op(a) (m, k) op(b) (k, n) [+ bias (n) on every row].
 * ta: a is stored (k, m); tb: b is stored (n, k). ld*: row stride of what is stored. Rows of a and
 * c in bf16 that are longer, to the next multiple of 8: of c's anything may be written there, and
 * a's hold zeros. b_version: which of its states b is in, a parameter's; two products whose b has
 * one address, shape and version read the same bits. */
typedef struct {
    bool ta, tb, acc;
    size_t m, n, k, lda, ldb, ldc;
    const qkv_real *bias; /* NULL: none */
    uint64_t b_version;   /* 0: not known */
} qkv_k_gemm_args;

enum { QKV_K_PACKED = 16 }; /* rows of weights that lie together once packed */

/* ---- weights in fewer bits (small.h has their layout) --------------------------------------- */

typedef enum { QKV_K_BF16, QKV_K_INT8, QKV_K_INT4 } qkv_k_small_type;

/* A matrix w (n, k): w[j,p] is a number in bf16, or an integer times a scale: one scale for a row
 * in 8 bits, one for QKV_K_INT4_BLOCK neighbours of a row in 4. */
typedef struct {
    qkv_k_small_type type;
    size_t n, k;
    void *words, *scales; /* scales: of the integers alone */
} qkv_k_small;

/* Numbers of a row of x that share a scale where it meets integers of 8 and of 4 bits. */
enum { QKV_K_INT8_BLOCK = 64, QKV_K_INT4_BLOCK = 32 };

/* ---- convolution: images (B, H, W, C), channels last -------------------------------------- */

/* Windows KH x KW, `stride` apart, over the image with `top` rows and `left` columns of zeros
 * before it, and as many behind it as OH and OW need. */
typedef struct {
    size_t B, H, W, C, N, KH, KW, OH, OW, stride, top, left;
} qkv_k_conv_args;

/* ---- norms --------------------------------------------------------------------------------- */

/* rms: no mean. sum (N, C) = x + residual when residual is not NULL (sum may be NULL then too,
 * and then s is not kept, and it may be x); s is x otherwise. y = (s - mean) rstd weight + bias.
 * mean (N; not written when rms) and rstd (N) are for the backward pass and may be NULL. weight,
 * bias may be NULL. */
typedef struct {
    bool rms;
    double eps;
    size_t N, C;
} qkv_k_norm_args;

/* ---- channel by channel, over all rows ------------------------------------------------- */

/* y[n,c] = [y +] (x[n,c] - m[c]) q[c] + p[c] u[n,c] + r[c]; without m, u and p, r where they are
 * NULL. y may be x or u when storing. */
typedef struct {
    const qkv_real *m, *q, *u, *p, *r;
} qkv_k_channel_map_args;

/* ---- groups of channels, image by image ----------------------------------------------- */

/* Of B images (N places, C channels), C/G neighbouring channels are a group: y = act(u) with
 * u = (x - mean) rstd weight + bias, mean and rstd (B, G) of the group's N C/G numbers; both are
 * written. weight, bias (C). */
typedef struct {
    size_t B, N, C, G;
    double eps;
    bool silu; /* act(u) = u sigmoid(u); else u */
} qkv_k_group_norm_args;

/* ---- softmax and cross-entropy --------------------------------------------- */

/* For rows of logits (N, V): loss[r] = sum_v q_v (-log p_v), where q = on at the target and
 * off elsewhere (on + (V-1) off = 1; ignored rows, target == ignore: loss 0); argmax[r] the
 * first largest, or NULL. If dlogits is not NULL it gets scale (p - q), 0 for ignored rows;
 * dlogits may be logits. nll[r] = -log p_target, or NULL. Targets are valid. */
typedef struct {
    double on, off, scale;
    int32_t ignore;
    size_t N, V;
    double rdrop; /* of xent_pair */
    size_t ld; /* of xent in bf16: rows of logits, and dlogits, begin so far apart; 0: V */
} qkv_k_xent_args;

/* For rows of logits x (N, V): id[r,:] are the k largest columns that are not banned, the largest
 * first (of equals the lower column), value[r,:] their log-probabilities; id -1 and -inf where
 * there are no more above -inf, and NaN where one of x is. banned (bans): columns in increasing
 * order; renormalize: they have no share in the probabilities. k >= 1. */
typedef struct {
    size_t N, V, k, bans;
    const int32_t *banned;
    bool renormalize;
} qkv_k_top_args;

/* ---- pointwise losses ------------------------------------------------------------- */

/* (x-t)^2, |x-t|, Huber's with threshold delta, and -t log s - (1-t) log(1-s), s = sigmoid(x). */
typedef enum { QKV_K_SQUARED, QKV_K_ABSOLUTE, QKV_K_HUBER, QKV_K_BINARY } qkv_k_loss_kind;
typedef struct {
    qkv_k_loss_kind loss;
    double delta, scale;
    bool to_target; /* of the backward pass: with respect to the target, not to x */
} qkv_k_loss_args;

/* ---- rotary ----------------------------------------------------------------------- */

/* y = x with its first `width` channels rotated by sign * position * frequency[i], pairs
 * (i, i + width/2), and times scale. x: N rows sx apart of H heads hx apart of D; y likewise;
 * positions (N). */
typedef struct {
    size_t N, H, D, width, sx, hx, sy, hy;
    const double *frequency; /* (width / 2) */
    double scale;
    int sign; /* +1 forward, -1 backward */
    bool acc;
} qkv_k_rotary_args;

/* ---- dropout ---------------------------------------------------------------------- */

/* Element i of the tensor is element first + i of the global one. It is kept when the word
 * that Philox gives for counter (lo(g/4), hi(g/4), lo(step), site) and key seed, lane g%4, is
 * >= p 2^32: the same on every machine, thread count and rank. */
typedef struct {
    double p;
    uint64_t seed, step, first;
    uint32_t dropout_id;
} qkv_k_dropout_args;
/* p 2^32 for p in [0, 1): a word is kept when it is not below it. */
static inline uint32_t qkv__dropout_threshold(double p) { return (uint32_t)(p * 4294967296.0); }

/* ---- attention ---------------------------------------------------------------------- */

/* One sequence b: T_b queries, S_b keys. Element (token i, head h, channel d) of q is at
 * q + (q_begin[b] + i) * q_row + h * q_head + d; k, v, out likewise with their own strides;
 * lse (row, head) at lse + (q_begin[b] + i) * H + h holds the log-sum-exp of the scores (-inf
 * for a query that sees nothing). Query i sees key j < k_len[b] when !causal or j <= d, and with a
 * window of keys j > d - window too, where d = i + k_len_full[b] - q_len[b]. */
typedef struct {
    size_t B, H, Hkv, D, Dv;
    const size_t *q_begin, *q_len; /* (B) */
    const size_t *k_begin, *k_len; /* (B): k_len after key lengths were applied */
    const size_t *k_len_full;      /* (B): before; the diagonal refers to it */
    size_t q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head;
    double scale;
    bool causal;
    size_t window; /* 0: none; only if causal */
    /* bias[b, h, i, j] at bias + qkv__bias_row(b, h, i) + j; a stride of 0 broadcasts. bias_t -1:
     * a bias that depends on j - i alone, whose rows overlap. NULL: none. */
    const qkv_real *bias;
    size_t bias_b, bias_h;
    ptrdiff_t bias_t;
    /* Dropout of the weights: element ((first_row + q_begin[b] + i) * H + h) * 2^20 + j of the
     * stream; p 0: none. */
    qkv_k_dropout_args dropout;
} qkv_k_attention_args;
static inline ptrdiff_t qkv__bias_row(const qkv_k_attention_args *a, size_t b, size_t h, size_t i)
{
    return (ptrdiff_t)(b * a->bias_b + h * a->bias_h) + (ptrdiff_t)i * a->bias_t;
}

/* dq, dk, dv have the strides below; each is stored, or added to if its acc flag is set; NULL:
 * not wanted. dbias (as bias, same strides) is always added to. dout has out's strides. */
typedef struct {
    size_t dq_row, dq_head, dk_row, dk_head, dv_row, dv_head, do_row, do_head;
    bool acc_q, acc_k, acc_v;
} qkv_k_attention_bwd_args;

/* What a number in bf16 stands for. */
static inline float qkv__bf16_number(uint16_t bf16)
{
    uint32_t word = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* ---- caches ---------------------------------------------------------------------------- */

/* Numbers of a cache, with the values of qkv_kv_store. */
typedef enum { QKV_K_KV_REAL, QKV_K_KV_BF16, QKV_K_KV_INT8 } qkv_k_kv;
/* Keys or values of a cache in fewer bits, as kv_store leaves them. */
typedef struct {
    qkv_k_kv kind;         /* not REAL */
    const void *data;      /* (rows, Hkv, D) */
    const qkv_real *scale; /* (rows, Hkv) of INT8; else NULL */
} qkv_k_stored;
enum { QKV_K_FEW = 4 }; /* queries a sequence, at most, of attention_stored */

/* ---- updates --------------------------------------------------------------------------- */

/* PyTorch's definitions; g is scaled by grad_scale first (clipping). Hyper-parameters and bias
 * corrections are computed in double by the caller. State arrays that a rule does not use are
 * NULL. version and becomes: what products give as b_version before and after; 0: not known. */
typedef struct {
    double lr, weight_decay, grad_scale;
    double momentum, dampening;
    bool nesterov, first; /* first: the momentum buffer is set, not mixed */
    double alpha, eps;    /* RMSprop */
    double beta1, beta2, correction1, correction2; /* Adam: 1-beta1^t, sqrt(1-beta2^t) */
    uint64_t version, becomes;
} qkv_k_update_args;

/* qkv_k_NAME_fn, and the table of them. */
#define KERNEL(name, parameters, arguments) typedef void qkv_k_##name##_fn parameters;
#define KERNEL_SUM(name, parameters, arguments) typedef double qkv_k_##name##_fn parameters;
#include "kernel/slots.h"
typedef struct qkv_kernels {
#define KERNEL(name, parameters, arguments) qkv_k_##name##_fn *name;
#define KERNEL_SUM(name, parameters, arguments) qkv_k_##name##_fn *name;
#include "kernel/slots.h"
} qkv_kernels;

/* The table for the given QKV_ISA_* bits and at most one of QKV__BF16, _AMX and _LIBRARY: products
 * of QKV__BF16_LEAST multiplications or more (gemm) with operands rounded to bf16, to nearest, ties
 * to even, by AVX512_BF16, by AMX or by the library, attention by AVX512_BF16 or AMX, and
 * convolutions by the library. What the processor lacks is left out. Built on first use, never
 * freed, safe to share. */
enum {
    QKV__BF16 = 1 << 3, QKV__BF16_AMX = 1 << 4, QKV__BF16_LIBRARY = 1 << 5,
    QKV__BF16_ANY = QKV__BF16 | QKV__BF16_AMX | QKV__BF16_LIBRARY, QKV__BF16_LEAST = 1 << 15
};
const qkv_kernels *qkv__kernels(unsigned isa);
unsigned qkv__products_isa(qkv__products kind); /* the bits that it adds */

/* What work of this context runs on: kernels that compute, or those of a meta context, which do
 * nothing but take the scratch memory that computing would. training: of steps that are recorded,
 * which may be in bf16. */
const qkv_kernels *qkv__kernels_of(const qkv_context *ctx, bool training);
/* Those of a kind of products, for what asks for it by name. */
const qkv_kernels *qkv__kernels_for(const qkv_context *ctx, qkv__products kind);
qkv_exec qkv__exec_of(const qkv_context *ctx, qkv__arena *scratch);

/* Fill or overwrite slots: one function per file of kernels. The simd_*.c files are written
 * once in the vector types of simd.h and compiled once per instruction set, whose name ends
 * the function's. */
typedef void qkv__fill_fn(qkv_kernels *k);
qkv__fill_fn qkv__kernels_ref_elementwise, qkv__kernels_ref_rows, qkv__kernels_ref_channels,
    qkv__kernels_ref_group_norm, qkv__kernels_ref_attention, qkv__kernels_ref_conv,
    qkv__kernels_ref_pool, qkv__kernels_ref_update;
qkv__fill_fn qkv__kernels_ref_pointwise; /* scaled rows, exp, 1/x, losses */
qkv__fill_fn qkv__kernels_ref_kv; /* kv_store, kv_load, attention_stored over attention */
qkv__fill_fn qkv__kernels_ref_gemm;      /* gemm, gemv, pack, packed */
qkv__fill_fn qkv__kernels_ref_small;     /* small, small_many, widen, embed_small */
#define QKV__SIMD_FILES(isa)                                                                    \
    qkv__kernels_elementwise_##isa, qkv__kernels_rows_##isa, qkv__kernels_channels_##isa,       \
        qkv__kernels_group_norm_##isa, qkv__kernels_softmax_##isa, qkv__kernels_attention_##isa, \
        qkv__kernels_gemv_##isa, qkv__kernels_packed_##isa, qkv__kernels_pool_##isa,            \
        qkv__kernels_update_##isa, qkv__kernels_widen_##isa
qkv__fill_fn QKV__SIMD_FILES(avx2), QKV__SIMD_FILES(avx512), QKV__SIMD_FILES(neon);
/* conv* where Winograd's algorithm serves, and gemm where ours does, over what serves the rest. */
#define QKV__SIMD_OVER(isa) qkv__kernels_winograd_##isa, qkv__kernels_gemm_##isa
qkv__fill_fn QKV__SIMD_OVER(avx2), QKV__SIMD_OVER(avx512), QKV__SIMD_OVER(neon);
/* gemm of any shape, m, n and k above 0. */
qkv_k_gemm_fn qkv__own_gemm_avx2, qkv__own_gemm_avx512, qkv__own_gemm_neon;
qkv__fill_fn qkv__kernels_small_avx2, qkv__kernels_small_neon;
qkv__fill_fn qkv__kernels_small_avxvnni_avx2; /* by AVX_VNNI */
qkv__fill_fn qkv__kernels_small_vnni_avx512;  /* by AVX512_VNNI */
qkv__fill_fn qkv__kernels_small_dotprod_neon; /* by the dot products of ARMv8.2 */
qkv__fill_fn qkv__kernels_small_amx_avx512;  /* small_many */
qkv__fill_fn qkv__kernels_bf16_avx512, qkv__kernels_amx_avx512; /* gemm, over what serves f32 */
/* attention, attention_bwd: over what serves f32. */
qkv__fill_fn qkv__kernels_attention_bf16_avx512, qkv__kernels_attention_amx_avx512;
/* y (n) = x in bf16, to nearest, ties to even. */
typedef void qkv_k_round_fn(const qkv_exec *e, uint16_t *y, const qkv_real *x, size_t n);
qkv_k_round_fn qkv__round_bf16_avx512;
qkv__fill_fn qkv__kernels_dnnl; /* gemm */
/* gemm, of operands that round has rounded to bf16; over qkv__kernels_dnnl. */
void qkv__kernels_dnnl_bf16(qkv_kernels *k, qkv_k_round_fn *round);
/* conv*; round not NULL: of images that it rounds to bf16. First without. */
void qkv__kernels_dnnl_conv(qkv_kernels *k, qkv_k_round_fn *round);
qkv__fill_fn qkv__kernels_meta; /* all of it */

#endif
