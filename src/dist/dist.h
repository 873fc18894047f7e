/* dist.h - messages between ranks and what is built of them, for the library's own use.
 *
 * Every rank makes the same calls in the same order. A call fails, with a message that names the
 * rank, once any rank has failed: nobody waits for one that is gone. On a context of one rank the
 * calls below cost nothing. Tags: messages of one tag between two ranks arrive in order. */
#ifndef QKV_SRC_DIST_H
#define QKV_SRC_DIST_H

#include "base/base.h"
#include "dist/backend.h"
#include "qkv/dist.h"

/* Tags of callers: of checkpoints; of updates, from there on. */
enum { QKV__DIST_STATE = 3, QKV__DIST_TAG = 16 };

/* Begins a message; data stays untouched until it is done. */
qkv_status qkv__dist_send(qkv_context *ctx, const void *data, size_t bytes, int to, int tag,
                          qkv__request *r);
qkv_status qkv__dist_receive(qkv_context *ctx, void *data, size_t bytes, int from, int tag,
                             qkv__request *r);
/* Is it done? Lets all messages go on. */
qkv_status qkv__dist_test(qkv_context *ctx, qkv__request *r, bool *done);
/* Waits for one. */
qkv_status qkv__dist_wait(qkv_context *ctx, qkv__request *r);
/* Called in a loop that tests: lets others run. *idle: rounds without anything done; 0 at first and
 * after something was. Fails once another rank has failed. */
qkv_status qkv__dist_pause(qkv_context *ctx, unsigned *idle);

/* Rank 0's bytes for all. */
qkv_status qkv__dist_broadcast(qkv_context *ctx, void *data, size_t bytes);
/* all: (size, bytes), those of each rank, on every rank. */
qkv_status qkv__dist_gather(qkv_context *ctx, const void *mine, size_t bytes, void *all);
/* parts: (size) what this rank has for each, itself included. *all: what every rank has for this
 * one, one after another in their order, *total bytes; to be freed with qkv_free. On failure *all
 * is NULL. */
typedef struct {
    const void *data;
    size_t bytes;
} qkv__dist_part;
qkv_status qkv__dist_exchange(qkv_context *ctx, const qkv__dist_part *parts, void **all,
                              size_t *total);
/* The same, where each rank has the same for all. */
qkv_status qkv__dist_concat(qkv_context *ctx, const void *mine, size_t bytes, void **all,
                            size_t *total);
/* QKV_OK if every rank says so; else the status of the first rank that does not, and its message.
 * Afterwards the run is over: later calls fail. */
qkv_status qkv__dist_agree(qkv_context *ctx, qkv_status own);

/* Seconds that calls have waited for others so far. */
double qkv__dist_waited(const qkv_context *ctx);

#endif
