/* stack.h - stacks of blocks. */
#ifndef QKV_SRC_NN_STACK_H
#define QKV_SRC_NN_STACK_H

#include "qkv/nn.h"

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
