/* stack.h - stacks of blocks. */
#ifndef QKV_SRC_NN_STACK_H
#define QKV_SRC_NN_STACK_H

#include "qkv/nn.h"

/* Blocks one after another and, where they are pre-norm, the norm that ends them. */
typedef struct {
    qkv_block **blocks; /* (count) */
    size_t count;
    const char *block_name, *norm_name; /* of the options */
    qkv_norm_kind norm; /* that ends them; QKV_NORM_NONE: none does */
    double norm_eps, dropout;
    uint32_t norm_dropout_id;
    qkv_param *norm_weight, *norm_bias; /* NULL where the norm has none */
} qkv__stack;

typedef struct {
    const char *block, *norm; /* names: block.0, block.1, ..; norm.weight, norm.bias */
    uint32_t first;      /* numbers from here on tell blocks apart where they draw at random */
    uint32_t norm_dropout_id; /* of the dropout before the last norm: one that no block has */
    size_t window_from;  /* the first block with config's window */
    bool scale_by_layer; /* block i's attention scale, which config then gives, is over i + 1 */
} qkv__stack_options;

/* Blocks with config's stochastic depth in the last, growing from 0 in the first; the norm that
 * ends them is of the same kind as theirs. */
qkv_status qkv__stack_make(qkv__stack *s, qkv_params *ps, const qkv_block_config *config,
                           size_t count, const qkv__stack_options *o);

/* i32, shape of ids (B, T): past, past + 1, ..; from past again in each packed sequence. */
qkv_tensor *qkv__positions(qkv_tape *t, const qkv_tensor *ids, size_t past, size_t sequences,
                           const int32_t *offsets);
/* The same of sequences in slots, each from its own position on. */
qkv_tensor *qkv__slot_positions(qkv_tape *t, const qkv_tensor *ids, const qkv_kv_slots *s);

/* x (B, T, width) through all blocks and the last norm; caches (count) or NULL. NULL once anything
 * failed. When not recording, each block's memory but its output is released. */
qkv_tensor *qkv__stack_forward(const qkv__stack *s, qkv_tape *t, qkv_tensor *x,
                               const qkv_sequence *seq, qkv_block_cache *caches);

#endif
