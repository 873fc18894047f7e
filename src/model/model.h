/* model.h - what a model's file provides. */
#ifndef QKV_SRC_MODEL_MODEL_H
#define QKV_SRC_MODEL_MODEL_H

#include "base/base.h"
#include "nn/state_entries.h"
#include "qkv/model.h"

/* What a model that predicts the next token provides; see qkv_lm_* in the public header. */
typedef struct {
    size_t (*vocab)(const qkv_model *m);
    size_t (*positions)(const qkv_model *m);
    int32_t (*eos)(const qkv_model *m);
    bool (*has_max_positions)(const qkv_model *m);
    size_t (*layers)(const qkv_model *m);
    size_t (*window)(const qkv_model *m, size_t layer); /* keys that a query sees; 0: all */
    qkv_status (*block_cache)(qkv_model *m, qkv_block_cache *c, qkv_kv_store store, size_t B,
                              size_t capacity);
    /* given: sequences and offsets, or slots */
    qkv_tensor *(*hidden)(qkv_model *m, qkv_tape *t, qkv_tensor *ids, const qkv_sequence *given,
                          qkv_lm_cache *cache);
    qkv_param *(*head)(qkv_model *m); /* (vocab, width) */
} qkv__lm;

struct qkv_builtin_type {
    unsigned can;      /* QKV_CAN_*; 0 of a type whose functions take no other */
    bool reads_text;   /* its directories have a tokenizer */
    const qkv__lm *lm; /* with QKV_CAN_GENERATE */
    void (*after_init)(qkv_model *m); /* first values that no row says; NULL: none */
};

/* The library's types, NULL at the end: the build adds every one that src/model defines. */
extern qkv_model_type_fn *const qkv__model_types[];

/* Hugging Face's, in the order of qkv_activation, NULL at the end. */
extern const char *const qkv__activation_names[];

struct qkv_model {
    const qkv_model_type *type;
    qkv_context *ctx;
    qkv_params *params;
    void *config;
    void *self;    /* the type's own struct */
    char **labels; /* (label_count) names of classes */
    size_t label_count;
    int32_t eos_ids[QKV_LM_EOS_IDS]; /* (eos_count) tokens that end a text; 0: the
                                        configuration's */
    size_t eos_count;
    qkv_image_format images; /* height 0: not set */
    struct qkv_adapter *adapters; /* a list; NULL: none */
    size_t adapted;               /* matrices of all adapters so far */
};

/* The model's own struct when its type has one of the QKV_CAN_* bits, which the library's types
 * alone have; else NULL: then the context has a sentence that says what the function takes, and t,
 * unless NULL, has failed. The check of every public function that takes a model. */
void *qkv__model_as(const qkv_model *m, qkv_tape *t, const char *function, unsigned capabilities);

/* The same when the model is of that type: the check of functions that take no other. */
void *qkv__model_of(const qkv_model *m, qkv_tape *t, const char *function,
                    const qkv_model_type *type);
bool qkv__model_reads_text(const qkv_model *m);

/* QKV_OK when models of the type can be made; else QKV_E_ARGUMENT and a sentence. */
qkv_status qkv__model_type_check(qkv_context *ctx, const qkv_model_type *type);

struct qkv_lm_cache {
    qkv_context *ctx;
    size_t layers, length, capacity;
    qkv_block_cache *blocks; /* (layers) */
};

/* A cache whose blocks' caches are still to be made. On failure *out is NULL. */
qkv_status qkv__cache_create(qkv_lm_cache **out, qkv_context *ctx, size_t layers,
                             size_t capacity);

/* ---- for types' tables ---------------------------------------------------------------------- */

/* Operations of so many products and sums with parameters, and of so many of attention forward. */
double qkv__flops(qkv_pass pass, double products, double attention);
/* Forward is 1, each gradient 1 more: what qkv__conv_flops takes. */
int qkv__passes(qkv_pass pass);

/* A preset of width, layers and heads; a list of them ends with a NULL name. */
typedef struct {
    const char *name, *summary;
    size_t width, layers, heads;
} qkv__named_size;

/* The name of the i-th, whose sizes are set, or NULL past the last; *summary, unless NULL, is set
 * to its size in words. */
const char *qkv__size_take(const qkv__named_size *list, size_t i, const char **summary,
                           size_t *width, size_t *layers, size_t *heads);

#endif
