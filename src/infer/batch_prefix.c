/* batch_prefix.c - which slot a sequence gets, and whose keys and values it takes over: prompts
 * that begin with the same tokens have the same ones there. */
#include <string.h>

#include "infer/sequences.h"

enum { WORTH_WAITING = 16 }; /* tokens that another one will have read a step later */

/* The tokens that both begin with, as the model sees them: from position 0 on, at most `most`. */
static size_t batch_common(const qkv__sequence *a, const qkv__sequence *b, size_t most)
{
    size_t n = a->all.count - a->from, m = b->all.count - b->from, i = 0;
    most = n < most ? n : most;
    most = m < most ? m : most;
    const int32_t *x = a->all.data + a->from, *y = b->all.data + b->from;
    while (i < most && x[i] == y[i])
        i++;
    return i;
}

/* What a prompt may take over: as much as leaves a part that is read by the same path of attention
 * as all of it would be. A short prompt takes nothing. */
static size_t batch_shareable(const qkv__sequence *s)
{
    size_t n = s->all.count - s->from;
    return n > QKV_BATCH_FEW ? n - QKV_BATCH_FEW - 1 : 0;
}

/* The slot that holds most of the sequence's prompt, and how much of it; slot `without` does not
 * count. */
static size_t batch_best(const qkv_batch *b, const qkv__sequence *s, size_t without, size_t *slot)
{
    size_t best = 0, shareable = b->o.share ? batch_shareable(s) : 0;
    for (size_t i = 0; i < b->o.sequences; i++) {
        const qkv__sequence *other = &b->slots[i];
        size_t most = other->whole < shareable ? other->whole : shareable;
        size_t n = i == without || most <= best ? 0 : batch_common(s, other, most);
        if (n > best) {
            best = n;
            *slot = i;
        }
    }
    return best;
}

/* The free slot to take: the one with the best prefix, which then stays where it is; else the one
 * that ended first. o.sequences: none is free. */
static size_t batch_place(const qkv_batch *b, const qkv__sequence *s)
{
    size_t place = b->o.sequences, best = b->o.sequences;
    if (batch_best(b, s, b->o.sequences, &best) && !b->slots[best].live)
        return best;
    for (size_t i = 0; i < b->o.sequences; i++)
        if (!b->slots[i].live &&
            (place == b->o.sequences || b->slots[i].ended < b->slots[place].ended))
            place = i;
    return place;
}

/* The first that waits begins in slot i, with as much of what lies there as is its own. */
static void batch_begin(qkv_batch *b, size_t i)
{
    qkv__sequence s = b->waiting[0];
    b->waiting_count--;
    memmove(b->waiting, b->waiting + 1, b->waiting_count * sizeof *b->waiting);
    size_t shareable = b->o.share ? batch_shareable(&s) : 0, whole = b->slots[i].whole;
    s.held = s.whole = batch_common(&s, &b->slots[i], whole < shareable ? whole : shareable);
    s.live = true;
    b->stats.prompt_tokens += s.all.count - s.from;
    b->stats.shared_tokens += s.held;
    qkv__sequence_free(b->ctx, &b->slots[i]);
    b->slots[i] = s;
}

void qkv__batch_admit(qkv_batch *b)
{
    while (b->waiting_count) {
        size_t i = batch_place(b, &b->waiting[0]);
        if (i == b->o.sequences)
            return;
        batch_begin(b, i);
    }
}

/* Is another one, that came before, about to read more of what this one could share? */
static bool batch_is_ahead(const qkv_batch *b, const qkv__sequence *s)
{
    size_t shareable = batch_shareable(s);
    for (size_t i = 0; i < b->o.sequences; i++) {
        const qkv__sequence *other = &b->slots[i];
        bool reads = other->live && other->id < s->id && other->whole == other->held &&
                     qkv__sequence_fresh(other) > QKV_BATCH_FEW;
        size_t common = reads ? batch_common(s, other, shareable) : 0;
        if (common > other->whole && common >= s->held + WORTH_WAITING)
            return true;
    }
    return false;
}

bool qkv__batch_share(qkv_batch *b, size_t slot)
{
    qkv__sequence *s = &b->slots[slot];
    size_t from = slot;
    if (!b->o.share || s->whole != s->held || qkv__sequence_fresh(s) <= QKV_BATCH_FEW)
        return true;
    if (batch_is_ahead(b, s))
        return false;
    size_t n = batch_best(b, s, slot, &from);
    if (n > s->held && qkv_lm_cache_copy(b->tape, b->cache, slot, from, 0, n)) {
        b->stats.shared_tokens += n - s->held;
        s->held = s->whole = n;
    }
    return true;
}
