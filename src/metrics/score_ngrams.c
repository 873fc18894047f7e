/* score_ngrams.c - how many n-grams two lines have in common.
 *
 * An n-gram is known by the slot of its first n-1 symbols and its last symbol: equal n-grams get
 * equal slots without being compared symbol by symbol, and one of the hypothesis whose beginning
 * the reference lacks is never looked at again. */
#include <string.h>

#include "metrics/score.h"

typedef struct qkv__gram {
    uint64_t key; /* slot of the first n-1 symbols << 32 | the last symbol */
    uint64_t left; /* times in the reference that no n-gram of the hypothesis has taken */
} gram;

static const uint64_t FREE = UINT64_MAX; /* no key: slots are below 2^31 */
static const uint32_t NONE = UINT32_MAX; /* an n-gram that the reference lacks */

static uint64_t key_of(uint32_t beginning, int32_t symbol)
{
    return (uint64_t)beginning << 32 | (uint32_t)symbol;
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t find(const gram *slots, size_t mask, uint64_t key)
{
    size_t i = (size_t)qkv__mix(key) & mask;
    while (slots[i].key != key && slots[i].key != FREE)
        i = (i + 1) & mask;
    return (uint32_t)i;
}

static void insert_ref(qkv__overlap *o, size_t mask, const qkv_ids *ref, size_t n)
{
    for (size_t i = 0; i + n <= ref->count; i++) {
        uint64_t key = key_of(o->ref[i], ref->data[i + n - 1]);
        uint32_t slot = find(o->slots, mask, key);
        if (o->slots[slot].key == FREE)
            o->slots[slot] = (gram){.key = key};
        o->slots[slot].left++;
        o->ref[i] = slot;
    }
}

static size_t take_hyp(qkv__overlap *o, size_t mask, const qkv_ids *hyp, size_t n)
{
    size_t matches = 0;
    for (size_t i = 0; i + n <= hyp->count; i++) {
        int32_t symbol = hyp->data[i + n - 1];
        if (o->hyp[i] == NONE)
            continue;
        uint32_t slot = symbol < 0 ? NONE : find(o->slots, mask, key_of(o->hyp[i], symbol));
        if (slot != NONE && o->slots[slot].key == FREE)
            slot = NONE;
        o->hyp[i] = slot;
        if (slot == NONE || o->slots[slot].left == 0)
            continue;
        o->slots[slot].left--;
        matches++;
    }
    return matches;
}

qkv_status qkv__overlap_count(qkv__overlap *o, qkv_context *ctx, const qkv_ids *hyp,
                              const qkv_ids *ref, size_t orders, size_t *matches)
{
    size_t slots = 16;
    while (slots < 2 * ref->count)
        slots *= 2;
    if (!qkv__grow(ctx, &o->slots, &o->slot_cap, slots, sizeof *o->slots) ||
        !qkv__grow(ctx, &o->hyp, &o->hyp_cap, hyp->count, sizeof *o->hyp) ||
        !qkv__grow(ctx, &o->ref, &o->ref_cap, ref->count, sizeof *o->ref))
        return QKV_E_MEMORY;
    /* All n-grams begin with the same nothing. */
    if (hyp->count)
        memset(o->hyp, 0, hyp->count * sizeof *o->hyp);
    if (ref->count)
        memset(o->ref, 0, ref->count * sizeof *o->ref);
    for (size_t n = 1; n <= orders; n++) {
        matches[n - 1] = 0;
        if (n > hyp->count || n > ref->count)
            continue;
        memset(o->slots, 0xff, slots * sizeof *o->slots);
        insert_ref(o, slots - 1, ref, n);
        matches[n - 1] = take_hyp(o, slots - 1, hyp, n);
    }
    return QKV_OK;
}

void qkv__overlap_free(qkv__overlap *o, qkv_context *ctx)
{
    qkv_free(ctx, o->slots);
    qkv_free(ctx, o->hyp);
    qkv_free(ctx, o->ref);
    *o = (qkv__overlap){0};
}
