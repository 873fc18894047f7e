/* spm_bpe.c - SentencePiece's BPE: of two neighbouring symbols that together are a
 * piece those of highest score are joined first, the leftmost of equals. There is no list of
 * merges: any two symbols will do. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/heap.h"
#include "tokenizer/models.h"

typedef struct {
    size_t start, len; /* len 0: joined into another */
    int32_t before, after;
    bool fixed; /* a piece of the user: it stays as it is */
} symbol;

typedef struct {
    const qkv__spm *spm;
    const int32_t *to_id; /* a piece's id in t->vocab; NULL: the same */
    uint32_t *split;      /* by piece: bytes of its left part when it was last made */
    symbol *symbols;
    size_t symbol_cap;
    qkv__heap heap; /* pairs: right << 32 | bytes of both, by score and left */
} spm_bpe;

/* Smaller for higher scores, among equal ones for what is further left. Bits of floats, read as
 * integers, grow with their distance from 0. */
static uint64_t spm_bpe_key_of(float score, int32_t left)
{
    uint32_t bits;
    score += 0.0F; /* not -0 */
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? bits : ~bits & INT32_MAX;
    return (uint64_t)bits << 32 | (uint32_t)left;
}

/* The piece, if it may be made of others; else -1. */
static int32_t spm_bpe_joined(const qkv__spm *m, const char *s, size_t len)
{
    int32_t id = qkv__vocab_find(&m->pieces, s, len);
    if (id < 0)
        return -1;
    int type = m->info[id].type;
    bool may = type == QKV__PIECE_NORMAL || type == QKV__PIECE_USER || type == QKV__PIECE_UNUSED;
    return may ? id : -1;
}

/* Puts two neighbours on the heap if they are a piece. */
static bool spm_bpe_offer(qkv_tokenizer *t, const char *s, int32_t left, int32_t right)
{
    spm_bpe *b = t->model;
    if (left < 0 || right < 0 || b->symbols[left].fixed || b->symbols[right].fixed)
        return true;
    const symbol *l = &b->symbols[left];
    size_t len = l->len + b->symbols[right].len;
    int32_t id = spm_bpe_joined(b->spm, s + l->start, len);
    if (id < 0)
        return true;
    b->split[id] = (uint32_t)l->len;
    return qkv__heap_push(&b->heap, t->ctx, spm_bpe_key_of(b->spm->info[id].score, left),
                          (uint64_t)right << 32 | len);
}

static size_t cut_symbols(qkv_tokenizer *t, const char *s, size_t len)
{
    spm_bpe *b = t->model;
    size_t count = 0;
    for (size_t at = 0, n; at < len; at += n) {
        int32_t cp, value;
        n = qkv__trie_longest(&b->spm->fixed, s + at, len - at, &value);
        bool fixed = n > 0;
        if (!fixed)
            n = qkv__utf8_next(s + at, len - at, &cp);
        b->symbols[count] = (symbol){at, n, (int32_t)count - 1, (int32_t)count + 1, fixed};
        count++;
    }
    b->symbols[count - 1].after = -1;
    return count;
}

static bool join(qkv_tokenizer *t, const char *s, size_t count)
{
    spm_bpe *b = t->model;
    bool ok = true;
    b->heap.count = 0;
    for (size_t i = 1; i < count && ok; i++)
        ok = spm_bpe_offer(t, s, (int32_t)i - 1, (int32_t)i);
    while (b->heap.count && ok) {
        qkv__heap_entry top = qkv__heap_pop(&b->heap);
        int32_t left = (int32_t)(uint32_t)top.key;
        size_t len = (uint32_t)top.value;
        symbol *l = &b->symbols[left], *r = &b->symbols[top.value >> 32];
        if (!l->len || !r->len || l->len + r->len != len)
            continue; /* an older pair */
        if (t->sampling.amount > 0 && qkv_rng_uniform(&t->sampling.rng) < t->sampling.amount)
            continue; /* dropped (Provilkov et al. 2020) */
        l->len = len;
        l->after = r->after;
        r->len = 0;
        if (l->after >= 0)
            b->symbols[l->after].before = left;
        ok = spm_bpe_offer(t, s, l->before, left) && spm_bpe_offer(t, s, left, l->after);
    }
    return ok;
}

/* Appends a piece; one that is not to be used falls into the two it was made of. *unknown: what
 * came before was unknown. */
static qkv_status put_piece(qkv_tokenizer *t, const char *s, size_t len, bool *unknown,
                            qkv_ids *out)
{
    const spm_bpe *b = t->model;
    const qkv__spm *m = b->spm;
    int32_t id = spm_bpe_joined(m, s, len);
    qkv_status status;
    if (id >= 0 && m->info[id].type == QKV__PIECE_UNUSED && b->split[id] > 0 &&
        b->split[id] < len) {
        status = put_piece(t, s, b->split[id], unknown, out);
        return status ? status
                      : put_piece(t, s + b->split[id], len - b->split[id], unknown, out);
    }
    for (size_t i = 0; id < 0 && m->byte_fallback && i < len; i++) {
        int32_t piece = qkv__fallback_find(&m->pieces, s[i]);
        piece = piece < 0 ? m->unk : piece;
        if (!qkv__ids_push(t->ctx, out, b->to_id ? b->to_id[piece] : piece))
            return QKV_E_MEMORY;
    }
    bool fresh = id >= 0 || (!m->byte_fallback && !*unknown);
    *unknown = id < 0;
    id = id < 0 ? m->unk : id;
    if (fresh && !qkv__ids_push(t->ctx, out, b->to_id ? b->to_id[id] : id))
        return QKV_E_MEMORY;
    return QKV_OK;
}

static qkv_status spm_bpe_encode(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out)
{
    spm_bpe *b = t->model;
    bool unknown = false;
    qkv_status status = QKV_OK;
    if (len >= INT32_MAX)
        return qkv_fail(t->ctx, QKV_E_UNSUPPORTED, "a text of %zu bytes: at most %d", len,
                        INT32_MAX - 1);
    if (!qkv__grow(t->ctx, &b->symbols, &b->symbol_cap, len + 1, sizeof *b->symbols) ||
        !join(t, piece, cut_symbols(t, piece, len)))
        return QKV_E_MEMORY;
    for (int32_t i = 0; i >= 0 && !status; i = b->symbols[i].after)
        status = put_piece(t, piece + b->symbols[i].start, b->symbols[i].len, &unknown, out);
    return status;
}

qkv_status qkv__spm_bpe_from_spm(qkv_tokenizer *t, const qkv__spm *m, const int32_t *to_id)
{
    spm_bpe *b = qkv_calloc(t->ctx, 1, sizeof *b);
    if (!b)
        return QKV_E_MEMORY;
    t->kind = &qkv__model_spm_bpe;
    t->model = b;
    b->spm = m;
    b->to_id = to_id;
    b->split = qkv_calloc(t->ctx, m->pieces.count + 1, sizeof *b->split);
    return b->split ? QKV_OK : QKV_E_MEMORY;
}

static void spm_bpe_destroy(qkv_tokenizer *t)
{
    spm_bpe *b = t->model;
    qkv_free(t->ctx, b->split);
    qkv_free(t->ctx, b->symbols);
    qkv_free(t->ctx, b->heap.entries);
    qkv_free(t->ctx, b);
}

/* Not a model of tokenizer.json: read is NULL. */
const qkv__model_kind qkv__model_spm_bpe = {"SentencePieceBPE", false, true, 1, NULL,
                                            spm_bpe_encode,             NULL,  spm_bpe_destroy};
