/* train_bpe.c - merges from counted words: the most frequent pair is joined in all
 * words, again and again.
 *
 * A heap holds pairs under counts that may be out of date, and then too high: what comes up is
 * corrected and put back, so that the top is always the true maximum (the scheme, and the
 * order among equals, of Hugging Face's trainer). */
#include "tokenizer/trainers.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/heap.h"

static const uint32_t none = UINT32_MAX;

/* A pair of adjacent symbols, and the words it came up in. */
typedef struct {
    uint64_t pair;  /* left << 32 | right */
    int64_t count;  /* of its places in the text */
    uint32_t first; /* place in the list of words; none: empty */
    bool touched;   /* waits to be put on the heap */
} pair_count;

typedef struct {
    uint32_t word, next;
} occurrence;

typedef struct {
    size_t start;
    uint32_t len;
} word_span;

/* Joining at work. */
typedef struct {
    qkv_context *ctx;
    const qkv__bpe_training *how;
    qkv_ids symbols; /* of all words, one after another */
    word_span *words;
    const int64_t *word_counts;
    pair_count *pairs;
    size_t pair_count, pair_cap;
    uint32_t *slots; /* pair index + 1, by hash of the pair; 0: free */
    size_t slot_count;
    occurrence *occurrences;
    size_t occurrence_count, occurrence_cap;
    qkv__heap heap; /* pairs, negated counts for keys: as they were when put here */
    uint32_t *touched;
    size_t touched_count, touched_cap;
} joiner;

/* ---- pairs --------------------------------------------------------------------------- */

static uint32_t *train_bpe_slot_of(const joiner *j, uint64_t pair)
{
    size_t mask = j->slot_count - 1;
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    for (size_t i = (size_t)(h ^ h >> 32) & mask;; i = (i + 1) & mask)
        if (j->slots[i] == 0 || j->pairs[j->slots[i] - 1].pair == pair)
            return &j->slots[i];
}

static bool train_bpe_widen(joiner *j)
{
    size_t count = j->slot_count ? 2 * j->slot_count : 1 << 14;
    uint32_t *slots = qkv_calloc(j->ctx, count, sizeof *slots);
    if (!slots)
        return false;
    qkv_free(j->ctx, j->slots);
    j->slots = slots;
    j->slot_count = count;
    for (size_t i = 0; i < j->pair_count; i++)
        *train_bpe_slot_of(j, j->pairs[i].pair) = (uint32_t)i + 1;
    return true;
}

/* The pair's index, made when it is new; none when memory is out. */
static uint32_t pair_index(joiner *j, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    if (2 * (j->pair_count + 1) > j->slot_count && !train_bpe_widen(j))
        return none;
    uint32_t *slot = train_bpe_slot_of(j, pair);
    if (*slot)
        return *slot - 1;
    if (!qkv__grow(j->ctx, &j->pairs, &j->pair_cap, j->pair_count + 1, sizeof *j->pairs))
        return none;
    j->pairs[j->pair_count++] = (pair_count){.pair = pair, .first = none};
    *slot = (uint32_t)j->pair_count;
    return *slot - 1;
}

/* One more place of the pair in a word. */
static bool add_place(joiner *j, int32_t left, int32_t right, uint32_t word)
{
    uint32_t p = pair_index(j, left, right);
    if (p == none || !qkv__grow(j->ctx, &j->touched, &j->touched_cap, j->touched_count + 1,
                                sizeof *j->touched) ||
        !qkv__grow(j->ctx, &j->occurrences, &j->occurrence_cap, j->occurrence_count + 1,
                   sizeof *j->occurrences))
        return false;
    pair_count *pair = &j->pairs[p];
    pair->count += j->word_counts[word];
    if (!pair->touched)
        j->touched[j->touched_count++] = p;
    pair->touched = true;
    if (pair->first != none && j->occurrences[pair->first].word == word)
        return true;
    j->occurrences[j->occurrence_count] = (occurrence){word, pair->first};
    pair->first = (uint32_t)j->occurrence_count++;
    return true;
}

static void remove_place(joiner *j, int32_t left, int32_t right, uint32_t word)
{
    uint32_t *slot = train_bpe_slot_of(j, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    if (*slot)
        j->pairs[*slot - 1].count -= j->word_counts[word];
}

/* ---- heap: greatest count first, then the smaller pair ------------------------------- */

static bool train_bpe_push(joiner *j, const pair_count *p)
{
    return qkv__heap_push(&j->heap, j->ctx, (uint64_t)-p->count, p->pair);
}

static bool push_touched(joiner *j)
{
    bool ok = true;
    for (size_t i = 0; i < j->touched_count && ok; i++) {
        pair_count *pair = &j->pairs[j->touched[i]];
        pair->touched = false;
        ok = pair->count <= 0 || train_bpe_push(j, pair);
    }
    j->touched_count = 0;
    return ok;
}

/* ---- joining ------------------------------------------------------------------------- */

/* Joins the pair in one word, left to right; counts of the neighbouring pairs follow. */
static bool join_in_word(joiner *j, uint32_t word, int32_t left, int32_t right, int32_t made)
{
    word_span *w = &j->words[word];
    int32_t *s = j->symbols.data + w->start;
    uint32_t out = 0;
    bool ok = true;
    for (uint32_t i = 0; i < w->len; i++) {
        if (i + 1 == w->len || s[i] != left || s[i + 1] != right) {
            s[out++] = s[i];
            continue;
        }
        if (out > 0) {
            remove_place(j, s[out - 1], left, word);
            ok = ok && add_place(j, s[out - 1], made, word);
        }
        if (i + 2 < w->len) {
            remove_place(j, right, s[i + 2], word);
            ok = ok && add_place(j, made, s[i + 2], word);
        }
        s[out++] = made;
        i++;
    }
    w->len = out;
    return ok;
}

/* The most frequent pair; none when there is none often enough. *ok: memory lasted. */
static uint32_t best_pair(joiner *j, size_t min_count, bool *ok)
{
    while (j->heap.count && *ok) {
        qkv__heap_entry top = qkv__heap_pop(&j->heap);
        uint32_t pair = *train_bpe_slot_of(j, top.value) - 1;
        int64_t count = j->pairs[pair].count;
        if ((uint64_t)-count == top.key)
            return count >= 1 && (uint64_t)count >= min_count ? pair : none;
        if (count > 0)
            *ok = train_bpe_push(j, &j->pairs[pair]);
    }
    return none;
}

/* Adds the token "left right" to the vocabulary, or finds it there; right loses the prefix of
 * what continues a word. -1: memory. */
static int32_t join_tokens(qkv__vocab *v, int32_t left, int32_t right, const char *prefix)
{
    size_t n, skip = strlen(prefix);
    qkv_str text;
    qkv_str_init(&text, v->ctx);
    const char *part = qkv__vocab_text(v, left, &n);
    qkv_str_add(&text, part, n);
    part = qkv__vocab_text(v, right, &n);
    skip = n >= skip && memcmp(part, prefix, skip) == 0 ? skip : 0;
    qkv_str_add(&text, part + skip, n - skip);
    int32_t id = text.failed ? -1 : qkv__vocab_find(v, text.data, text.len);
    if (!text.failed && id < 0 &&
        qkv__vocab_add(v, text.data, text.len, (int32_t)v->count) == QKV_OK)
        id = (int32_t)v->count - 1;
    qkv_str_free(&text);
    return id;
}

static qkv_status join_all(joiner *j, qkv__vocab *v, qkv_ids *merges)
{
    bool ok = push_touched(j);
    while (ok && v->count < j->how->vocab) {
        uint32_t p = best_pair(j, j->how->min_count, &ok);
        if (p == none)
            break;
        int32_t left = (int32_t)(j->pairs[p].pair >> 32);
        int32_t right = (int32_t)(uint32_t)j->pairs[p].pair;
        int32_t made = join_tokens(v, left, right, j->how->prefix);
        if (made < 0 || !qkv__ids_push(j->ctx, merges, left) ||
            !qkv__ids_push(j->ctx, merges, right))
            return QKV_E_MEMORY;
        for (uint32_t o = j->pairs[p].first; o != none && ok; o = j->occurrences[o].next)
            ok = join_in_word(j, j->occurrences[o].word, left, right, made);
        ok = ok && push_touched(j);
    }
    return ok ? QKV_OK : QKV_E_MEMORY;
}

/* The symbol of a character, or of a byte where the tokens are bytes; -1: it is left out. What
 * continues a word is a symbol of its own, made when it first comes. */
static qkv_status symbol_of(qkv__vocab *v, const qkv__bpe_training *how, const char *s, size_t len,
                            bool inside, int32_t *id)
{
    char c[4];
    if (how->bytes) {
        *id = qkv__vocab_find(v, c, qkv__utf8_put(c, qkv__byte_char((uint8_t)*s)));
        return QKV_OK;
    }
    *id = qkv__vocab_find(v, s, len);
    if (*id < 0 || !inside || !*how->prefix)
        return QKV_OK;
    qkv_str whole;
    qkv_str_init(&whole, v->ctx);
    qkv_str_puts(&whole, how->prefix);
    qkv_str_add(&whole, s, len);
    qkv_status status = whole.failed ? QKV_E_MEMORY : QKV_OK;
    *id = status ? -1 : qkv__vocab_find(v, whole.data, whole.len);
    if (!status && *id < 0) {
        *id = (int32_t)v->count;
        status = qkv__vocab_add(v, whole.data, whole.len, *id);
    }
    qkv_str_free(&whole);
    return status;
}

/* Words as symbols, and the first counts of pairs. */
static qkv_status joiner_init(joiner *j, qkv_context *ctx, qkv__vocab *v, const qkv__vocab *words,
                              const int64_t *counts, const qkv__bpe_training *how)
{
    *j = (joiner){.ctx = ctx, .word_counts = counts, .how = how};
    j->words = qkv_malloc(j->ctx, (words->count + 1) * sizeof *j->words);
    if (!j->words || !qkv__ids_reserve(j->ctx, &j->symbols, words->text_len + 1))
        return QKV_E_MEMORY;
    for (size_t i = 0; i < words->count; i++) {
        size_t len, start = j->symbols.count;
        const char *text = qkv__vocab_text(words, (int32_t)i, &len);
        for (size_t k = 0, n; k < len; k += n) {
            int32_t cp, id = -1;
            n = how->bytes ? 1 : qkv__utf8_next(text + k, len - k, &cp);
            if (symbol_of(v, how, text + k, n, k > 0, &id))
                return QKV_E_MEMORY;
            if (id >= 0)
                j->symbols.data[j->symbols.count++] = id;
        }
        size_t count = j->symbols.count - start;
        const int32_t *s = j->symbols.data + start;
        j->words[i] = (word_span){start, (uint32_t)count};
        for (size_t k = 0; k + 1 < count; k++)
            if (!add_place(j, s[k], s[k + 1], (uint32_t)i))
                return QKV_E_MEMORY;
    }
    return QKV_OK;
}

static void joiner_free(joiner *j)
{
    qkv_ids_free(&j->symbols, j->ctx);
    qkv_free(j->ctx, j->words);
    qkv_free(j->ctx, j->pairs);
    qkv_free(j->ctx, j->slots);
    qkv_free(j->ctx, j->occurrences);
    qkv_free(j->ctx, j->heap.entries);
    qkv_free(j->ctx, j->touched);
}

qkv_status qkv__train_bpe(qkv_context *ctx, qkv__vocab *tokens, const qkv__vocab *words,
                          const int64_t *counts, const qkv__bpe_training *how, qkv_ids *merges)
{
    joiner j;
    qkv_status status = joiner_init(&j, ctx, tokens, words, counts, how);
    if (!status)
        status = join_all(&j, tokens, merges);
    joiner_free(&j);
    return status;
}
