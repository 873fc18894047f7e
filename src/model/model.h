/* model.h - what a model's file provides. */
#ifndef QKV_SRC_MODEL_MODEL_H
#define QKV_SRC_MODEL_MODEL_H

#include "base/base.h"
#include "qkv/model.h"

/* What a model that predicts the next token provides; see qkv_lm_* in the public header. */
typedef struct {
    size_t (*vocab)(const qkv_model *m);
    size_t (*positions)(const qkv_model *m);
    int32_t (*eos)(const qkv_model *m);
    bool (*has_horizon)(const qkv_model *m);
    size_t (*flops)(const qkv_model *m, size_t rows, size_t length);
    size_t (*layers)(const qkv_model *m);
    qkv_status (*block_cache)(qkv_model *m, qkv_block_cache *c, size_t B, size_t capacity);
    qkv_tensor *(*hidden)(qkv_model *m, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                          const int32_t *offsets, qkv_lm_cache *cache);
    qkv_param *(*head)(qkv_model *m); /* (vocab, width) */
} qkv__lm;

struct qkv_model_type {
    const char *name, *architecture, *prefix;
    const qkv_option_table *config;
    size_t config_size, model_size;
    /* How many numbers the parameters hold at least. */
    double (*numbers)(const qkv_model_type *type, const void *config);
    /* Fills derived fields of the copied configuration and makes the parameters. */
    qkv_status (*make)(qkv_model *m);
    qkv_status (*visit)(qkv_model *m, qkv_row_fn *fn, void *user);
    const qkv__lm *lm; /* NULL: no language model */
};

/* Hugging Face's, in the order of qkv_activation, NULL at the end. */
extern const char *const qkv__activation_names[];

/* The first member of every model's struct. */
struct qkv_model {
    const qkv_model_type *type;
    qkv_context *ctx;
    qkv_params *params;
    void *config;
    char **labels; /* (label_count) names of classes */
    size_t label_count;
    int32_t ends[QKV_LM_ENDS]; /* (end_count) tokens that end a text; 0: the configuration's */
    size_t end_count;
    qkv_picture_format pictures; /* height 0: not set */
};

struct qkv_lm_cache {
    qkv_context *ctx;
    size_t layers, length, capacity;
    qkv_block_cache *blocks; /* (layers) */
};

/* A cache whose blocks' caches are still to be made. On failure *out is NULL. */
qkv_status qkv__cache_create(qkv_lm_cache **out, qkv_context *ctx, size_t layers,
                             size_t capacity);

/* ---- making --------------------------------------------------------------------------------- */

/* Deviation of initial weights: range itself, or share / sqrt(width) when it is 0. */
double qkv__init_range(double range, double share, size_t width);
/* Parameters (rows, columns) and (n); NULL, and the context says why, when one cannot be made. */
qkv_param *qkv__matrix(qkv_params *ps, const char *name, size_t rows, size_t columns);
qkv_param *qkv__vector(qkv_params *ps, const char *name, size_t n);

/* ---- sizes by name -------------------------------------------------------------------------- */

/* Of a list that ends with a NULL name. */
typedef struct {
    const char *name, *summary;
    size_t width, layers, heads;
} qkv__named_size;

/* False, and nothing is set, when there is no such name. */
bool qkv__size_take(const qkv__named_size *list, const char *name, size_t *width, size_t *layers,
                    size_t *heads);
/* The i-th one's name, or NULL past the last; *summary, unless NULL, says its size. */
const char *qkv__size_name(const qkv__named_size *list, size_t i, const char **summary);

/* ---- visiting, in one line a tensor -------------------------------------------------------- */

typedef struct {
    qkv_row_fn *fn;
    void *user;
    qkv_status status;
    char name[256]; /* of the layer, say "h.3."; put before each row's name */
} qkv__visit;

/* The row under that name, unless a row failed before. */
void qkv__visit_row(qkv__visit *v, qkv_row *row, const char *name);
/* A row for rows [from, from + rows) of a matrix (out, in), or of a vector when columns is 0;
 * transposed: the file holds (in, out). Does nothing when p is NULL or a row failed before. */
void qkv__visit_rows(qkv__visit *v, const char *name, qkv_param *p, size_t from, size_t rows,
                     size_t columns, bool transposed, qkv_init init, double scale);
/* Rows name.weight and name.bias of a dense layer in rows [from, from + rows) of a packed one;
 * bias may be NULL. */
void qkv__visit_dense(qkv__visit *v, const char *name, qkv_param *weight, qkv_param *bias,
                      size_t from, size_t rows, size_t columns, double std);
/* Rows name.weight (ones) and name.bias (zeros) of a norm; bias may be NULL. */
void qkv__visit_norm(qkv__visit *v, const char *name, qkv_param *weight, qkv_param *bias,
                     size_t width);
/* A row for a whole matrix; tied: another name of a row that is visited elsewhere. */
void qkv__visit_table(qkv__visit *v, const char *name, qkv_param *p, bool tied, double std);
/* A row with a kind of its own (FIXED, TIED, IGNORED), whole and as the file has it. */
void qkv__visit_kind(qkv__visit *v, const char *name, qkv_param *p, qkv_row_kind kind,
                     qkv_init init, double scale);

/* ---- stack.c -------------------------------------------------------------------------------- */

/* Blocks name.0, name.1, .., with config's stochastic depth in the last, growing from 0 in the
 * first; numbers from first on tell them apart where they draw at random.
 * scale_by_layer: the i-th one's attention scale, which config then gives, is over i + 1.
 * NULL, and the context says why, when one cannot be made. */
qkv_block **qkv__stack_create(qkv_params *ps, const qkv_block_config *config, const char *name,
                              size_t count, uint32_t first, bool scale_by_layer);

/* i32, shape of ids (B, T): past, past + 1, ..; from 0 again in each packed sequence. */
qkv_tensor *qkv__positions(qkv_tape *t, const qkv_tensor *ids, size_t past, size_t sequences,
                           const int32_t *offsets);

/* Passes the stream through all blocks; caches (count) or NULL. false once anything failed. When
 * not recording, each block's memory but its output is released, and the stream is s->x alone. */
bool qkv__stack_forward(qkv_tape *t, qkv_block *const *blocks, size_t count, qkv_stream *s,
                        const qkv_sequence *seq, qkv_block_cache *caches);

#endif
