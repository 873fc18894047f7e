/* model.h - what a model's file provides. */
#ifndef QKV_SRC_MODEL_MODEL_H
#define QKV_SRC_MODEL_MODEL_H

#include "base/base.h"
#include "nn/rows.h"
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

#endif
