/* ops.h - the ops on tensors. Every op has a backward pass unless its comment says otherwise.
 * Layer: tensor
 *
 * Shape letters: B batch, T query length, S key length, H heads, D head width, C channels,
 * V vocabulary, N rows (all leading dimensions, flattened); "..": any leading dimensions. Tensors
 * hold reals, or i32 where stated. Every function returns a new tensor in the tape's step memory,
 * or NULL once anything on the tape has failed: QKV_E_SHAPE (wrong shapes or types, given in the
 * message), QKV_E_MEMORY. Inputs may be views. */
#ifndef QKV_OPS_H
#define QKV_OPS_H

#include <qkv/tensor.h>

QKV_BEGIN_DECLS

/* ---- arithmetic; shapes broadcast as in NumPy -------------------------------------------- */
qkv_tensor *qkv_add(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a + b */
qkv_tensor *qkv_sub(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a - b */
qkv_tensor *qkv_mul(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a b, elementwise */
qkv_tensor *qkv_div(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a / b */
qkv_tensor *qkv_scale(qkv_tape *t, qkv_tensor *x, double factor); /* factor x */
qkv_tensor *qkv_exp(qkv_tape *t, qkv_tensor *x);
qkv_tensor *qkv_sum(qkv_tape *t, qkv_tensor *x);  /* of all elements -> () */
qkv_tensor *qkv_mean(qkv_tape *t, qkv_tensor *x); /* of all elements -> () */
/* Mean over one axis, which is removed. */
qkv_tensor *qkv_mean_axis(qkv_tape *t, qkv_tensor *x, int axis);
/* Concatenates n >= 1 tensors along an axis. Their other dimensions are equal. */
qkv_tensor *qkv_concat(qkv_tape *t, int axis, int n, qkv_tensor *const *parts);
qkv_tensor *qkv_contiguous(qkv_tape *t, qkv_tensor *x); /* x itself if it is contiguous */

/* (.., M, K) x (.., K, N) -> (.., M, N). The flags transpose the last two axes of an operand.
 * Leading dimensions are equal, or absent on one side. */
qkv_tensor *qkv_matmul(qkv_tape *t, qkv_tensor *a, bool transpose_a, qkv_tensor *b,
                       bool transpose_b);

/* ---- activations --------------------------------------------------------------------------- */
typedef enum {
    QKV_ACT_NONE,
    QKV_ACT_RELU,
    QKV_ACT_GELU,       /* x (1 + erf(x/sqrt 2)) / 2 (Hendrycks and Gimpel 2016) */
    QKV_ACT_GELU_TANH,  /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2: "gelu_new" */
    QKV_ACT_QUICK_GELU, /* x sigmoid(1.702 x) */
    QKV_ACT_SILU,       /* x sigmoid(x) */
    QKV_ACT_SIGMOID,
    QKV_ACT_TANH,
    QKV_ACT_LEAKY_RELU, /* x if x > 0, else 0.2 x (slope of Radford et al. 2016) */
    QKV_ACT_COUNT
} qkv_activation;

qkv_tensor *qkv_activate(qkv_tape *t, qkv_tensor *x, qkv_activation act);
/* act(gate) * up, elementwise; gate and up have one shape, and may be views of one tensor. (Shazeer
 * 2020, "GLU variants improve Transformer".) */
qkv_tensor *qkv_gated(qkv_tape *t, qkv_tensor *gate, qkv_tensor *up, qkv_activation act);
qkv_tensor *qkv_softmax(qkv_tape *t, qkv_tensor *x); /* over the last axis */

/* ---- linear layers -------------------------------------------------------------------------- */
/* y = act(x W^T + b).  x (.., K), w (N, K), b (N) or NULL -> (.., N). */
qkv_tensor *qkv_linear(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       qkv_activation act);

/* scale * weight[ids[i]], plus position_weight[positions[i]] if positions and position_weight are
 * given (both or none; NULL: none). weight (V, C) may be any tensor, so the op also selects or
 * reorders tokens. position_weight (P, C); ids and positions i32 (..) -> (.., C). An id out of
 * range is an error that names it. */
qkv_tensor *qkv_embedding(qkv_tape *t, qkv_tensor *ids, qkv_tensor *weight, double scale,
                          qkv_tensor *positions, qkv_tensor *position_weight);
/* qkv_embedding whose row `pad` gets no gradient (torch.nn.Embedding's padding_idx). pad < 0: every
 * row gets its gradient. */
qkv_tensor *qkv_embedding_padded(qkv_tape *t, qkv_tensor *ids, qkv_tensor *weight, double scale,
                                 qkv_tensor *positions, qkv_tensor *position_weight, int32_t pad);

/* The index of the row of codes (K, C) nearest to each row of x (.., C), the lowest of equals: i32
 * (..). Computed in full precision even under bf16. Not differentiated. A row of x that is not
 * finite gives 0. (Vector quantisation: van den Oord et al. 2017.) */
qkv_tensor *qkv_vector_quantize(qkv_tape *t, qkv_tensor *x, qkv_tensor *codes);

/* ---- images: (B, H, W, C), channels last ------------------------------------------------- */
/* Zeroed: stride 1 (pooling: the window), no padding. */
typedef struct {
    size_t stride;                   /* vertical and horizontal; 0: 1 */
    size_t top, left, bottom, right; /* rows and columns of zeros around the image */
} qkv_conv_options;

/* 2-D convolution (a cross-correlation, as PyTorch's Conv2d). x (B, H, W, C), w (N, KH, KW, C),
 * b (N) or NULL -> (B, OH, OW, N), OH = (H + top + bottom - KH) / stride + 1, rounded down.
 * options may be NULL. (LeCun et al. 1989.) */
qkv_tensor *qkv_conv2d(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       const qkv_conv_options *options);

/* Maximum or mean of each window x window pixels, per channel: x (B, H, W, C) -> (B, OH, OW, C).
 * Stride 0: the window's size. Padding is less than the window; the maximum ignores it, the mean
 * counts zeros. PyTorch's MaxPool2d and AvgPool2d. */
qkv_tensor *qkv_max_pool2d(qkv_tape *t, qkv_tensor *x, size_t window,
                           const qkv_conv_options *options);
qkv_tensor *qkv_avg_pool2d(qkv_tape *t, qkv_tensor *x, size_t window,
                           const qkv_conv_options *options);

/* Repeats every pixel `factor` times in both directions: x (B, H, W, C) -> (B, factor H, factor W,
 * C). PyTorch's interpolate, mode "nearest". */
qkv_tensor *qkv_upsample(qkv_tape *t, qkv_tensor *x, size_t factor);

/* patchify: images x (B, H, W, C) -> patches, row by row, (B, H W / patch^2, patch patch C), each
 * in order row, column, channel; patch divides H and W. unpatchify, from rows x columns patches ->
 * (B, rows patch, columns patch, C). qkv_linear on patches with a weight (N, patch patch C) is
 * qkv_conv2d with that weight as (N, patch, patch, C) and stride patch. */
qkv_tensor *qkv_patchify(qkv_tape *t, qkv_tensor *x, size_t patch);
qkv_tensor *qkv_unpatchify(qkv_tape *t, qkv_tensor *x, size_t patch, size_t rows, size_t columns);

typedef enum {
    QKV_BILINEAR, /* from 2 x 2 values */
    QKV_BICUBIC,  /* from 4 x 4 values, a = -0.75 (Keys 1981) */
    QKV_BICUBIC_ANTIALIASED /* a = -0.5, from more values where the size is reduced */
} qkv_interpolation;

/* x (B, H, W, C) -> (B, rows, columns, C): PyTorch's interpolate, align_corners off. For feature
 * maps and position embeddings. */
qkv_tensor *qkv_interpolate(qkv_tape *t, qkv_tensor *x, qkv_interpolation how, size_t rows,
                            size_t columns);
/* Interpolates a position embedding (first + from_rows from_columns, C) to another grid:
 * (first + rows columns, C). The first rows (of class tokens) are unchanged. */
qkv_tensor *qkv_interpolate_positions(qkv_tape *t, qkv_tensor *table, qkv_interpolation how,
                                      size_t first, size_t from_rows, size_t from_columns,
                                      size_t rows, size_t columns);

/* ---- norms, over the last axis --------------------------------------------------------------- */
typedef enum {
    QKV_NORM_LAYER, /* (x - mean) / sqrt(var + eps) * weight + bias, biased variance
                       (Ba et al. 2016) */
    QKV_NORM_RMS,   /* x / sqrt(mean(x^2) + eps) * weight + bias (Zhang and Sennrich 2019) */
    QKV_NORM_NONE   /* x; weight and bias are ignored */
} qkv_norm_kind;

/* x (.., C), weight (C) or NULL for ones, bias (C) or NULL for zeros -> (.., C). */
qkv_tensor *qkv_norm(qkv_tape *t, qkv_norm_kind kind, qkv_tensor *x, qkv_tensor *weight,
                     qkv_tensor *bias, double eps);
/* norm(x + residual), both (.., C). sum, if not NULL, receives x + residual, which a pre-norm block
 * needs next, or NULL on failure. */
qkv_tensor *qkv_residual_norm(qkv_tape *t, qkv_norm_kind kind, qkv_tensor *x,
                              qkv_tensor *residual, qkv_tensor *weight, qkv_tensor *bias,
                              double eps, qkv_tensor **sum);
/* x / sqrt(sum x^2 + eps) over the last axis: rows of Euclidean norm 1. */
qkv_tensor *qkv_l2_normalize(qkv_tape *t, qkv_tensor *x, double eps);

/* Running statistics of batch norm: frozen parameters, updated in place. */
typedef struct {
    qkv_param *mean, *variance; /* (C) over all rows of a batch; unbiased variance */
    qkv_param *batches;         /* (1) number of batches; may be NULL */
    double momentum;            /* weight of a new batch; 0: 0.1; < 0: 1/batches, a plain mean */
} qkv_running;

/* (x - mean) / sqrt(var + eps) * weight + bias per channel, over all rows of x (.., C): PyTorch's
 * BatchNorm2d on images (B, H, W, C), BatchNorm1d on rows (N, C). While the tape trains, or without
 * `running`: the batch's mean and biased variance, of at least 2 rows, which also update running.
 * Otherwise: the statistics in running. weight, bias (C) or NULL. (Ioffe and Szegedy 2015.) */
qkv_tensor *qkv_batch_norm(qkv_tape *t, qkv_tensor *x, qkv_tensor *weight, qkv_tensor *bias,
                           const qkv_running *running, double eps);

/* Normalises `groups` groups of adjacent channels, each over all pixels of an image: x (B, .., C),
 * weight, bias (C) -> (B, .., C); groups divides C. PyTorch's GroupNorm. silu: applies
 * y sigmoid(y) to the result in the same pass. (Wu and He 2018.) */
qkv_tensor *qkv_group_norm(qkv_tape *t, qkv_tensor *x, qkv_tensor *weight, qkv_tensor *bias,
                           size_t groups, double eps, bool silu);

/* ---- dropout --------------------------------------------------------------------------------- */
/* While the tape trains, sets elements to 0 with probability p in [0, 1) and scales the others by
 * 1/(1-p); otherwise returns x. The choice depends on qkv_randomness, dropout_id and the element's
 * index alone. dropout_id: a unique number for each dropout of the model. (Srivastava et al.
 * 2014.) */
qkv_tensor *qkv_dropout(qkv_tape *t, qkv_tensor *x, double p, uint32_t dropout_id);
/* residual + dropout(x), in one pass. */
qkv_tensor *qkv_dropout_add(qkv_tape *t, qkv_tensor *x, qkv_tensor *residual, double p,
                            uint32_t dropout_id);

/* Stochastic depth: while the tape trains, sets whole samples to 0 with probability p in [0, 1) and
 * scales the others by 1/(1-p); otherwise returns x. A sample is an index of x's first axis or, if
 * offsets is given (host memory, as in qkv_attention_options), a sequence of rows of x (.., C).
 * dropout_id: as in qkv_dropout. (Huang et al. 2016.) */
qkv_tensor *qkv_drop_path(qkv_tape *t, qkv_tensor *x, double p, uint32_t dropout_id,
                          size_t sequences, const int32_t *offsets);

/* ---- positions ------------------------------------------------------------- */
/* Rotates the first `width` (even) of D channels of x (.., H, D): pairs (i, i+width/2) by the angle
 * position * base^(-2i/width). positions i32, one for each row of the dimensions before H.
 * (RoFormer, Su et al. 2021, in the "rotate half" layout of Llama's files.) */
qkv_tensor *qkv_rotary(qkv_tape *t, qkv_tensor *x, qkv_tensor *positions, double base,
                       size_t width);
/* The same with any angles: pair i turns by position * frequency[i], and is multiplied by scale. */
typedef struct {
    size_t width;            /* channels that are rotated, even */
    const double *frequency; /* (width / 2) radians a position; outlives the step */
    double scale;
} qkv_rotary_angles;
qkv_tensor *qkv_rotary_by(qkv_tape *t, qkv_tensor *x, qkv_tensor *positions,
                          const qkv_rotary_angles *angles);

typedef enum {
    QKV_SINUSOID_PAPER,   /* sin, cos interleaved; 10000^(-2i/d) (Vaswani et al. 2017, 3.5) */
    QKV_SINUSOID_FAIRSEQ, /* sines, then cosines; exp(-i ln(10000)/(half-1)); odd C: a last 0 */
    QKV_SINUSOID_MARIAN,  /* sines, then cosines; 10000^(-2i/d); even C */
    QKV_SINUSOID_MAE_2D   /* per axis sines, then cosines, 10000^(-4i/d); column index in the first
                             half; C a multiple of 4 */
} qkv_sinusoid;

/* Fills the caller's table (P, C) with positions first .. first+P-1, computed in double. MAE_2D:
 * the rows are a row-major grid of `columns` columns, ignored otherwise. QKV_E_SHAPE if the layout
 * does not allow C, QKV_E_ARGUMENT if columns is 0 or the layout is unknown. */
qkv_status qkv_sinusoid_table(qkv_context *ctx, qkv_real *table, size_t P, size_t C,
                              qkv_sinusoid layout, size_t first, size_t columns);

/* ---- attention --------------------------------------------------------------- */

/* A KV cache: keys and values of earlier positions of one attention layer, for decoding, with
 * memory for `capacity` positions of B sequences of equal length. On failure *out is NULL:
 * QKV_E_ARGUMENT for sizes that overflow, QKV_E_MEMORY. */
typedef struct qkv_kv_cache qkv_kv_cache;
qkv_status qkv_kv_cache_create(qkv_kv_cache **out, qkv_context *ctx, size_t B, size_t capacity,
                               size_t Hkv, size_t D, size_t Dv);
/* How a cache stores its numbers. Attention computes with reals whatever they are. */
typedef enum {
    QKV_KV_F32,  /* as they are (qkv_real) */
    QKV_KV_BF16, /* rounded to 8 bits of mantissa, ties to even: half of the memory */
    QKV_KV_INT8  /* 8 bits, and a scale for each head of a position: the largest of its numbers is
                    127. A little over a quarter of the memory */
} qkv_kv_store;
/* The same with another store, of which all but F32 take positions by qkv_kv_cache_put alone. */
qkv_status qkv_kv_cache_create_as(qkv_kv_cache **out, qkv_context *ctx, qkv_kv_store store,
                                  size_t B, size_t capacity, size_t Hkv, size_t D, size_t Dv);
void qkv_kv_cache_destroy(qkv_kv_cache *c); /* NULL is allowed */
size_t qkv_kv_cache_length(const qkv_kv_cache *c); /* positions in each sequence */
size_t qkv_kv_cache_bytes(const qkv_kv_cache *c);  /* memory that it takes */
/* Empties it for B sequences, so that its memory serves again. False, and nothing changes, where it
 * has no room for B of them with `capacity` positions. */
bool qkv_kv_cache_reset(qkv_kv_cache *c, size_t B, size_t capacity);
void qkv_kv_cache_truncate(qkv_kv_cache *c, size_t length); /* removes positions from length on */
/* Reorders the sequences: new sequence i is old sequence rows[i], for n <= B of them. rows may
 * repeat or omit sequences. Copies only sequences whose place changes. On failure false (recorded
 * on the tape), and the cache is unchanged. */
bool qkv_kv_cache_select(qkv_tape *t, qkv_kv_cache *c, const size_t *rows, size_t n);
/* Grows the cache to at least `capacity` positions and keeps its contents. Failure as in select. */
bool qkv_kv_cache_reserve(qkv_tape *t, qkv_kv_cache *c, size_t capacity);
/* Limits the views from append to the last `positions` positions; 0 (initially): all. Beyond the
 * window append takes one position at a time. */
void qkv_kv_cache_window(qkv_kv_cache *c, size_t positions);
/* Appends k (B, T, Hkv, D) and v (B, T, Hkv, Dv) and sets *k_all, *v_all to views of the whole
 * cache, (B, length, Hkv, .). qkv_attention then treats q as the last T queries. The views live as
 * long as the step and the cache. On failure false (recorded on the tape), and the cache is
 * unchanged: the cache is full, or the tape records and k or v requires a gradient, which a cache
 * does not propagate. */
bool qkv_kv_cache_append(qkv_tape *t, qkv_kv_cache *c, qkv_tensor *k, qkv_tensor *v,
                         qkv_tensor **k_all, qkv_tensor **v_all);
/* Views of the whole cache. false once the tape has failed. */
bool qkv_kv_cache_all(qkv_tape *t, qkv_kv_cache *c, qkv_tensor **k_all, qkv_tensor **v_all);

/* Sequences of unequal lengths that come, grow and go in one cache: each has a slot, one of the B
 * sequences that the cache has memory for, and how much of it is in use is the caller's to know.
 * One pass appends rows to some of the slots. All arrays are host memory that outlives the step. */
typedef struct {
    size_t sequences;         /* in this pass */
    const int32_t *offsets;   /* (sequences + 1) from 0: the rows of each, one after another */
    const int32_t *slots;     /* (sequences) where each lies; no two alike */
    const int32_t *past;      /* (sequences) positions that the slot holds before this pass; what
                                 lies behind them is overwritten */
    const int32_t *first;     /* (sequences) the first of these that is seen; NULL: 0 */
    const int32_t *positions; /* (sequences) of the first row, for models; NULL: past */
} qkv_kv_slots;
struct qkv_attention_options;
/* Appends k (1, rows, Hkv, D) and v (1, rows, Hkv, Dv) to the slots. The length of
 * qkv_kv_cache_append is not used. On failure false (recorded on the tape): a slot that does not
 * exist or has no room. */
bool qkv_kv_cache_put(qkv_tape *t, qkv_kv_cache *c, const qkv_kv_slots *slots, qkv_tensor *k,
                      qkv_tensor *v);
/* Attention of q (1, rows, H, D) to what the slots hold, these rows' own keys and values among it:
 * after qkv_kv_cache_put of the same slots -> (1, rows, H, Dv). Of the options, bias, mask,
 * relative and those that say where sequences lie are not used. Unless the store is F32, sequences
 * come one after another, keys and values as reals in step memory, if one has more than 4 rows or
 * there are probes, to which each is sequence 0. */
qkv_tensor *qkv_kv_cache_attend(qkv_tape *t, qkv_kv_cache *c, const qkv_kv_slots *slots,
                                qkv_tensor *q, const struct qkv_attention_options *options);
/* Positions first .. first+count-1 of slot `from` become the first ones of slot `to`, which may be
 * the same. On failure false (recorded on the tape). */
bool qkv_kv_cache_copy(qkv_tape *t, qkv_kv_cache *c, size_t to, size_t from, size_t first,
                       size_t count);

/* Zeroed: full attention. The options can be combined freely. */
typedef struct qkv_attention_options {
    double scale;  /* of the scores; 0: 1/sqrt(D); 1: unscaled */
    bool causal;   /* query i sees keys j with j - (S - T) <= i; the last query sees all */
    size_t window; /* if causal: a query sees the last `window` of these keys alone (sliding window,
                      Beltagy et al. 2020); 0: all of them */
    double dropout; /* of the weights, while training                     [0, 1)    0 */
    uint32_t dropout_id; /* as in qkv_dropout */
    /* Packed sequences of unequal length: q is (1, rows, H, D) or (rows, H, D), and sequence b has
     * rows q_offsets[b] .. q_offsets[b+1]-1. n sequences, n+1 offsets, host memory that outlives
     * the step. NULL: B sequences of equal length. */
    size_t sequences;
    const int32_t *q_offsets;
    const int32_t *k_offsets; /* NULL: q_offsets */
    const int32_t *k_lengths; /* (B or sequences): number of keys that each sequence sees; host
                                 memory. NULL: all */
    /* (sequences), instead of k_offsets: the first key of each sequence; k_lengths is the number of
     * keys. Sequences may share keys, and keys may be unused. Not while the tape records. */
    const int32_t *k_begins;
    /* Added to the scaled scores: (B or 1, H or 1, T, S), or NULL. For packed sequences T and S are
     * the longest lengths. -INFINITY masks a key. Differentiable. */
    qkv_tensor *bias;
    /* Which keys a query sees: i32, 0 no, else yes; contiguous, of a shape that bias may have
     * (qkv_tensor_bools makes one). Beside a bias both apply. NULL: all. The result has the bits of
     * a bias of 0 and -INFINITY, which is made of it in step memory. */
    qkv_tensor *mask;
    /* A bias that depends on j - i alone, in memory that grows with T + S: (H or 1, T + S - 1), of
     * which entry [h, j - i + T - 1] is added to the scaled score of query i and key j, both
     * counted from the begin of their sequence; T and S are the longest lengths. Not beside bias or
     * mask. Differentiable. NULL: none. */
    qkv_tensor *relative;
    const char *probe; /* name for probes of the weights; NULL: "attention" */
} qkv_attention_options;

/* softmax(scale q k^T + bias, masks) v.
 * q (B, T, H, D), k (B, S, Hkv, D), v (B, S, Hkv, Dv) -> (B, T, H, Dv). H is a multiple of Hkv:
 * key/value head j serves query heads j*H/Hkv .. (j+1)*H/Hkv-1. A query that sees no key gives
 * zeros. Memory is linear in T and S. (Vaswani et al. 2017, eq. 1; tiles with the log-sum-exp saved
 * as in FlashAttention-2, Dao 2023.) */
qkv_tensor *qkv_attention(qkv_tape *t, qkv_tensor *q, qkv_tensor *k, qkv_tensor *v,
                          const qkv_attention_options *options);

/* A probe of attention weights. Add it before the forward pass. fn is called with exact rows of the
 * weights when an attention with a matching name runs, for each (sequence, head) in order. weights:
 * (rows, S), each row a distribution. More than QKV_PROBE_TILE weights of a head arrive in several
 * calls with consecutive rows. */
enum { QKV_PROBE_TILE = 1 << 20 };
typedef struct {
    const char *name;   /* pattern of the attention's full name ("h.3.attn", "*.attn"), as in
                           qkv_probe_add; NULL: all */
    int sequence;       /* -1: all */
    int head;           /* -1: all */
    size_t row, rows;   /* queries row .. row+rows-1; rows 0: to the end */
    void (*fn)(void *user, const char *name, int sequence, int head, size_t row, size_t rows,
               size_t S, const qkv_real *weights);
    void *user;
    bool gradient;      /* instead of the weights, the gradient of the backward pass's objective
                           with respect to them: fn then runs inside qkv_backward       false */
} qkv_attention_probe;

/* Copies the probe and its name. It persists across resets until qkv_probes_clear. fn must not use
 * the tape. QKV_E_MEMORY. */
qkv_status qkv_attention_probe_add(qkv_tape *t, const qkv_attention_probe *probe);

/* ---- losses ------------------------------------------------------------------- */
typedef enum {
    QKV_SMOOTH_TORCH, /* 1-e on the target plus e/V on all V classes: PyTorch's definition */
    QKV_SMOOTH_PAPER  /* 1-e on the target, e/(V-1) on each other class (Szegedy et al. 2016) */
} qkv_smoothing;

typedef enum { QKV_REDUCE_MEAN, QKV_REDUCE_SUM } qkv_reduction;

enum { QKV_IGNORED = -100 }; /* a target that is ignored: PyTorch's ignore_index */

/* The terms of a cross-entropy, scaled as it is: it is their sum. */
typedef struct {
    double nll;       /* -log p of the targets */
    double smoothing; /* what label smoothing adds */
    double rdrop;     /* the weighted R-Drop term */
} qkv_cross_entropy_terms;

/* Zeroed: cross-entropy without smoothing, mean. */
typedef struct {
    double smoothing; /* e, label smoothing                                  [0, 1)   0 */
    qkv_smoothing smoothing_kind;
    qkv_reduction reduction; /* mean: over targets that are not ignored */
    bool has_ignore;         /* ignore targets equal to `ignore`; false: targets equal to
                                QKV_IGNORED                                    false   */
    int32_t ignore;
    double normalizer;       /* > 0: divides the sum, in place of the number of targets (several
                                ranks, accumulation)                             0     */
    /* > 0: R-Drop (Liang et al. 2021). Rows N/2 .. N-1 are a second forward pass of rows 0 ..
     * N/2-1, with other dropout and the same targets. Each pair adds rdrop (KL(p||q) + KL(q||p)) /
     * 2 to the sum over all rows. Requires targets that are classes, and row_loss and row_argmax
     * NULL.                                                                         0 */
    double rdrop;
    qkv_real *row_loss;      /* (N) or NULL: receives -log p of each target (0 if ignored) */
    int32_t *row_argmax;     /* (N) or NULL: receives the most likely class of each row */
    qkv_cross_entropy_terms *terms; /* or NULL: receives the terms of the loss */
} qkv_cross_entropy_options;

/* logits (.., V), targets i32 (..) -> (). options NULL: the defaults. If every target is ignored
 * the loss is 0. Targets may also be reals of the logits' shape, each row a distribution over the
 * classes (mixed images). Then no row is ignored, row_loss is -sum target log p, and targets get
 * no gradient. */
qkv_tensor *qkv_cross_entropy(qkv_tape *t, qkv_tensor *logits, qkv_tensor *targets,
                              const qkv_cross_entropy_options *options);
/* Cross-entropy of x W^T + b; never holds all logits in memory. x (.., C), w (V, C), b (V) or NULL,
 * targets i32 (..) -> (). */
qkv_tensor *qkv_classifier_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                                qkv_tensor *targets, const qkv_cross_entropy_options *options);
/* Means over all elements -> (). x and target have one shape; both may require gradients. */
qkv_tensor *qkv_mse_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target); /* (x - target)^2 */
qkv_tensor *qkv_l1_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target);  /* |x - target| */
/* d^2 / 2 for |d| <= delta, else delta (|d| - delta/2), d = x - target; delta > 0. */
qkv_tensor *qkv_huber_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target, double delta);
/* -target log s - (1 - target) log(1 - s), s = sigmoid(logits); targets in [0, 1]. */
qkv_tensor *qkv_bce_with_logits_loss(qkv_tape *t, qkv_tensor *logits, qkv_tensor *target);
/* Cross-entropy of normalised(q) normalised(k)^T / temperature; q, k (N, C) -> (). The target of
 * row i is key i. temperature > 0. (van den Oord et al. 2018. CLIP's loss is the mean of both
 * directions.) */
qkv_tensor *qkv_infonce_loss(qkv_tape *t, qkv_tensor *q, qkv_tensor *k, double temperature);
/* CLIP's loss (Radford et al. 2021): half the cross-entropy of exp(log_scale) normalised(a)
 * normalised(b)^T, the target of row i being column i, and half that of its transpose. a, b (N, C),
 * log_scale (1) -> (). */
qkv_tensor *qkv_clip_loss(qkv_tape *t, qkv_tensor *a, qkv_tensor *b, qkv_tensor *log_scale);
/* a, b (N, C): two views of N samples -> (). Mean over the 2N rows of -log softmax, at the other
 * view, of a row's similarities to all rows but itself; temperature > 0. (Chen et al. 2020,
 * eq. 1.) */
qkv_tensor *qkv_ntxent_loss(qkv_tape *t, qkv_tensor *a, qkv_tensor *b, double temperature);

/* ---- top-k --------------------------------------------------------------------- */

typedef struct {
    size_t k;              /* columns per row, >= 1 */
    const int32_t *banned; /* (bans), increasing: columns to exclude */
    size_t bans;
    bool renormalize;      /* probabilities over the columns that are not banned      false */
} qkv_topk_options;

/* The k most likely columns of each row of logits (.., V), most likely first, lower index first
 * among equals. Fills the caller's ids (N, k) and log_p (N, k). Where a row has fewer possible
 * columns: id -1 and -inf. NaN where a logit is NaN. Not differentiated. false on failure. */
bool qkv_topk(qkv_tape *t, qkv_tensor *logits, const qkv_topk_options *options, qkv_real *log_p,
              int32_t *ids);

QKV_END_DECLS
#endif
