/* rows.h - what embeddings add to the gradient of a table that the head shares (tied embeddings):
 * one row for each token. These rows are kept apart, go to the ranks that own their part of the
 * table, and are added to the sum over all shards, in the shards' order. The rest of the gradient,
 * the head's, is complete early in a backward pass, and so can go out while the pass still runs. */
#ifndef QKV_SRC_TRAIN_ROWS_H
#define QKV_SRC_TRAIN_ROWS_H

#include "tensor/make.h"
#include "tensor/partition.h"

typedef struct qkv__rows qkv__rows;

/* On failure *out is NULL. */
qkv_status qkv__rows_create(qkv__rows **out, const qkv__partition *part);
void qkv__rows_destroy(qkv__rows *r); /* NULL is allowed */

/* Takes rows of this rank's shards, in their order: a qkv__grad_rows_fn. */
bool qkv__rows_take(void *rows, const qkv__grad_rows *more);
/* How many numbers have been taken. */
size_t qkv__rows_numbers(const qkv__rows *r);
/* Adds the rows of all ranks to the gradients that this one owns, once these are sums over all
 * shards; then there are none. */
qkv_status qkv__rows_finish(qkv__rows *r);

#endif
