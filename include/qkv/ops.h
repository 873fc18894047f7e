/* ops.h - what can be done with tensors. Every op has a backward pass.
 * Layer: tensor
 *
 * Shape letters: B batch, T query length, S key length, H heads, D head width, C channels,
 * V vocabulary, N rows (all leading dimensions, flattened); "..": any leading dimensions.
 * Tensors hold reals unless i32 is said. Every function returns a new tensor in the tape's step
 * memory, or NULL once anything on the tape has failed: shapes or types that do not fit
 * (QKV_E_SHAPE, the sentence has them), QKV_E_MEMORY. Tensors given may be views. */
#ifndef QKV_OPS_H
#define QKV_OPS_H

#include <qkv/tensor.h>

QKV_BEGIN_DECLS

/* ---- arithmetic; shapes broadcast as NumPy's do ------------------------------------------ */
qkv_tensor *qkv_add(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a + b */
qkv_tensor *qkv_sub(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a - b */
qkv_tensor *qkv_mul(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a b, elementwise */
qkv_tensor *qkv_div(qkv_tape *t, qkv_tensor *a, qkv_tensor *b); /* a / b */
qkv_tensor *qkv_scale(qkv_tape *t, qkv_tensor *x, double factor); /* factor x */
qkv_tensor *qkv_exp(qkv_tape *t, qkv_tensor *x);
qkv_tensor *qkv_sum(qkv_tape *t, qkv_tensor *x);  /* of all elements -> () */
qkv_tensor *qkv_mean(qkv_tape *t, qkv_tensor *x); /* of all elements -> () */
/* Mean over one axis, which disappears. */
qkv_tensor *qkv_mean_axis(qkv_tape *t, qkv_tensor *x, int axis);
/* n >= 1 parts one after another along an axis; the other dimensions are equal. */
qkv_tensor *qkv_concat(qkv_tape *t, int axis, int n, qkv_tensor *const *parts);
qkv_tensor *qkv_contiguous(qkv_tape *t, qkv_tensor *x); /* x itself when already contiguous */

/* (.., M, K) x (.., K, N) -> (.., M, N); with the flags, of the transposed last two axes.
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
    QKV_ACT_LEAKY_RELU, /* x, or 0.2 x below 0 (as Radford et al. 2016 have it) */
    QKV_ACT_COUNT
} qkv_activation;

qkv_tensor *qkv_activate(qkv_tape *t, qkv_tensor *x, qkv_activation act);
/* act(gate) * up, elementwise; gate and up of one shape (or views of one tensor). (Shazeer 2020,
 * "GLU variants improve Transformer".) */
qkv_tensor *qkv_gated(qkv_tape *t, qkv_tensor *gate, qkv_tensor *up, qkv_activation act);
qkv_tensor *qkv_softmax(qkv_tape *t, qkv_tensor *x); /* over the last axis */

/* ---- linear layers -------------------------------------------------------------------------- */
/* y = act(x W^T + b).  x (.., K), w (N, K), b (N) or NULL -> (.., N). */
qkv_tensor *qkv_linear(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       qkv_activation act);

/* Row ids[i] of weight (V, C), which may be any tensor (tokens to be picked or put in another
 * order), times scale; plus row positions[i] of position_weight (P, C) if
 * both are given (else NULL). ids and positions i32 of one shape (..) -> (.., C). An id that has
 * no row is an error that names it. */
qkv_tensor *qkv_embedding(qkv_tape *t, qkv_tensor *ids, qkv_tensor *weight, double scale,
                          qkv_tensor *positions, qkv_tensor *position_weight);
/* The same, but looking up the row of the padding token gives it no gradient (torch.nn.Embedding's
 * padding_idx). pad below 0: every row gets its own. */
qkv_tensor *qkv_embedding_padded(qkv_tape *t, qkv_tensor *ids, qkv_tensor *weight, double scale,
                                 qkv_tensor *positions, qkv_tensor *position_weight, int32_t pad);

/* Which row of codes (K, C) lies nearest to each row of x (.., C), the first of equals: i32 (..).
 * In full precision even where products are not; nothing is differentiated. A row that is not
 * finite gets 0. (Vector quantisation: van den Oord et al. 2017.) */
qkv_tensor *qkv_vector_quantize(qkv_tape *t, qkv_tensor *x, qkv_tensor *codes);

/* ---- images: (B, H, W, C), channels last ------------------------------------------------- */
/* Zeroed: every place of the window, nothing added around the image. */
typedef struct {
    size_t stride;                   /* from one window to the next, both ways; 0: 1 */
    size_t top, left, bottom, right; /* zeros around the image */
} qkv_conv_options;

/* Every window times w, plus b: PyTorch's Conv2d, a cross-correlation. x (B, H, W, C), w
 * (N, KH, KW, C), b (N) or NULL -> (B, OH, OW, N) with OH = (H + top + bottom - KH) / stride + 1,
 * rounded down. options may be NULL. (LeCun et al. 1989.) */
qkv_tensor *qkv_conv2d(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       const qkv_conv_options *options);

/* The largest, or the mean, of every window x window pixels, channel by channel: x (B, H, W, C) ->
 * (B, OH, OW, C). Stride 0 is the window's. Padding, less than the window, counts as nothing for
 * the largest and as zeros for the mean: PyTorch's MaxPool2d and AvgPool2d. */
qkv_tensor *qkv_max_pool2d(qkv_tape *t, qkv_tensor *x, size_t window,
                           const qkv_conv_options *options);
qkv_tensor *qkv_avg_pool2d(qkv_tape *t, qkv_tensor *x, size_t window,
                           const qkv_conv_options *options);

/* Every pixel `factor` times in both directions: x (B, H, W, C) -> (B, factor H, factor W, C):
 * PyTorch's interpolate to the nearest. */
qkv_tensor *qkv_upsample(qkv_tape *t, qkv_tensor *x, size_t factor);

/* Images x (B, H, W, C) as rows of patches, row by row: (B, H W / patch^2, patch patch C), inside
 * a patch by row, column, channel; patch divides H and W. And back, from rows x columns patches:
 * (B, rows patch, columns patch, C). qkv_linear on patches with a weight (N, patch patch C) is
 * qkv_conv2d with that weight as (N, patch, patch, C) and stride patch. */
qkv_tensor *qkv_patchify(qkv_tape *t, qkv_tensor *x, size_t patch);
qkv_tensor *qkv_unpatchify(qkv_tape *t, qkv_tensor *x, size_t patch, size_t rows, size_t columns);

typedef enum {
    QKV_BILINEAR, /* between 2 x 2 values */
    QKV_BICUBIC   /* between 4 x 4 values, a = -0.75 (Keys 1981) */
} qkv_interpolation;

/* x (B, H, W, C) -> (B, rows, columns, C): PyTorch's interpolate with align_corners and antialias
 * off. For maps and tables, not photographs: smaller ones are not averaged. */
qkv_tensor *qkv_interpolate(qkv_tape *t, qkv_tensor *x, qkv_interpolation how, size_t rows,
                            size_t columns);
/* A table of positions (first + from_rows from_columns, C) for images of another size:
 * (first + rows columns, C). The first rows, which are no places (of a class token), stay. */
qkv_tensor *qkv_interpolate_positions(qkv_tape *t, qkv_tensor *table, qkv_interpolation how,
                                      size_t first, size_t from_rows, size_t from_columns,
                                      size_t rows, size_t columns);

/* ---- norms, over the last axis --------------------------------------------------------------- */
typedef enum {
    QKV_NORM_LAYER, /* (x - mean) / sqrt(var + eps) * weight + bias, biased variance
                       (Ba et al. 2016) */
    QKV_NORM_RMS,   /* x / sqrt(mean(x^2) + eps) * weight + bias (Zhang and Sennrich 2019) */
    QKV_NORM_NONE   /* x itself; weight and bias are not used */
} qkv_norm_kind;

/* x (.., C), weight (C) or NULL for ones, bias (C) or NULL for zeros -> (.., C). */
qkv_tensor *qkv_norm(qkv_tape *t, qkv_norm_kind kind, qkv_tensor *x, qkv_tensor *weight,
                     qkv_tensor *bias, double eps);
/* norm(x + residual), both (.., C). If sum is not NULL it gets x + residual (pre-norm blocks go on
 * with it), or NULL on failure. */
qkv_tensor *qkv_residual_norm(qkv_tape *t, qkv_norm_kind kind, qkv_tensor *x,
                              qkv_tensor *residual, qkv_tensor *weight, qkv_tensor *bias,
                              double eps, qkv_tensor **sum);
/* x / sqrt(sum x^2 + eps) over the last axis: rows of length 1. */
qkv_tensor *qkv_l2_normalize(qkv_tape *t, qkv_tensor *x, double eps);

/* What batch norm keeps of the batches it was trained on: frozen parameters, changed in place. */
typedef struct {
    qkv_param *mean, *variance; /* (C), of all rows of a batch; the variance is unbiased */
    qkv_param *batches;         /* (1) how many there were; may be NULL */
    double momentum;            /* share of a new batch; 0: 0.1; below 0: 1/batches, a plain mean */
} qkv_running;

/* (x - mean) / sqrt(var + eps) * weight + bias, channel by channel, over all rows of x (.., C):
 * images (B, H, W, C) are PyTorch's BatchNorm2d, rows (N, C) its BatchNorm1d. While the tape
 * trains, or without `running`, by the batch's mean and biased variance, of at least 2 rows, which
 * running then takes in; else by what running has kept. weight, bias (C) or NULL. (Ioffe and
 * Szegedy 2015.) */
qkv_tensor *qkv_batch_norm(qkv_tape *t, qkv_tensor *x, qkv_tensor *weight, qkv_tensor *bias,
                           const qkv_running *running, double eps);

/* Channels in `groups` equal groups of neighbours, each normalised over all places of an image:
 * x (B, .., C), weight, bias (C) -> (B, .., C); groups divides C. PyTorch's GroupNorm; silu: then
 * y sigmoid(y), in the same pass. (Wu and He 2018.) */
qkv_tensor *qkv_group_norm(qkv_tape *t, qkv_tensor *x, qkv_tensor *weight, qkv_tensor *bias,
                           size_t groups, double eps, bool silu);

/* ---- dropout --------------------------------------------------------------------------------- */
/* Keeps with probability 1-p, p in [0, 1), and scales by 1/(1-p) while the tape trains; else x
 * itself. What is dropped depends on qkv_randomness, dropout_id and the element's index alone.
 * dropout_id: a number for each dropout of the model; no two have the same. (Srivastava et al.
 * 2014.) */
qkv_tensor *qkv_dropout(qkv_tape *t, qkv_tensor *x, double p, uint32_t dropout_id);
/* residual + dropout(x), in one pass. */
qkv_tensor *qkv_dropout_add(qkv_tape *t, qkv_tensor *x, qkv_tensor *residual, double p,
                            uint32_t dropout_id);

/* Stochastic depth: drops all of a sample with probability p, p in [0, 1), and scales the others by
 * 1/(1-p) while the tape trains; else x itself. Samples are what x's first axis counts; or, given
 * offsets (host memory, as in qkv_attention_options), sequences of rows: x (.., C). dropout_id: as
 * in qkv_dropout. (Huang et al. 2016.) */
qkv_tensor *qkv_drop_path(qkv_tape *t, qkv_tensor *x, double p, uint32_t dropout_id,
                          size_t sequences, const int32_t *offsets);

/* ---- positions ------------------------------------------------------------- */
/* Rotates the first `width` (even) of D channels of x (.., H, D): pairs (i, i+width/2), angle
 * position * base^(-2i/width). positions i32, one per row of the dimensions before H.
 * (RoFormer, Su et al. 2021, in the "rotate half" layout of Llama's files.) */
qkv_tensor *qkv_rotary(qkv_tape *t, qkv_tensor *x, qkv_tensor *positions, double base,
                       size_t width);

typedef enum {
    QKV_SINUSOID_PAPER,   /* sin, cos interleaved; 10000^(-2i/d) (Vaswani et al. 2017, 3.5) */
    QKV_SINUSOID_FAIRSEQ, /* sines then cosines; exp(-i ln(10000)/(half-1)); odd C: a last 0 */
    QKV_SINUSOID_MARIAN,  /* sines then cosines; 10000^(-2i/d); even C */
    QKV_SINUSOID_MAE_2D   /* per axis sines then cosines, 10000^(-4i/d); column index in the first
                             half; C a multiple of 4 */
} qkv_sinusoid;

/* Fills the caller's table (P, C) with positions first .. first+P-1. For MAE_2D the rows are a
 * grid of `columns` columns, row-major; else columns is ignored. Computed in double. QKV_E_SHAPE
 * for a C that the layout cannot have, QKV_E_ARGUMENT for no columns or layout. */
qkv_status qkv_sinusoid_table(qkv_context *ctx, qkv_real *table, size_t P, size_t C,
                              qkv_sinusoid layout, size_t first, size_t columns);

/* ---- attention --------------------------------------------------------------- */

/* Keys and values of earlier positions, for decoding: one cache per attention layer, room for
 * `capacity` positions of B sequences of one length. On failure *out is NULL: QKV_E_ARGUMENT for
 * sizes beyond addresses, QKV_E_MEMORY. */
typedef struct qkv_kv_cache qkv_kv_cache;
qkv_status qkv_kv_cache_create(qkv_kv_cache **out, qkv_context *ctx, size_t B, size_t capacity,
                               size_t Hkv, size_t D, size_t Dv);
void qkv_kv_cache_destroy(qkv_kv_cache *c); /* NULL is allowed */
size_t qkv_kv_cache_length(const qkv_kv_cache *c); /* positions of each sequence */
void qkv_kv_cache_truncate(qkv_kv_cache *c, size_t length); /* forgets those from length on */
/* Sequence i becomes what sequence rows[i] was, for n of them: at most the B it was created for,
 * and each may be taken several times or not at all. Only what changes its place is copied. false
 * on failure (recorded on the tape), and nothing has changed. */
bool qkv_kv_cache_select(qkv_tape *t, qkv_kv_cache *c, const size_t *rows, size_t n);
/* Room for `capacity` positions at least; those that are there stay. The same about failure. */
bool qkv_kv_cache_reserve(qkv_tape *t, qkv_kv_cache *c, size_t capacity);
/* What append shows: the last so many positions; 0, at first: everything. Past the window one
 * position is appended at a time. */
void qkv_kv_cache_window(qkv_kv_cache *c, size_t positions);
/* Puts k (B, T, Hkv, D) and v (B, T, Hkv, Dv) after what is there and sets *k_all, *v_all to
 * views of everything, (B, length, Hkv, .): qkv_attention then treats q as the last T queries.
 * The views live as long as the step and the cache. false on failure (recorded on the tape), and
 * nothing was put in: a full cache, or a tape that records while k or v wants a gradient, which
 * cannot go back through a cache. */
bool qkv_kv_cache_append(qkv_tape *t, qkv_kv_cache *c, qkv_tensor *k, qkv_tensor *v,
                         qkv_tensor **k_all, qkv_tensor **v_all);
/* Views of everything that is there; false once the tape has failed. */
bool qkv_kv_cache_all(qkv_tape *t, qkv_kv_cache *c, qkv_tensor **k_all, qkv_tensor **v_all);

/* Zeroed: plain attention. Everything may be combined. */
typedef struct {
    double scale;  /* of the scores; 0 means 1/sqrt(D); 1 is unscaled */
    bool causal;   /* query i sees keys j with j - (S - T) <= i: the last query sees all */
    double dropout; /* of the weights, while training                     [0, 1)    0 */
    uint32_t dropout_id; /* as in qkv_dropout */
    /* Sequences of unequal length, one after another: q is then (1, rows, H, D) or
     * (rows, H, D), and sequence b is rows q_offsets[b] .. q_offsets[b+1]-1. n sequences,
     * n+1 offsets, host memory that outlives the step. NULL: B equal lengths. */
    size_t sequences;
    const int32_t *q_offsets;
    const int32_t *k_offsets; /* NULL with q_offsets given: the same */
    const int32_t *k_lengths; /* (B or sequences): keys at and after it are not seen; host memory.
                                 NULL: all are */
    /* (sequences), instead of k_offsets: the first key of each, wherever it lies; k_lengths says
     * how many it has. Sequences may share keys, and keys may be nobody's: not while recording. */
    const int32_t *k_begins;
    /* Added to the scaled scores: (B or 1, H or 1, T, S), or NULL. With packed sequences T and
     * S are the longest lengths. -INFINITY hides a key. Differentiable. */
    qkv_tensor *bias;
    const char *probe; /* name under which weights can be probed; NULL: "attention" */
} qkv_attention_options;

/* softmax(scale q k^T + bias, masks) v.
 * q (B, T, H, D), k (B, S, Hkv, D), v (B, S, Hkv, Dv), H a multiple of Hkv: key/value head j
 * serves query heads j*H/Hkv .. (j+1)*H/Hkv-1.  -> (B, T, H, Dv).  A query that sees no key
 * gives zeros. Memory is linear in T and S. (Vaswani et al. 2017, eq. 1; tiling with saved
 * log-sum-exp as in FlashAttention-2, Dao 2023.) */
qkv_tensor *qkv_attention(qkv_tape *t, qkv_tensor *q, qkv_tensor *k, qkv_tensor *v,
                          const qkv_attention_options *options);

/* Looking inside, beside the fused path: asked for before the forward pass, called with exact
 * rows of the weights as each attention whose name matches runs. weights: (rows, S) of one
 * (sequence, head), each row a distribution. */
typedef struct {
    const char *name;   /* full name of the attention ("h.3.attn") or NULL for all */
    int sequence;       /* -1: every one */
    int head;           /* -1: every one */
    size_t row, rows;   /* queries row .. row+rows-1; rows 0: to the end */
    void (*fn)(void *user, const char *name, int sequence, int head, size_t row, size_t rows,
               size_t S, const qkv_real *weights);
    void *user;
} qkv_attention_probe;

/* Copies the request, name included; it stays, over resets, until qkv_attention_probes_clear. fn
 * runs inside qkv_attention and must not use the tape. QKV_E_MEMORY. */
qkv_status qkv_attention_probe_add(qkv_tape *t, const qkv_attention_probe *probe);
void qkv_attention_probes_clear(qkv_tape *t);

/* ---- losses ------------------------------------------------------------------- */
typedef enum {
    QKV_SMOOTH_TORCH, /* (1-e) on the gold + e/V on all V: PyTorch's definition */
    QKV_SMOOTH_PAPER  /* 1-e on the gold, e/(V-1) on each other (Szegedy et al. 2016) */
} qkv_smoothing;

typedef enum { QKV_REDUCE_MEAN, QKV_REDUCE_SUM } qkv_reduction;

enum { QKV_IGNORED = -100 }; /* a target that does not count, PyTorch's ignore_index */

/* Zeroed: the plain loss. */
typedef struct {
    double smoothing; /* e                                                   [0, 1)   0 */
    qkv_smoothing smoothing_kind;
    qkv_reduction reduction; /* mean: over targets that are not ignored */
    bool has_ignore;         /* targets equal to `ignore` do not count; false: targets equal
                                to QKV_IGNORED do not                          false   */
    int32_t ignore;
    double normalizer;       /* > 0: divides the sum instead of the mean's count (ranks,
                                accumulation)                                    0     */
    /* > 0: rows N/2 on are a second forward pass of the first half (under another dropout, say) and
     * have its targets; to the sum over all rows each pair adds rdrop (KL(p||q) + KL(q||p)) / 2, as
     * in R-Drop (Liang et al. 2021). Goes with targets that are
     * classes, and without row_loss and row_argmax.                                 0 */
    double rdrop;
    qkv_real *row_loss;      /* (N) or NULL: -log p of each target (0 where ignored) */
    int32_t *row_argmax;     /* (N) or NULL: the most likely class of each row */
} qkv_cross_entropy_options;

/* logits (.., V), targets i32 (..) -> (). No options: the defaults. When every target is
 * ignored the loss is 0. Targets may also be reals of the logits' shape: every row a distribution
 * over the classes (mixed images); no row is ignored then, row_loss is -sum target log p, and
 * nothing flows back to the targets. */
qkv_tensor *qkv_cross_entropy(qkv_tape *t, qkv_tensor *logits, qkv_tensor *targets,
                              const qkv_cross_entropy_options *options);
/* Cross-entropy of x W^T + b, with the logits never all in memory: x (.., C), w (V, C),
 * b (V) or NULL, targets i32 (..) -> (). */
qkv_tensor *qkv_classifier_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                                qkv_tensor *targets, const qkv_cross_entropy_options *options);
/* Means over all elements -> (); x and target of one shape, both may want gradients. */
qkv_tensor *qkv_mse_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target); /* (x - target)^2 */
qkv_tensor *qkv_l1_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target);  /* |x - target| */
/* d^2 / 2 for |d| <= delta, else delta (|d| - delta/2), d = x - target; delta > 0. */
qkv_tensor *qkv_huber_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *target, double delta);
/* -target log s - (1 - target) log(1 - s), s = sigmoid(logits); targets in [0, 1]. */
qkv_tensor *qkv_bce_with_logits_loss(qkv_tape *t, qkv_tensor *logits, qkv_tensor *target);
/* q, k (N, C): cross-entropy of normalised(q) normalised(k)^T / temperature with row i's own key
 * as the answer -> (); temperature > 0. (van den Oord et al. 2018; CLIP is the mean of both
 * directions.) */
qkv_tensor *qkv_infonce_loss(qkv_tape *t, qkv_tensor *q, qkv_tensor *k, double temperature);
/* Two views a, b (N, C) of the same N samples: mean over all 2N rows of -log of the softmax of the
 * other view's similarity among all but itself -> (); temperature > 0. (Chen et al. 2020,
 * eq. 1.) */
qkv_tensor *qkv_ntxent_loss(qkv_tape *t, qkv_tensor *a, qkv_tensor *b, double temperature);

/* ---- choosing ------------------------------------------------------------------ */

typedef struct {
    size_t k;              /* how many of each row; >= 1 */
    const int32_t *banned; /* (bans), increasing: columns that may not be chosen */
    size_t bans;
    bool renormalize;      /* probabilities are of what may be chosen, not of all     false */
} qkv_topk_options;

/* The k likeliest columns of each row of logits (.., V), the likeliest first (of equals the lower
 * one): ids (N, k) and log_p (N, k), the caller's. Where a row has no more that are possible, id
 * -1 and -inf; NaN where a logit is not a number. Not differentiated. false on failure. */
bool qkv_topk(qkv_tape *t, qkv_tensor *logits, const qkv_topk_options *options, qkv_real *log_p,
              int32_t *ids);

QKV_END_DECLS
#endif
