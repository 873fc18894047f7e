/* vocab.c - texts by id and ids by text. */
#include <string.h>

#include "base/vocab.h"

void qkv__vocab_init(qkv__vocab *v, qkv_context *ctx)
{
    *v = (qkv__vocab){.ctx = ctx};
}

void qkv__vocab_free(qkv__vocab *v)
{
    qkv_free(v->ctx, v->text);
    qkv_free(v->ctx, v->tokens);
    qkv_free(v->ctx, v->slots);
    qkv__vocab_init(v, v->ctx);
}

/* The slot that holds the text, or the free one where it would go. */
static uint32_t *vocab_slot_of(const qkv__vocab *v, const char *text, size_t len)
{
    size_t mask = v->slot_count - 1, i = (size_t)qkv_hash64(text, len) & mask;
    for (;; i = (i + 1) & mask) {
        uint32_t id = v->slots[i];
        if (id == 0)
            return &v->slots[i];
        const struct qkv__token *t = &v->tokens[id - 1];
        if (t->len == len && (len == 0 || memcmp(v->text + t->start, text, len) == 0))
            return &v->slots[i];
    }
}

static bool vocab_widen(qkv__vocab *v)
{
    size_t count = v->slot_count ? v->slot_count * 2 : 1024;
    uint32_t *slots = qkv_calloc(v->ctx, count, sizeof *slots);
    if (!slots)
        return false;
    qkv_free(v->ctx, v->slots);
    v->slots = slots;
    v->slot_count = count;
    for (size_t id = 0; id < v->count; id++)
        if (v->tokens[id].used)
            *vocab_slot_of(v, v->text + v->tokens[id].start, v->tokens[id].len) = (uint32_t)id + 1;
    return true;
}

qkv_status qkv__vocab_add(qkv__vocab *v, const char *text, size_t len, int32_t id)
{
    size_t at = (size_t)id;
    if (2 * (v->used + 1) > v->slot_count && !vocab_widen(v))
        return QKV_E_MEMORY;
    if (!qkv__grow(v->ctx, &v->tokens, &v->token_cap, at + 1, sizeof *v->tokens) ||
        !qkv__grow(v->ctx, &v->text, &v->text_cap, v->text_len + len + 1, 1))
        return QKV_E_MEMORY;
    if (at >= v->count) {
        memset(v->tokens + v->count, 0, (at + 1 - v->count) * sizeof *v->tokens);
        v->count = at + 1;
    }
    if (len)
        memcpy(v->text + v->text_len, text, len);
    v->text[v->text_len + len] = 0;
    v->tokens[at] = (struct qkv__token){v->text_len, (uint32_t)len, true};
    v->text_len += len + 1;
    v->used++;
    *vocab_slot_of(v, text, len) = (uint32_t)at + 1;
    return QKV_OK;
}

int32_t qkv__vocab_find(const qkv__vocab *v, const char *text, size_t len)
{
    return v->slot_count ? (int32_t)*vocab_slot_of(v, text, len) - 1 : -1;
}

const char *qkv__vocab_text(const qkv__vocab *v, int32_t id, size_t *len)
{
    if (id < 0 || (size_t)id >= v->count || !v->tokens[id].used)
        return NULL;
    *len = v->tokens[id].len;
    return v->text + v->tokens[id].start;
}
