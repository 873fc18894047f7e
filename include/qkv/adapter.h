/* adapter.h - low-rank adapters of a model (LoRA, Hu et al. 2021): while the model's own parameters
 * are frozen, each adapted matrix W (out, in) of a linear layer counts as W + scale B A, with
 * A (r, in) and B (out, r) that are trained. A model may have several adapters, which add up.
 * Layer: model */
#ifndef QKV_ADAPTER_H
#define QKV_ADAPTER_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

typedef struct qkv_adapter qkv_adapter;

/* Comments give PEFT's names. */
typedef struct {
    size_t rank;         /* r: columns of B                                  [1, 65536]    8 */
    double alpha;        /* lora_alpha: scale = alpha / rank                     > 0      16 */
    bool rslora;         /* use_rslora: scale = alpha / sqrt(rank)                     false */
    double dropout;      /* lora_dropout: of what goes into A, while training   [0, 1)     0 */
    const char *targets; /* target_modules: names of layers, separated by "+", whole or from a dot
                            on; all-linear: every linear layer but the heads      all-linear */
    const char *modules; /* modules_to_save: names of modules that are trained whole and saved with
                            the adapter; NULL or "": none                              NULL */
    qkv_weights weights; /* how the frozen matrices are kept: AUTO, as they are; BF16, INT8, INT4
                            (qkv_params_store)                                         AUTO */
} qkv_lora_config;
const qkv_option_table *qkv_lora_table(void); /* keys r, alpha, rslora, dropout, targets .. */
qkv_lora_config qkv_lora_defaults(void);
/* The settings of "key=value,key=value", or of "default". Strings of *config are *owner's, which is
 * to be destroyed (qkv_options_destroy), after a failure too. */
qkv_status qkv_lora_parse(qkv_lora_config *config, qkv_options **owner, qkv_context *ctx,
                          const char *text);

/* Freezes all parameters of m and adds an adapter to be trained: A uniform in +-1 / sqrt(in), B
 * zeros, so that the model computes what it did. Its parameters are qkv_model_params' like all
 * others, and it lives as long as m. QKV_E_ARGUMENT: a target or a module that m does not have; m
 * may then be partly adapted and is to be destroyed. */
qkv_status qkv_model_add_lora(qkv_adapter **out, qkv_model *m, const qkv_lora_config *config,
                              uint64_t seed);

size_t qkv_model_adapter_count(const qkv_model *m);
qkv_adapter *qkv_model_adapter(const qkv_model *m, size_t i); /* NULL past the last */
const char *qkv_adapter_name(const qkv_adapter *a); /* of its directory; "adapter" */
/* Says which directory holds the model beneath a, for qkv_hub_save; copied. NULL: not known. */
qkv_status qkv_adapter_set_base(qkv_adapter *a, const char *dir);
size_t qkv_adapter_matrices(const qkv_adapter *a);  /* that it adapts */
/* Numbers that are trained: those of A, of B, and of modules that are trained whole. */
size_t qkv_adapter_elements(const qkv_adapter *a);

/* How much of the adapter counts: 1, as it was trained, at first; 0: nothing, at no cost. Passes
 * that begin later see it. */
void qkv_adapter_set_weight(qkv_adapter *a, double weight);
double qkv_adapter_weight(const qkv_adapter *a);

/* Adds scale B A of every adapter to the matrices, once and for all; the model then has no
 * adapters. QKV_E_UNSUPPORTED for matrices kept in fewer bits than f32. */
qkv_status qkv_model_merge_adapters(qkv_model *m);

QKV_END_DECLS
#endif
