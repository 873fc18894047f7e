/* heap.h - what is to be joined next: entries by key, of equal keys by value, smallest first. */
#ifndef QKV_SRC_TOKENIZER_HEAP_H
#define QKV_SRC_TOKENIZER_HEAP_H

#include "base/base.h"

typedef struct {
    uint64_t key, value;
} qkv__heap_entry;

/* Starts from {0}. */
typedef struct {
    qkv__heap_entry *entries;
    size_t count, capacity;
} qkv__heap;

/* false: memory is out. */
bool qkv__heap_push(qkv__heap *h, qkv_context *ctx, uint64_t key, uint64_t value);
qkv__heap_entry qkv__heap_pop(qkv__heap *h); /* of one that is not empty */

#endif
