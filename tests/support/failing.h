/* failing.h - an allocator whose memory gives out when a test says so, and contexts on it. */
#ifndef QKV_TESTS_FAILING_H
#define QKV_TESTS_FAILING_H

#include <stdbool.h>
#include <stdlib.h>

#include "qkv/base.h"

/* {.left = SIZE_MAX} never fails. */
typedef struct {
    size_t left;    /* allocations that still work */
    bool once;      /* one fails, those after it work again; else all fail from there on */
    size_t largest; /* what asks for more bytes fails too; 0: nothing does */
    size_t live;    /* blocks not yet freed */
} failing;

static inline void *failing_alloc(void *user, size_t bytes)
{
    failing *f = user;
    void *p = NULL;
    if (f->left == 0) {
        f->left = f->once ? SIZE_MAX : 0;
        return NULL;
    }
    f->left -= f->left < SIZE_MAX;
    if ((f->largest && bytes > f->largest) || posix_memalign(&p, 64, bytes))
        return NULL;
    f->live++;
    return p;
}

static inline void failing_free(void *user, void *p)
{
    failing *f = user;
    f->live -= p != NULL;
    free(p);
}

/* One thread, so that allocations come in one order. */
static inline qkv_context_options failing_options(failing *f)
{
    qkv_context_options o = qkv_context_defaults();
    o.threads = 1;
    o.alloc = failing_alloc;
    o.free = failing_free;
    o.user = f;
    return o;
}

#endif
