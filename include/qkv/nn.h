/* nn.h - parameters with a place in a file, and the one transformer block.
 * Layer: nn */
#ifndef QKV_NN_H
#define QKV_NN_H

#include <qkv/ops.h>

QKV_BEGIN_DECLS

/* ---- rows: what a model says of each of its tensors, once ---------------------------------- */

typedef enum {
    QKV_STATE_PARAM, /* trained, saved and loaded */
    QKV_STATE_FIXED, /* saved and loaded, not trained: a sinusoid table */
    QKV_STATE_TIED, /* may be in a file; the same memory as another row, which is the one saved */
    QKV_STATE_IGNORED /* may be in a file and means nothing to us: a mask buffer */
} qkv_state_entry_kind;

typedef enum {
    QKV_INIT_ZEROS,
    QKV_INIT_ONES,
    QKV_INIT_NORMAL,  /* mean 0, standard deviation `scale` */
    QKV_INIT_UNIFORM, /* in +-scale */
    QKV_INIT_XAVIER,  /* uniform in +-scale sqrt(6 / (rows + columns)) */
    QKV_INIT_NONE     /* filled in when the parameter was made */
} qkv_init;

/* A tensor of a file and the region of a parameter that holds it. The region is contiguous, from
 * `offset` on; the file's axis i is the region's axis perm[i]. */
typedef struct {
    const char *name; /* in the file; valid during the call */
    qkv_state_entry_kind kind;
    qkv_param *param; /* NULL for IGNORED */
    size_t offset;
    int ndim;
    size_t shape[QKV_MAX_DIMS]; /* in the file; 0: any (IGNORED) */
    int perm[QKV_MAX_DIMS];
    qkv_init init;
    double scale;
    bool decay; /* weight decay applies (matrices, not biases and norms) */
    bool integer; /* I64 in the file: a count */
} qkv_state_entry;

/* Numbers of the tensor; of IGNORED rows of any shape 0. */
size_t qkv_state_entry_count(const qkv_state_entry *row);

/* Called for each row in a fixed order; anything but QKV_OK ends the visit and is returned. */
typedef qkv_status qkv_state_entry_fn(void *user, const qkv_state_entry *row);

/* Fills the row's region from the stream (seed, name): the same numbers for the same name,
 * whatever other rows there are. Nothing for QKV_INIT_NONE. */
void qkv_state_entry_init(const qkv_state_entry *row, uint64_t seed);

/* ---- linear layers --------------------------------------------------------------------------- */

/* y = act(x W^T + b): weight (out, in), bias (out). */
typedef struct {
    qkv_param *weight, *bias;
} qkv_linear_layer;

/* Parameters name.weight and name.bias. false on failure (the context says why). */
bool qkv_linear_create(qkv_linear_layer *out, qkv_params *ps, const char *name, size_t in,
                       size_t outputs);
/* x (.., in) -> (.., out) */
qkv_tensor *qkv_linear_forward(const qkv_linear_layer *l, qkv_tape *t, qkv_tensor *x,
                               qkv_activation act);

/* ---- batch norm ------------------------------------------------------------------------------ */

/* The tensors of PyTorch's layer; the last three are frozen. */
typedef struct {
    qkv_param *weight, *bias;   /* (C) */
    qkv_param *mean, *variance; /* (C) running_mean, running_var */
    qkv_param *batches;         /* (1) num_batches_tracked */
} qkv_batch_norm_layer;

/* As a new layer is, under name.weight and so on: ones and zeros. false on failure (the context
 * says why). */
bool qkv_batch_norm_create(qkv_batch_norm_layer *out, qkv_params *ps, const char *name, size_t C);
/* x (.., C) -> (.., C), with PyTorch's eps 1e-5 and momentum 0.1. */
qkv_tensor *qkv_batch_norm_forward(const qkv_batch_norm_layer *b, qkv_tape *t, qkv_tensor *x);
/* Its rows, in PyTorch's names after name and a dot. */
qkv_status qkv_batch_norm_visit(const qkv_batch_norm_layer *b, const char *name,
                                qkv_state_entry_fn *fn, void *user);

/* ---- the block ------------------------------------------------------------------------------- */

/* Each field: meaning, default of qkv_block_defaults, from which to start: zeros are refused. */
typedef struct {
    size_t width;       /* of the residual stream                                  512 */
    size_t heads;       /* query heads                                               8 */
    size_t kv_heads;    /* key/value heads; divides heads; 0: as heads                0 */
    size_t head_width;  /* 0: width / heads                                          0 */
    size_t ff_width;    /* of the feed-forward layer                              2048 */
    qkv_norm_kind norm; /* QKV_NORM_LAYER */
    double norm_eps;    /* 1e-5 */
    bool norm_bias;     /* true */
    bool post_norm;     /* norm(x + f(x)) instead of x + f(norm(x))              false */
    qkv_activation act; /* QKV_ACT_GELU */
    bool gated;         /* act(gate x) * (up x) in the feed-forward layer        false */
    bool causal;        /* false */
    bool cross;         /* attends to a memory as well                           false */
    bool attention_bias, ff_bias; /* biases of the linear layers                   true */
    bool plain_qkv;     /* but none of query, key and value                      false */
    bool norm_stream;   /* pre-norm: the feed-forward layer's input takes the stream's
                           place, as in CCT (Hassani et al. 2021)                false */
    double attention_scale;       /* 0: 1/sqrt(head_width)                           0 */
    double rotary_base; /* 0: no rotary positions                                    0 */
    double dropout;     /* of each sublayer's output                                 0 */
    double attention_dropout, ff_dropout; /* of weights; after the activation         0 */
    double drop_path;   /* stochastic depth: whole branches of a sample              0 */
} qkv_block_config;

qkv_block_config qkv_block_defaults(void);

typedef struct qkv_block qkv_block;

/* Makes the block's parameters, named name.attn.qkv.weight and so on, all zeros. Block number
 * `index` of its model has the dropout ids 16 index .. 16 index + 15. The block lives as
 * long as ps. NULL on failure (the context says why); ps then keeps what was made so far. */
qkv_block *qkv_block_create(qkv_params *ps, const qkv_block_config *config, const char *name,
                            uint32_t index);

/* The block's parameters, for the model's rows. Matrices are (out, in). Absent ones are NULL. */
typedef struct {
    qkv_param *norm1_weight, *norm1_bias;
    qkv_param *qkv_weight, *qkv_bias;     /* (heads + 2 kv_heads) head_width rows: q, k, v */
    qkv_param *out_weight, *out_bias;
    qkv_param *norm_x_weight, *norm_x_bias; /* cross-attention */
    qkv_param *q_weight, *q_bias;
    qkv_param *kv_weight, *kv_bias;       /* 2 kv_heads head_width rows: k, v */
    qkv_param *out_x_weight, *out_x_bias;
    qkv_param *norm2_weight, *norm2_bias;
    qkv_param *up_weight, *up_bias;       /* ff_width rows; gated: gate, then up */
    qkv_param *down_weight, *down_bias;
} qkv_block_params;
const qkv_block_params *qkv_block_parameters(const qkv_block *b); /* lives as long as b */
const qkv_block_config *qkv_block_configuration(const qkv_block *b); /* zeros filled in */

/* What all blocks of one forward pass share. Zero-initialise; set what applies. */
typedef struct {
    qkv_tensor *positions; /* i32, one per row of x: needed with rotary positions */
    /* Packed sequences, as in qkv_attention_options. */
    size_t sequences;
    const int32_t *offsets;
    const int32_t *lengths;   /* (B) keys of each sequence that are real, or NULL */
    qkv_tensor *bias;         /* added to the scores of self-attention, or NULL */
    qkv_tensor *memory;       /* (B, S, width) or packed: what cross-attention reads */
    const int32_t *memory_offsets, *memory_lengths;
    /* Cross-attention between other rows than those of the sequences: memory b, of `memories`, is
     * read by rows memory_queries[b] .. memory_queries[b+1]-1 of x, all its rows counted through
     * (beams that read one sentence). NULL: by sequence b. */
    size_t memories;
    const int32_t *memory_queries;
    const int32_t *memory_begins; /* as k_begins, or NULL: as memory_offsets say */
} qkv_sequence;

/* Decoding: caches of one block. cross is filled at the first call and then reused. */
typedef struct {
    qkv_kv_cache *self;
    qkv_kv_cache *cross;
} qkv_block_cache;

/* The residual stream between blocks. In pre-norm models the last branch is added by the next
 * norm in one pass: the stream's value is x + branch. */
typedef struct {
    qkv_tensor *x;
    qkv_tensor *branch; /* or NULL */
} qkv_stream;

/* Passes the stream through the block; x (B, T, width). cache may be NULL. false once anything
 * on the tape has failed. Probes: attn.q, attn.k, attn.v, attn, ff under the block's name. */
bool qkv_block_forward(qkv_block *b, qkv_tape *t, qkv_stream *s, const qkv_sequence *seq,
                       qkv_block_cache *cache);

/* The norm that ends a pre-norm stack: norm(x + dropout(branch)); the stream's value is then in
 * s->x alone. kind QKV_NORM_NONE: the stream's value itself. weight and bias may be NULL. NULL
 * once anything on the tape has failed. */
qkv_tensor *qkv_stream_norm(qkv_tape *t, qkv_stream *s, qkv_norm_kind kind, qkv_param *weight,
                            qkv_param *bias, double eps, double dropout, uint32_t dropout_id);

/* ---- patches --------------------------------------------------------------------------------- */

/* What all models have that cut images into patches. */
typedef struct {
    size_t image;    /* a side of the images that positions are learnt for, in pixels */
    size_t patch;    /* a side of a patch; divides those of every image */
    size_t channels; /* of a pixel */
    size_t width, layers, heads;
    size_t ff_width; /* 0: 4 width */
    qkv_activation act;
    bool qkv_bias; /* query, key and value have biases */
    double norm_eps, init_range; /* 0: 1 / sqrt(width) */
    double dropout, attention_dropout;
    double drop_path; /* stochastic depth of the last block, growing from 0 in the first */
} qkv_patches_config;

QKV_END_DECLS
#endif
