/* heartbeat.h - notices a rank that has vanished: its machine, its network, or a stopped process.
 *
 * A thread of each rank sends a sign of life to the next rank every few seconds and listens to the
 * one before, whatever the main threads compute. What ends by itself, the launcher notices. */
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

/* The rank before, if nothing has been heard of it for so many seconds; else -1. */
int qkv__heartbeat_lost(const qkv__heartbeat *h, double *seconds);

#endif
