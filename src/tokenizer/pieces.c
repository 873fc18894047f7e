/* pieces.c - the ids of pieces seen before. Pieces repeat: with this most of
 * encoding is look-ups, whatever the model does. */
#include "tokenizer/pieces.h"

#include <string.h>

enum { KEPT_MOST = 1 << 17 }; /* pieces kept; then all are forgotten */

struct qkv__kept {
    uint64_t hash;
    size_t key, ids;     /* where they start */
    uint16_t len, count; /* count 0: free slot */
};

static uint64_t hash_piece(const char *s, size_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15u, w;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&w, s, 8);
        h = qkv__mix(h ^ w) * 0xff51afd7ed558ccdu;
    }
    w = 0;
    for (size_t i = 0; i < len; i++)
        w = w << 8 | (unsigned char)s[i];
    return qkv__mix(qkv__mix(h ^ w) * 0xff51afd7ed558ccdu);
}

/* The piece's slot, or the free one where it would go. */
static struct qkv__kept *pieces_slot_of(const qkv__pieces *p, const char *piece, size_t len,
                                        uint64_t hash)
{
    size_t mask = p->slot_count - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct qkv__kept *k = &p->slots[i];
        if (k->count == 0 || (k->hash == hash && k->len == len &&
                              memcmp(p->keys.data + k->key, piece, len) == 0))
            return k;
    }
}

/* Room for one more. */
static bool pieces_make_room(qkv__pieces *p, qkv_context *ctx)
{
    if (2 * (p->used + 1) <= p->slot_count)
        return true;
    if (p->used >= KEPT_MOST) {
        memset(p->slots, 0, p->slot_count * sizeof *p->slots);
        p->used = p->keys.len = p->ids.count = 0;
        return true;
    }
    size_t count = p->slot_count ? 2 * p->slot_count : 1024;
    struct qkv__kept *slots = qkv_calloc(ctx, count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < p->slot_count; i++) {
        size_t at = (size_t)p->slots[i].hash & (count - 1);
        if (p->slots[i].count == 0)
            continue;
        while (slots[at].count)
            at = (at + 1) & (count - 1);
        slots[at] = p->slots[i];
    }
    qkv_free(ctx, p->slots);
    p->slots = slots;
    p->slot_count = count;
    return true;
}

const int32_t *qkv__pieces_find(const qkv__pieces *p, const char *piece, size_t len,
                                size_t *count)
{
    if (p->slot_count == 0 || len > QKV__PIECE_KEPT)
        return NULL;
    const struct qkv__kept *k = pieces_slot_of(p, piece, len, hash_piece(piece, len));
    *count = k->count;
    return k->count ? p->ids.data + k->ids : NULL;
}

qkv_status qkv__pieces_keep(qkv__pieces *p, qkv_context *ctx, const char *piece, size_t len,
                            const int32_t *ids, size_t count)
{
    if (len > QKV__PIECE_KEPT || count == 0 || count > UINT16_MAX)
        return QKV_OK;
    if (!pieces_make_room(p, ctx) || !qkv__ids_reserve(ctx, &p->ids, count))
        return QKV_E_MEMORY;
    const struct qkv__kept k = {hash_piece(piece, len), p->keys.len, p->ids.count, (uint16_t)len,
                                (uint16_t)count};
    if (!qkv__text_add(ctx, &p->keys, piece, len))
        return QKV_E_MEMORY;
    memcpy(p->ids.data + p->ids.count, ids, count * sizeof *ids);
    p->ids.count += count;
    *pieces_slot_of(p, piece, len, k.hash) = k;
    p->used++;
    return QKV_OK;
}

void qkv__pieces_free(qkv__pieces *p, qkv_context *ctx)
{
    qkv_free(ctx, p->slots);
    qkv_text_free(&p->keys, ctx);
    qkv_ids_free(&p->ids, ctx);
}
