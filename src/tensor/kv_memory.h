/* kv_memory.h - the inside of a cache of keys and values: kv_cache.c fills all its sequences alike,
 * kv_slots.c each by itself. */
#ifndef QKV_TENSOR_KV_MEMORY_H
#define QKV_TENSOR_KV_MEMORY_H

#include "tensor/tape.h"

struct qkv_kv_cache {
    qkv_context *ctx;
    size_t B, capacity, length, window, heads, D, Dv; /* window: 0, or what append shows */
    size_t most;     /* B at first */
    qkv_real *k, *v; /* (most + 1, capacity, heads, D) and (.., Dv): the last one is spare */
};

#endif
