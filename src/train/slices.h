/* slices.h - gradients that come and go: a bucket has memory for its gradient from when a backward
 * pass first writes to it until it has been exchanged; then this rank's slice of the sum is kept,
 * and the memory serves the next bucket (ZeRO-2, Rajbhandari et al. 2020). */
#ifndef QKV_SRC_TRAIN_SLICES_H
#define QKV_SRC_TRAIN_SLICES_H

#include "train/exchange.h"

typedef struct qkv__slices qkv__slices;

/* Takes over the gradients of a partition that was made for it. On failure *out is NULL. */
qkv_status qkv__slices_create(qkv__slices **out, qkv__partition *part, qkv__exchange *exchange,
                              int rank);
void qkv__slices_destroy(qkv__slices *s); /* NULL is allowed */

#endif
