/* adapter.h - the inside of adapters, for those who read and write their files. */
#ifndef QKV_SRC_MODEL_ADAPTER_H
#define QKV_SRC_MODEL_ADAPTER_H

#include "model/model.h"
#include "qkv/adapter.h"
#include "tensor/make.h"

/* One adapted matrix. */
typedef struct {
    const char *module;  /* the name of its row in the model's files, without ".weight" */
    qkv__low_rank *term;
    double scale;        /* of the term at weight 1 */
    bool turned;         /* the model's file has (in, out), as GPT-2's */
} qkv__adapted;

struct qkv_adapter {
    qkv_model *model;
    qkv_adapter *next;
    size_t number;           /* of the model's adapters: parts of its parameters' names */
    const char *name, *base; /* base: the directory of the model beneath it; NULL: not known */
    qkv_lora_config config;  /* its strings live as long as the model; weights is not read */
    double weight;
    qkv__adapted *list; /* (count) */
    size_t count, room;
};

/* An adapter without matrices. config is copied, strings too. NULL: no memory. */
qkv_adapter *qkv__adapter_create(qkv_model *m, const qkv_lora_config *config, const char *name,
                                 const char *base);
/* Adapts the matrix of this row with terms of rank r. QKV_E_ARGUMENT: no linear layer's. */
qkv_status qkv__adapter_add(qkv_adapter *a, const qkv_state_entry *row, size_t r);
/* Freezes all that is not an adapter's or in its modules, which stay in f32. */
qkv_status qkv__adapters_freeze(qkv_model *m);
/* Is the row of a module that the adapter has whole? */
bool qkv__adapter_has_module(const qkv_adapter *a, const char *row);
/* Does `list`, names separated by "+", have this module, whole or from a dot on? */
bool qkv__module_listed(const char *list, const char *module);
/* "a.b.weight" -> "a.b"; false: a name without a dot, or too long. */
enum { QKV__MODULE_NAME = 256 };
bool qkv__module_of(char out[QKV__MODULE_NAME], const char *row);

#endif
