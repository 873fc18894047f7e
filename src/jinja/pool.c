/* pool.c - memory that is freed at once, and limits of memory and time. */
#include "jinja/pool.h"

#include <string.h>

enum { BLOCK = 1 << 16, PLACE = 16 }; /* bytes: of a block, and what allocations are rounded to */

qkv_status qkv__jinja_pool_open(qkv__jinja_pool *p, qkv_context *ctx, size_t limit, size_t most)
{
    *p = (qkv__jinja_pool){.limit = limit, .most = most};
    return qkv__arena_create(&p->arena, ctx, "template");
}

void qkv__jinja_pool_close(qkv__jinja_pool *p)
{
    qkv__arena_destroy(p->arena);
    *p = (qkv__jinja_pool){0};
}

void *qkv__jinja_alloc(qkv__jinja_pool *p, size_t bytes)
{
    if (p->full || bytes > p->limit - p->used) {
        p->full = true;
        return NULL;
    }
    size_t need = (bytes / PLACE + 1) * PLACE;
    p->used = need < p->limit - p->used ? p->used + need : p->limit;
    if (need > p->left) {
        size_t block = need > BLOCK / 4 ? need : BLOCK;
        char *data = qkv__arena_alloc(p->arena, block);
        if (!data) {
            p->full = true;
            return NULL;
        }
        if (block == need)
            return memset(data, 0, need);
        p->at = data;
        p->left = block;
    }
    void *out = memset(p->at, 0, need);
    p->at += need;
    p->left -= need;
    return out;
}

bool qkv__jinja_work(qkv__jinja_pool *p, size_t steps)
{
    if (p->full || steps > p->most - p->work) {
        p->full = true;
        return false;
    }
    p->work += steps;
    return true;
}
