/* merges.c - what byte-pair encoding does: symbols are joined, the pair of lowest
 * rank first and leftmost among equals, until no known pair is left. */
#include "tokenizer/merges.h"

#include <string.h>

enum { SHORT_PIECE = 32 }; /* symbols that are searched end to end; more use a heap */

static const uint32_t no_rank = UINT32_MAX;

/* A slot of the hash table. */
struct qkv__merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank; /* no_rank: free slot */
    int32_t made;
};

/* A symbol of a long piece; a list by index, -1 at the ends. id -1: joined into another. */
struct qkv__symbol {
    int32_t id, before, after;
};

static inline struct qkv__merge *find_merge(const qkv__merges *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t i = (size_t)qkv__mix(pair) & b->mask;; i = (i + 1) & b->mask)
        if (b->table[i].pair == pair || b->table[i].rank == no_rank)
            return &b->table[i];
}

/* Few symbols: look at all ranks each time. */
static void join_short(const qkv__merges *b, int32_t *id, size_t *count)
{
    uint32_t rank[SHORT_PIECE];
    int32_t made[SHORT_PIECE];
    size_t n = *count;
    for (size_t i = 0; i + 1 < n; i++) {
        const struct qkv__merge *m = find_merge(b, id[i], id[i + 1]);
        rank[i] = m->rank;
        made[i] = m->made;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == no_rank)
            break;
        id[best] = made[best];
        n--;
        for (size_t i = best + 1; i < n; i++)
            id[i] = id[i + 1];
        for (size_t i = best; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            made[i] = made[i + 1];
        }
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const struct qkv__merge *m = find_merge(b, id[i], id[i + 1]);
            rank[i] = m->rank;
            made[i] = m->made;
        }
    }
    *count = n;
}

/* Puts the pair that begins at place on the heap, if it is one. */
static bool merges_offer(qkv_context *ctx, qkv__merges *b, int32_t place)
{
    int32_t after = place < 0 ? -1 : b->symbols[place].after;
    if (after < 0)
        return true;
    const struct qkv__merge *m = find_merge(b, b->symbols[place].id, b->symbols[after].id);
    return m->rank == no_rank || qkv__heap_push(&b->heap, ctx, m->rank, (uint64_t)place);
}

static qkv_status join_long(qkv_context *ctx, qkv__merges *b, int32_t *id, size_t *count)
{
    size_t n = *count;
    bool ok = qkv__grow(ctx, &b->symbols, &b->symbol_cap, n, sizeof *b->symbols);
    for (size_t i = 0; ok && i < n; i++)
        b->symbols[i] = (struct qkv__symbol){id[i], (int32_t)i - 1,
                                             i + 1 < n ? (int32_t)i + 1 : -1};
    b->heap.count = 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = merges_offer(ctx, b, (int32_t)i);
    while (ok && b->heap.count) {
        qkv__heap_entry top = qkv__heap_pop(&b->heap);
        int32_t place = (int32_t)top.value;
        struct qkv__symbol *s = &b->symbols[place];
        if (s->id < 0 || s->after < 0)
            continue;
        struct qkv__symbol *next = &b->symbols[s->after];
        const struct qkv__merge *m = find_merge(b, s->id, next->id);
        if (m->rank != top.key) /* an older pair stood there */
            continue;
        if (b->drop > 0 && qkv_rng_uniform(b->rng) < b->drop) /* Provilkov et al. 2020 */
            continue;
        s->id = m->made;
        next->id = -1;
        s->after = next->after;
        if (s->after >= 0)
            b->symbols[s->after].before = place;
        ok = merges_offer(ctx, b, s->before) && merges_offer(ctx, b, place);
    }
    if (!ok)
        return QKV_E_MEMORY;
    *count = 0;
    for (int32_t i = 0; i >= 0; i = b->symbols[i].after)
        id[(*count)++] = b->symbols[i].id;
    return QKV_OK;
}

/* ---- public -------------------------------------------------------------------------- */

qkv_status qkv__merges_add(qkv__merges *b, qkv_context *ctx, int32_t left, int32_t right,
                           int32_t made)
{
    if (!qkv__grow(ctx, &b->pairs, &b->pair_cap, b->count + 1, sizeof *b->pairs) ||
        !qkv__grow(ctx, &b->made, &b->made_cap, b->count + 1, sizeof *b->made))
        return QKV_E_MEMORY;
    b->pairs[b->count][0] = left;
    b->pairs[b->count][1] = right;
    b->made[b->count++] = made;
    return QKV_OK;
}

qkv_status qkv__merges_index(qkv__merges *b, qkv_context *ctx)
{
    size_t slots = 16;
    while (slots < 2 * b->count + 2)
        slots *= 2;
    b->table = qkv_malloc(ctx, slots * sizeof *b->table);
    if (!b->table)
        return QKV_E_MEMORY;
    b->mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        b->table[i] = (struct qkv__merge){UINT64_MAX, no_rank, -1};
    for (size_t rank = 0; rank < b->count; rank++) { /* of equal pairs the last one counts */
        int32_t left = b->pairs[rank][0], right = b->pairs[rank][1];
        struct qkv__merge *m = find_merge(b, left, right);
        m->pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
        m->rank = (uint32_t)rank;
        m->made = b->made[rank];
    }
    return QKV_OK;
}

qkv_status qkv__merges_join(qkv__merges *b, qkv_context *ctx, int32_t *ids, size_t *count)
{
    if (*count > SHORT_PIECE || b->drop > 0)
        return join_long(ctx, b, ids, count);
    join_short(b, ids, count);
    return QKV_OK;
}

void qkv__merges_free(qkv__merges *b, qkv_context *ctx)
{
    qkv_free(ctx, b->pairs);
    qkv_free(ctx, b->made);
    qkv_free(ctx, b->table);
    qkv_free(ctx, b->symbols);
    qkv_free(ctx, b->heap.entries);
}
