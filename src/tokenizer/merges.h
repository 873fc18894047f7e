/* merges.h - pairs of tokens that become one. */
#ifndef QKV_SRC_TOKENIZER_MERGES_H
#define QKV_SRC_TOKENIZER_MERGES_H

#include "tokenizer/heap.h"

typedef struct {
    int32_t (*pairs)[2]; /* by rank */
    int32_t *made;       /* by rank: what the pair becomes */
    size_t count, pair_cap, made_cap;
    struct qkv__merge *table; /* hash table by pair */
    size_t mask;
    struct qkv__symbol *symbols; /* scratch */
    size_t symbol_cap;
    qkv__heap heap; /* scratch: places by rank */
    double drop; /* probability that a merge is left out */
    qkv_rng *rng;
} qkv__merges;

qkv_status qkv__merges_add(qkv__merges *b, qkv_context *ctx, int32_t left, int32_t right,
                           int32_t made);
/* To be called once, after the last merge. */
qkv_status qkv__merges_index(qkv__merges *b, qkv_context *ctx);
/* Joins ids in place; *count gets less. */
qkv_status qkv__merges_join(qkv__merges *b, qkv_context *ctx, int32_t *ids, size_t *count);
void qkv__merges_free(qkv__merges *b, qkv_context *ctx);

#endif
