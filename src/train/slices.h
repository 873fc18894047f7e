/* slices.h - gradients that come and go: a bucket has memory for its gradient from when a backward
 * pass first writes to it until it has been exchanged; then this rank's slice of the sum is kept,
 * and the memory serves the next bucket (ZeRO-2, Rajbhandari et al. 2020). */
#ifndef QKV_SRC_TRAIN_SLICES_H
#define QKV_SRC_TRAIN_SLICES_H

#include "tensor/partition.h"

typedef struct qkv__slices qkv__slices;

/* Takes over the gradients of a partition that was made for it, on one of so many ranks. On failure
 * *out is NULL. */
qkv_status qkv__slices_create(qkv__slices **out, qkv__partition *part, size_t ranks, size_t rank);
/* Called before a bucket gets memory: lets others be exchanged. */
typedef void qkv__slices_wait_fn(void *user);
void qkv__slices_on_take(qkv__slices *s, qkv__slices_wait_fn *fn, void *user);
void qkv__slices_destroy(qkv__slices *s); /* NULL is allowed */

/* The bucket has been exchanged: a qkv__exchange_done_fn. */
void qkv__slices_keep(void *slices, size_t bucket);

/* Bytes that it has taken so far, of slices and of buckets that were there at once. */
size_t qkv__slices_bytes(const qkv__slices *s);

#endif
