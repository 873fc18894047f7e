/* trie.c - texts with values, walked byte by byte: all texts that begin at a place are
 * found in one pass. Children are found in one hash table for all nodes. */
#include "tokenizer/trie.h"

#include <string.h>

struct qkv__trie_edge {
    uint32_t key; /* node << 8 | byte */
    uint32_t to;  /* 0: free slot (the root is nobody's child) */
};

static struct qkv__trie_edge *trie_slot_of(const qkv__trie *t, uint32_t key)
{
    size_t mask = t->slot_count - 1;
    for (size_t i = (size_t)qkv__mix(key) & mask;; i = (i + 1) & mask)
        if (t->edges[i].to == 0 || t->edges[i].key == key)
            return &t->edges[i];
}

static bool trie_widen(qkv__trie *t, qkv_context *ctx)
{
    size_t old = t->slot_count, count = old ? 2 * old : 1024;
    struct qkv__trie_edge *before = t->edges;
    struct qkv__trie_edge *edges = qkv_calloc(ctx, count, sizeof *edges);
    if (!edges)
        return false;
    t->edges = edges;
    t->slot_count = count;
    for (size_t i = 0; i < old; i++)
        if (before[i].to)
            *trie_slot_of(t, before[i].key) = before[i];
    qkv_free(ctx, before);
    return true;
}

qkv_status qkv__trie_add(qkv__trie *t, qkv_context *ctx, const char *text, size_t len,
                         int32_t value)
{
    uint32_t node = 0;
    if (!qkv__grow(ctx, &t->values, &t->value_cap, t->nodes + len + 1, sizeof *t->values))
        return QKV_E_MEMORY;
    if (t->nodes == 0)
        t->values[t->nodes++] = -1;
    for (size_t i = 0; i < len; i++) {
        if (2 * (t->nodes + 1) > t->slot_count && !trie_widen(t, ctx))
            return QKV_E_MEMORY;
        if (t->nodes >= (uint32_t)1 << 24)
            return qkv_fail(ctx, QKV_E_UNSUPPORTED, "the pieces have more than %d beginnings",
                            1 << 24);
        uint32_t key = node << 8 | (unsigned char)text[i];
        struct qkv__trie_edge *e = trie_slot_of(t, key);
        if (!e->to) {
            *e = (struct qkv__trie_edge){key, (uint32_t)t->nodes};
            t->values[t->nodes++] = -1;
        }
        node = e->to;
    }
    t->values[node] = value;
    return QKV_OK;
}

bool qkv__trie_step(const qkv__trie *t, uint32_t *node, char byte, int32_t *value)
{
    if (!t->nodes || !t->slot_count)
        return false;
    const struct qkv__trie_edge *e = trie_slot_of(t, *node << 8 | (unsigned char)byte);
    if (!e->to)
        return false;
    *node = e->to;
    *value = t->values[e->to];
    return true;
}

size_t qkv__trie_longest(const qkv__trie *t, const char *s, size_t len, int32_t *value)
{
    size_t found = 0;
    uint32_t node = 0;
    int32_t here;
    for (size_t i = 0; i < len && qkv__trie_step(t, &node, s[i], &here); i++)
        if (here >= 0) {
            found = i + 1;
            *value = here;
        }
    return found;
}

void qkv__trie_free(qkv__trie *t, qkv_context *ctx)
{
    qkv_free(ctx, t->edges);
    qkv_free(ctx, t->values);
    *t = (qkv__trie){0};
}
