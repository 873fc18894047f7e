/* translator.h - an encoder-decoder's inside, and what its layouts fix. */
#ifndef QKV_SRC_MODEL_TRANSLATOR_H
#define QKV_SRC_MODEL_TRANSLATOR_H

#include "model/model.h"
#include "nn/stack.h"
#include "qkv/marian.h"

typedef struct {
    qkv__stack stack;
    qkv_param *table;    /* (vocab, width) */
    qkv_param *relative; /* (buckets, heads); NULL: no relative positions */
    uint32_t embedding_dropout_id, output_dropout_id; /* output: T5's alone */
} qkv__translator_tower;

/* What a layout fixes. */
typedef struct {
    qkv_builtin_type builtin;
    bool pre_norm;
    bool t5; /* RMSNorm, no biases, scores that are not scaled, relative positions */
    /* Checks sizes; fills in fields that others give, and those that the layout fixes. */
    qkv_status (*complete)(qkv_context *ctx, const char *name, qkv_marian_config *c);
} qkv__translator_layout;

typedef struct {
    qkv_model *base;
    qkv_marian_config *c; /* base->config */
    const qkv__translator_layout *layout;
    qkv__translator_tower encoder, decoder;
    qkv_param *positions; /* (positions, width); NULL: none */
    qkv_param *head, *head_bias; /* (vocab, width), (1, vocab); head_bias NULL: none */
} qkv__translator;

/* marian_config.c: what "feed_forward_proj" says of the activation and the gate. */
qkv_status qkv__t5_activation(qkv_context *ctx, qkv_marian_config *c);

/* translator_rows.c: the rows under Marian's names and under T5's. */
qkv_status qkv__marian_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user);
qkv_status qkv__t5_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user);

#endif
