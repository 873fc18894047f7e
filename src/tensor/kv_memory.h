/* kv_memory.h - the inside of a cache of keys and values: kv_cache.c makes it and fills all its
 * sequences alike, kv_slots.c each by itself. */
#ifndef QKV_TENSOR_KV_MEMORY_H
#define QKV_TENSOR_KV_MEMORY_H

#include "tensor/tape.h"

/* Keys or values. */
typedef struct {
    void *data;      /* (most + 1, capacity, heads, width): the last sequence is spare */
    qkv_real *scale; /* INT8: (most + 1, capacity, heads); else NULL */
} qkv__kv_side;

struct qkv_kv_cache {
    qkv_context *ctx;
    qkv_kv_store store;
    size_t B, capacity, length, window, heads, D, Dv; /* window: 0, or what append shows */
    size_t most;     /* B at first */
    qkv__kv_side k, v;
    /* (most + 1, capacity): which keys and values lie there, by the write that brought them; 0:
     * none. Sequences with the same number at a position hold the same bits there. */
    uint64_t *written, writes;
};

/* `count` rows (sequence * capacity + position) from `row` on get new keys and values. */
static inline void qkv__kv_write(qkv_kv_cache *c, size_t row, size_t count)
{
    for (size_t i = 0; i < count; i++)
        c->written[row + i] = ++c->writes;
}

/* Bytes of one number. */
static inline size_t qkv__kv_bytes(qkv_kv_store store)
{
    return store == QKV_KV_INT8 ? sizeof(int8_t)
           : store == QKV_KV_BF16 ? sizeof(uint16_t) : sizeof(qkv_real);
}

#endif
