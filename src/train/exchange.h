/* exchange.h - the messages of an update over ranks: gradients to the ranks that own them, while
 * the backward pass still runs, and updated values back to all. */
#ifndef QKV_SRC_TRAIN_EXCHANGE_H
#define QKV_SRC_TRAIN_EXCHANGE_H

#include "dist/dist.h"
#include "tensor/partition.h"

typedef struct qkv__exchange qkv__exchange;

/* Numbers of a rank's slice that go in one message: a window, or all of the largest slice. */
size_t qkv__exchange_window(const qkv__partition *partition, size_t ranks);

/* For this context's ranks, each of which owns partition->chunks / ranks neighbouring chunks of
 * every bucket. Allocates what is needed. On failure *out is NULL. */
qkv_status qkv__exchange_create(qkv__exchange **out, qkv_context *ctx,
                                const qkv__partition *partition);
void qkv__exchange_destroy(qkv__exchange *x); /* NULL is allowed */

/* The bucket's gradient on this rank is complete. Every rank hands over the same buckets in the
 * same order; messages begin at once, a few at a time. */
qkv_status qkv__exchange_add(qkv__exchange *x, size_t bucket);
/* Lets messages go on, and adds up what has arrived. */
qkv_status qkv__exchange_poll(qkv__exchange *x);
/* Waits until this rank's slices of all that was handed over are sums over the ranks, added up as
 * a binary tree whose leaves are the ranks in order. */
qkv_status qkv__exchange_finish(qkv__exchange *x);
/* fn is called as soon as nothing of a bucket's gradient is under way any more: this rank's slice
 * is the sum, the rest is of no use. */
typedef void qkv__exchange_done_fn(void *user, size_t bucket);
void qkv__exchange_on_done(qkv__exchange *x, qkv__exchange_done_fn *fn, void *user);
/* How many buckets were handed over and are not done. */
size_t qkv__exchange_waiting(const qkv__exchange *x);
/* Share of the gradients of this update that have arrived by now, 0 to 1; 1 without any. later:
 * numbers of theirs that are not handed over, since they go other ways. */
double qkv__exchange_arrived(const qkv__exchange *x, size_t later);

/* Begins to hand out this rank's slice of the bucket's values and to receive the others'. */
qkv_status qkv__exchange_share(qkv__exchange *x, size_t bucket);
/* Waits for all that was begun so. */
qkv_status qkv__exchange_shared(qkv__exchange *x);

#endif
