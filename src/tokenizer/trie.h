/* trie.h - texts with values. */
#ifndef QKV_SRC_TOKENIZER_TRIE_H
#define QKV_SRC_TOKENIZER_TRIE_H

#include "base/base.h"

typedef struct {
    struct qkv__trie_edge *edges; /* hash table of all nodes' children */
    size_t slot_count;
    int32_t *values; /* by node; -1: no text ends here */
    size_t nodes, value_cap;
} qkv__trie;

/* value >= 0; a text given again gets the new value. */
qkv_status qkv__trie_add(qkv__trie *t, qkv_context *ctx, const char *text, size_t len,
                         int32_t value);
/* From a node (0: the root) to its child; false: there is none. *value: of the text that ends
 * there, or -1. */
bool qkv__trie_step(const qkv__trie *t, uint32_t *node, char byte, int32_t *value);
/* Bytes of the longest text that s begins with; 0: none. */
size_t qkv__trie_longest(const qkv__trie *t, const char *s, size_t len, int32_t *value);
void qkv__trie_free(qkv__trie *t, qkv_context *ctx);

#endif
