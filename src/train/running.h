/* running.h - parameters that forward passes change (the statistics of batch norms), over the
 * shards of a batch: every shard begins with the values before the update, and the update moves
 * them by the mean of what the shards did. */
#ifndef QKV_SRC_TRAIN_RUNNING_H
#define QKV_SRC_TRAIN_RUNNING_H

#include "qkv/tensor.h"

typedef struct qkv__running_values qkv__running_values;

/* shards: of the batch, a multiple of this context's ranks. On failure *out is NULL. */
qkv_status qkv__running_create(qkv__running_values **out, qkv_params *params, size_t shards);
void qkv__running_destroy(qkv__running_values *r); /* NULL is allowed */

/* Before the first of this rank's shards; after its i-th; after the last of all. */
void qkv__running_begin(qkv__running_values *r);
void qkv__running_end_shard(qkv__running_values *r, size_t i);
qkv_status qkv__running_finish(qkv__running_values *r);

#endif
