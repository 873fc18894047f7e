/* nn.h - state entries (parameters and their names in files), layers, the transformer block.
 * Layer: nn */
#ifndef QKV_NN_H
#define QKV_NN_H

#include <qkv/ops.h>

QKV_BEGIN_DECLS

/* ---- state entries: a model lists each of its tensors once ----------------------------------- */

typedef enum {
    QKV_STATE_PARAM, /* trained, saved and loaded */
    QKV_STATE_FIXED, /* saved and loaded, not trained: a sinusoid table */
    QKV_STATE_TIED, /* may be in a file; shares memory with another entry, the one that is saved */
    QKV_STATE_IGNORED /* may be in a file and is not used: a mask buffer */
} qkv_state_entry_kind;

typedef enum {
    QKV_INIT_ZEROS,
    QKV_INIT_ONES,
    QKV_INIT_NORMAL,  /* mean 0, standard deviation `scale` */
    QKV_INIT_UNIFORM, /* in [-scale, scale] */
    /* By a matrix's outputs (out) and inputs (in); of a convolution each times the window. */
    QKV_INIT_XAVIER,  /* uniform in +-scale sqrt(6 / (in + out)) (Glorot and Bengio 2010, eq. 16) */
    QKV_INIT_XAVIER_NORMAL,   /* normal, standard deviation scale sqrt(2 / (in + out)) */
    QKV_INIT_KAIMING,         /* uniform in +-scale sqrt(6 / in), for layers before a ReLU (He et
                                 al. 2015, eq. 10) */
    QKV_INIT_KAIMING_NORMAL,  /* normal, standard deviation scale sqrt(2 / in) */
    QKV_INIT_TRUNCATED_NORMAL, /* normal as NORMAL, drawn again while beyond 2 scale (BERT, ViT) */
    QKV_INIT_CONSTANT, /* scale */
    QKV_INIT_NONE     /* the values set when the parameter was created */
} qkv_init;

/* A tensor of a file and the contiguous region of a parameter that holds it, from element `offset`.
 * Axis i in the file is axis perm[i] of the region. */
typedef struct {
    const char *name; /* in the file; valid during the call */
    qkv_state_entry_kind kind;
    qkv_param *param; /* NULL for IGNORED */
    size_t offset;
    int ndim;
    size_t shape[QKV_MAX_DIMS]; /* in the file; 0: any size (IGNORED) */
    int perm[QKV_MAX_DIMS];
    qkv_init init;
    double scale;
    bool decay; /* weight decay applies (to matrices, not to biases and norms) */
    bool optional; /* a file may lack it, and is saved as it was: without it, too */
    bool integer; /* I64 in the file: a counter */
} qkv_state_entry;

/* Number of elements; 0 for an IGNORED entry of any shape. */
size_t qkv_state_entry_count(const qkv_state_entry *row);

/* Called for each entry in a fixed order. A status other than QKV_OK stops and is returned. */
typedef qkv_status qkv_state_entry_fn(void *user, const qkv_state_entry *row);

/* Initialises the entry's region from the random stream (seed, name), independent of other entries.
 * QKV_INIT_NONE: does nothing. */
void qkv_state_entry_init(const qkv_state_entry *row, uint64_t seed);

/* Initialises a whole parameter of one's own, from the random stream (seed, the parameter's name).
 * Its first axis is the outputs, its last the inputs, as linear and convolution layers have them;
 * axes between are the window. scale: of the kind above; 1 for the definitions of the papers.
 * QKV_E_ARGUMENT, and nothing changed: an unknown kind, a scale that is no finite number, or a kind
 * that needs inputs and outputs with a vector. */
qkv_status qkv_param_init(qkv_param *p, qkv_init kind, double scale, uint64_t seed);

/* ---- linear layers --------------------------------------------------------------------------- */

/* y = act(x W^T + b): weight (out, in), bias (out) or NULL. */
typedef struct {
    qkv_param *weight, *bias;
} qkv_linear_layer;

/* Creates parameters name.weight and name.bias. false on failure, recorded in the context. */
bool qkv_linear_create(qkv_linear_layer *out, qkv_params *ps, const char *name, size_t in,
                       size_t outputs);
/* x (.., in) -> (.., out) */
qkv_tensor *qkv_linear_forward(const qkv_linear_layer *l, qkv_tape *t, qkv_tensor *x,
                               qkv_activation act);

/* ---- batch norm ------------------------------------------------------------------------------ */

/* The tensors of PyTorch's BatchNorm; the last three are frozen. */
typedef struct {
    qkv_param *weight, *bias;   /* (C) */
    qkv_param *mean, *variance; /* (C) running_mean, running_var */
    qkv_param *batches;         /* (1) num_batches_tracked */
} qkv_batch_norm_layer;

/* Creates the parameters name.weight and so on with their initial values, ones and zeros. false on
 * failure, recorded in the context. */
bool qkv_batch_norm_create(qkv_batch_norm_layer *out, qkv_params *ps, const char *name, size_t C);
/* x (.., C) -> (.., C), with PyTorch's eps 1e-5 and momentum 0.1. */
qkv_tensor *qkv_batch_norm_forward(const qkv_batch_norm_layer *b, qkv_tape *t, qkv_tensor *x);
/* Visits its state entries: name, a dot, PyTorch's name. */
qkv_status qkv_batch_norm_visit(const qkv_batch_norm_layer *b, const char *name,
                                qkv_state_entry_fn *fn, void *user);

/* ---- rotary positions ------------------------------------------------------------------------ */

/* How frequencies are changed so that a model reads texts longer than those of its training. */
typedef enum {
    QKV_ROPE_DEFAULT, /* not at all */
    QKV_ROPE_LINEAR,  /* all divided by the factor (Chen et al. 2023) */
    QKV_ROPE_LLAMA3,  /* low ones divided, high ones kept (Llama 3.1, Dubey et al. 2024) */
    QKV_ROPE_YARN     /* the same with a ramp over pairs, and scores scaled (Peng et al. 2023) */
} qkv_rope_kind;

/* Zeros where a field is not used. */
typedef struct {
    double base;       /* pair i of n turns by base^(-i/n) a position; 0: no rotary positions */
    double share;      /* of a head's channels, the first, that turn; 0: all */
    qkv_rope_kind kind;
    double factor;     /* by which texts are longer; of all kinds but DEFAULT */
    size_t original;   /* LLAMA3, YARN: positions of the training before */
    double low, high;  /* LLAMA3: turns in `original` positions below and above which frequencies
                          are low and high */
    double beta_fast, beta_slow; /* YARN: turns at the ends of the ramp; 0: 32 and 1 */
    bool fractional;   /* YARN: the ramp's ends are not rounded to whole pairs */
    double attention_factor;       /* YARN: scale of query and key; 0: from the next two */
    double mscale, mscale_all_dim; /* YARN: both 0: 0.1 ln(factor) + 1 */
} qkv_rotary_config;

/* Channels of a head that turn. */
size_t qkv_rotary_width(const qkv_rotary_config *c, size_t head_width);
/* frequency (qkv_rotary_width / 2): radians a position. Returns the scale of query and key. */
double qkv_rotary_frequencies(const qkv_rotary_config *c, size_t head_width, double *frequency);

/* ---- relative positions ---------------------------------------------------------------------- */

/* T5's: the offset of a key from its query chooses a row of a learned table, whose number of a head
 * is added to its scores (Raffel et al. 2020, 2.1). Half of the buckets (of a direction) are
 * offsets of their own, the others grow with the logarithm up to `distance`. */
typedef struct {
    size_t buckets;     /* rows of the table; 2 or more for each direction, even if both */
    size_t distance;    /* offsets from here on share the last bucket; above half of a direction's
                           buckets */
    bool bidirectional; /* keys behind the query have half of the buckets; else all of these are
                           one bucket with the query itself */
} qkv_relative_config;

/* The row of a key `offset` positions behind its query; below 0: before it. */
size_t qkv_relative_bucket(const qkv_relative_config *c, ptrdiff_t offset);
/* table (buckets, heads) -> (heads, T + S - 1), `relative` of qkv_attention_options for queries
 * that are the last T of S positions. NULL once anything on the tape has failed. */
qkv_tensor *qkv_relative_bias(qkv_tape *t, qkv_tensor *table, const qkv_relative_config *c,
                              size_t T, size_t S);

/* ---- multi-head attention -------------------------------------------------------------------- */

/* Each field: meaning, default. Start from qkv_mha_defaults. */
typedef struct {
    size_t width;        /* of the input that asks and of the output               512 */
    size_t memory_width; /* of the memory; 0: width                                  0 */
    size_t heads;        /* query heads                                              8 */
    size_t kv_heads;     /* key/value heads; divides heads; 0: heads                 0 */
    size_t head_width;   /* 0: width / heads                                         0 */
    bool cross;          /* keys and values come from a memory, not from the input   false */
    bool causal;         /* row i sees rows 0 .. i                                   false */
    size_t window;       /* causal: and of these the last `window` alone; 0: all     0 */
    bool qkv_bias, out_bias; /* biases of the linear layers                          true */
    double qk_norm_eps;  /* RMSNorm of each head's query and key, before their
                            positions (Qwen3), with this eps; 0: none                0 */
    double scale;        /* of the scores; 0: 1/sqrt(head_width)                     0 */
    qkv_rotary_config rotary; /* self-attention only                                 none */
    double dropout;      /* of the weights, while the tape trains            [0, 1)  0 */
} qkv_mha_config;

qkv_mha_config qkv_mha_defaults(void);

typedef struct qkv_mha qkv_mha;

/* Creates the layer's parameters, all zeros: name.qkv.weight, of cross-attention name.q.weight and
 * name.kv.weight; name.out.weight; and the biases. dropout_id: as in qkv_dropout, one id. The layer
 * lives as long as ps. NULL on failure, recorded in the context; ps keeps the parameters created so
 * far. */
qkv_mha *qkv_mha_create(qkv_params *ps, const qkv_mha_config *config, const char *name,
                        uint32_t dropout_id);

/* Matrices are (out, in). NULL: not in this layer. */
typedef struct {
    qkv_param *qkv_weight, *qkv_bias; /* (heads + 2 kv_heads) head_width rows: q, k, v */
    qkv_param *q_weight, *q_bias;     /* cross-attention: heads head_width rows */
    qkv_param *kv_weight, *kv_bias;   /* 2 kv_heads head_width rows: k, v */
    qkv_param *out_weight, *out_bias; /* width rows */
    qkv_param *q_norm, *k_norm;       /* (head_width) with qk_norm_eps */
} qkv_mha_params;
const qkv_mha_params *qkv_mha_parameters(const qkv_mha *m); /* valid as long as m */
const qkv_mha_config *qkv_mha_configuration(const qkv_mha *m); /* zeros replaced, but scale's */
/* Xavier's values (QKV_INIT_XAVIER, scale 1) for query, key, value and output, each a matrix of its
 * own although three are packed; biases 0. */
void qkv_mha_init(qkv_mha *m, uint64_t seed);

/* What a forward pass gives to every attention layer beside its input. Zero-initialise; set what
 * applies. */
typedef struct {
    qkv_tensor *positions; /* i32, one per row of x; required by rotary positions */
    /* Packed sequences, as in qkv_attention_options. */
    size_t sequences;
    const int32_t *offsets;
    const int32_t *lengths;   /* (B) number of keys in each sequence; NULL: all */
    const qkv_kv_slots *slots; /* with a cache: where its sequences lie, instead of sequences and
                                  offsets; NULL: appended to all */
    qkv_tensor *bias;         /* added to the scores of self-attention, or NULL */
    qkv_tensor *mask;         /* of self-attention, or NULL: as in qkv_attention_options */
    qkv_tensor *relative;     /* the same */
    qkv_tensor *memory_bias, *memory_mask; /* the same of cross-attention */
    qkv_tensor *memory;       /* (B, S, width) or packed: keys and values of cross-attention */
    const int32_t *memory_offsets, *memory_lengths;
    /* Cross-attention where several sequences share a memory (beams of one sentence): memory b of
     * `memories` is read by rows memory_queries[b] .. memory_queries[b+1]-1 of x, in its flattened
     * rows. NULL: sequence b reads memory b. */
    size_t memories;
    const int32_t *memory_queries;
    const int32_t *memory_begins; /* as k_begins in qkv_attention_options; NULL: memory_offsets */
} qkv_sequence;

/* MultiHead(x, memory) = concat(head_1 .. head_h) W^O, head_i = attention(x W_i^Q, memory W_i^K,
 * memory W_i^V), each with its bias; of self-attention the memory is x. x (B, T, width) -> (B, T,
 * width). seq NULL: nothing set; cross-attention requires seq->memory, rotary positions
 * seq->positions. cache NULL: none. A cache of self-attention is appended to and read whole; one of
 * cross-attention is filled by the first call, and read by the later ones. NULL once anything on
 * the tape has failed. Places for probes, as of a block's attn and cross, under the names that the
 * caller has pushed: the last part of the layer's name for the weights, and it with .q, .k, .v, .z
 * and .out. (Vaswani et al. 2017, 3.2.2.) */
qkv_tensor *qkv_mha_forward(qkv_mha *m, qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq,
                            qkv_kv_cache *cache);

/* ---- the block ------------------------------------------------------------------------------- */

/* Each field: meaning, default. Start from qkv_block_defaults; a zeroed struct is an error. */
typedef struct {
    size_t width;       /* of the residual stream                                  512 */
    size_t heads;       /* query heads                                               8 */
    size_t kv_heads;    /* key/value heads; divides heads; 0: heads                  0 */
    size_t head_width;  /* 0: width / heads                                          0 */
    size_t ff_width;    /* of the feed-forward layer                              2048 */
    qkv_norm_kind norm; /* QKV_NORM_LAYER */
    double norm_eps;    /* 1e-5 */
    bool norm_bias;     /* true */
    bool post_norm;     /* norm(x + f(x)) instead of x + f(norm(x))              false */
    qkv_activation act; /* QKV_ACT_GELU */
    bool gated;         /* act(gate x) * (up x) in the feed-forward layer        false */
    bool causal;        /* false */
    size_t window;      /* causal: keys that a query sees; 0: all                    0 */
    bool cross;         /* has cross-attention to a memory                       false */
    bool qkv_bias, out_bias, ff_bias; /* biases of the linear layers               true */
    double qk_norm_eps; /* norms of query and key, as in qkv_mha_config; 0: none     0 */
    bool layer_scale;   /* learned factors of the channels of each sublayer's output
                           (LayerScale, Touvron et al. 2021)                     false */
    bool norm_stream;   /* pre-norm: the normed input of the feed-forward layer replaces
                           the stream, as in CCT (Hassani et al. 2021)           false */
    double attention_scale;       /* 0: 1/sqrt(head_width)                           0 */
    qkv_rotary_config rotary; /* none */
    double dropout;     /* of each sublayer's output                                 0 */
    double attention_dropout, ff_dropout; /* of weights; after the activation         0 */
    double drop_path;   /* stochastic depth: drops a sample's whole branch           0 */
} qkv_block_config;

qkv_block_config qkv_block_defaults(void);

typedef struct qkv_block qkv_block;

/* Creates the block's parameters (name.attn.qkv.weight and so on), all zeros. index: the block's
 * number in its model; its dropout ids are 16 index .. 16 index + 15. The block lives as long as
 * ps. NULL on failure, recorded in the context; ps keeps the parameters created so far. */
qkv_block *qkv_block_create(qkv_params *ps, const qkv_block_config *config, const char *name,
                            uint32_t index);

/* The block's parameters, for state entries. Matrices are (out, in). NULL: not in this block. */
typedef struct {
    qkv_param *norm1_weight, *norm1_bias;
    qkv_param *qkv_weight, *qkv_bias;     /* (heads + 2 kv_heads) head_width rows: q, k, v */
    qkv_param *out_weight, *out_bias;
    qkv_param *q_norm, *k_norm;           /* qk_norm_eps */
    qkv_param *norm_x_weight, *norm_x_bias; /* cross-attention */
    qkv_param *q_weight, *q_bias;
    qkv_param *kv_weight, *kv_bias;       /* 2 kv_heads head_width rows: k, v */
    qkv_param *out_x_weight, *out_x_bias;
    qkv_param *norm2_weight, *norm2_bias;
    qkv_param *up_weight, *up_bias;       /* ff_width rows; gated: gate, then up */
    qkv_param *down_weight, *down_bias;
    qkv_param *scale1, *scale2, *scale_x;   /* (width) with layer_scale: of attention, of the
                                               feed-forward layer, of cross-attention */
} qkv_block_params;
const qkv_block_params *qkv_block_parameters(const qkv_block *b); /* valid as long as b */
const qkv_block_config *qkv_block_configuration(const qkv_block *b); /* zeros replaced */

/* KV caches of one block, for decoding. The first call fills cross; later calls read it. */
typedef struct {
    qkv_kv_cache *self;
    qkv_kv_cache *cross;
} qkv_block_cache;

/* The residual stream between blocks: its value is x + branch. In pre-norm models the next norm
 * adds the branch in the same pass. The op that reads the branch first may overwrite it: take the
 * value by qkv_stream_norm with QKV_NORM_NONE, which keeps the stream as it should be. */
typedef struct {
    qkv_tensor *x;
    qkv_tensor *branch; /* NULL: none */
} qkv_stream;

/* Applies the block to the stream; x (B, T, width). cache may be NULL. false once anything on the
 * tape has failed. Places for probes (tensor.h), under the block's name:
 *   resid_pre, resid_mid, resid_post  the residual stream before the block, before its feed-forward
 *                                     layer, and after it                        (B, T, width)
 *   attn.q, attn.k, attn.v            rotary positions applied            (B, T, heads, head_width)
 *   attn                              the weights (qkv_attention_probe)            (B, heads, T, S)
 *   attn.z, attn.out                  the heads' outputs, and those joined by the output layer
 *   cross.q, .k, .v, cross, .z, .out  the same of cross-attention
 *   ff.act, ff.out                    after the activation (ff_width), and the layer's output
 * The final norm's output is the place NAME of the norm ("norm"). Dropout comes after .out. */
bool qkv_block_forward(qkv_block *b, qkv_tape *t, qkv_stream *s, const qkv_sequence *seq,
                       qkv_block_cache *cache);

/* The final norm of a pre-norm stack: norm(x + dropout(branch)). Afterwards s->x alone is the
 * stream's value. QKV_NORM_NONE returns that value. weight and bias may be NULL. NULL once anything
 * on the tape has failed. */
qkv_tensor *qkv_stream_norm(qkv_tape *t, qkv_stream *s, qkv_norm_kind kind, qkv_param *weight,
                            qkv_param *bias, double eps, double dropout, uint32_t dropout_id);

/* ---- patches --------------------------------------------------------------------------------- */

/* Configuration that all models of image patches share. */
typedef struct {
    size_t image;    /* side of the images that position embeddings are learned for, pixels */
    size_t patch;    /* side of a patch, pixels; divides the sides of every image */
    size_t channels; /* per pixel */
    size_t width, layers, heads;
    size_t ff_width; /* 0: ff_ratio width */
    size_t ff_ratio; /* 0: 4 */
    bool gated;      /* SiLU(gate x) * (up x) in the feed-forward layer, of 2/3 as many units */
    qkv_activation act; /* where it is not gated */
    bool qkv_bias; /* biases of query, key and value */
    double layer_scale; /* first value of the factors of layer_scale in qkv_block_config */
    size_t registers;   /* learned tokens without positions before the patches (Darcet et al.
                           2023) */
    bool mask_token;    /* files have one; kept, not used */
    double norm_eps, init_range; /* 0: 1 / sqrt(width) */
    double dropout, attention_dropout;
    double drop_path; /* stochastic depth: of the last block, linear from 0 in the first */
} qkv_patches_config;

QKV_END_DECLS
#endif
