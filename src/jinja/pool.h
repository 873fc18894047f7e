/* pool.h - memory that is freed at once, and limits of memory and time. */
#ifndef QKV_SRC_JINJA_POOL_H
#define QKV_SRC_JINJA_POOL_H

#include "base/base.h"

/* Of a template, or of one rendering of it. What takes long takes steps, so that no template runs
 * for long: a step stands for a value, a few characters, or 16 bytes that are compared. */
typedef struct {
    qkv__arena *arena;
    char *at;           /* free bytes of the last block */
    size_t left;        /* their number */
    size_t used, limit; /* bytes handed out */
    size_t work, most;  /* steps */
    bool full;          /* a limit was reached, or an allocation failed; it stays so */
} qkv__jinja_pool;

qkv_status qkv__jinja_pool_open(qkv__jinja_pool *p, qkv_context *ctx, size_t limit, size_t most);
void qkv__jinja_pool_close(qkv__jinja_pool *p);
void *qkv__jinja_alloc(qkv__jinja_pool *p, size_t bytes); /* zeroed; NULL: no more */
bool qkv__jinja_work(qkv__jinja_pool *p, size_t steps);   /* false: no more */

#endif
