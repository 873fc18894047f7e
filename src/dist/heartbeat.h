/* heartbeat.h - a thread of each rank that calls MPI whatever the main thread computes.
 *
 * It notices a rank that has vanished (its machine, its network, or a stopped process): it sends a
 * sign of life to the next rank every few seconds and listens to the one before. What ends by
 * itself, the launcher notices. And it lets messages go on, which MPI moves only when it is called:
 * every millisecond while there are any. */
#ifndef QKV_SRC_DIST_HEARTBEAT_H
#define QKV_SRC_DIST_HEARTBEAT_H

#include "base/base.h"
#include "dist/backend.h"

enum { QKV__DIST_HEARTBEAT = 4 }; /* its tag */

typedef struct qkv__heartbeat qkv__heartbeat;

/* *out is NULL where the backend is for one thread. backend outlives it. */
qkv_status qkv__heartbeat_start(qkv__heartbeat **out, qkv_context *ctx,
                                const qkv__dist_backend *backend, const qkv__dist_place *place);
void qkv__heartbeat_stop(qkv__heartbeat *h); /* NULL is allowed */

/* The main thread has begun, or with more < 0 ended, so many messages. h may be NULL. */
void qkv__heartbeat_messages(qkv__heartbeat *h, int more);

/* The rank before, if nothing has been heard of it for so many seconds; else -1. */
int qkv__heartbeat_lost(const qkv__heartbeat *h, double *seconds);

#endif
