/* tokenizer_train.c - vocabularies from text: characters, and byte-level BPE.
 *
 * BPE counts distinct pieces once, then joins the most frequent pair in all of them, again and
 * again. A heap holds pairs under counts that may be out of date (too high): what comes up is
 * corrected and put back, so that the top is always the true maximum (the scheme, and the
 * order among equals, of Hugging Face's trainer). */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer.h"
#include "io/file.h"

enum { CODE_POINTS = 0x110000 };

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
    int64_t count; /* as it was when put here */
    uint32_t pair;
} heap_entry;

typedef struct {
    size_t start;
    uint32_t len;
} word_span;

/* Joining at work. */
typedef struct {
    qkv_context *ctx;
    qkv_ids symbols; /* of all words, one after another */
    word_span *words;
    const int64_t *word_counts;
    size_t word_count;
    pair_count *pairs;
    size_t pair_count, pair_cap;
    uint32_t *slots; /* pair index + 1, by hash of the pair; 0: free */
    size_t slot_count;
    occurrence *occurrences;
    size_t occurrence_count, occurrence_cap;
    heap_entry *heap;
    size_t heap_count, heap_cap;
    uint32_t *touched;
    size_t touched_count, touched_cap;
    int32_t (*merges)[2];
    size_t merge_count, merge_cap;
} joiner;

struct qkv_tokenizer_trainer {
    qkv_context *ctx;
    qkv_tokenizer_options options; /* special: copies */
    uint8_t *seen;                 /* CHAR: a bit per code point */
    qkv__vocab words;              /* BPE: distinct pieces, ids in order of coming */
    int64_t *counts;               /* BPE: by word */
    size_t count_cap;
    size_t text_bytes;
};

/* ---- pairs ------------------------------------------------------------------------------------ */

static uint32_t *slot_of(const joiner *j, uint64_t pair)
{
    size_t mask = j->slot_count - 1;
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    for (size_t i = (size_t)(h ^ h >> 32) & mask;; i = (i + 1) & mask)
        if (j->slots[i] == 0 || j->pairs[j->slots[i] - 1].pair == pair)
            return &j->slots[i];
}

static bool widen(joiner *j)
{
    size_t count = j->slot_count ? 2 * j->slot_count : 1 << 14;
    uint32_t *slots = qkv__calloc(j->ctx, count, sizeof *slots);
    if (!slots)
        return false;
    qkv__free(j->ctx, j->slots);
    j->slots = slots;
    j->slot_count = count;
    for (size_t i = 0; i < j->pair_count; i++)
        *slot_of(j, j->pairs[i].pair) = (uint32_t)i + 1;
    return true;
}

/* The pair's index, made when it is new; none when memory is out. */
static uint32_t pair_index(joiner *j, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    if (2 * (j->pair_count + 1) > j->slot_count && !widen(j))
        return none;
    uint32_t *slot = slot_of(j, pair);
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
    uint32_t *slot = slot_of(j, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    if (*slot)
        j->pairs[*slot - 1].count -= j->word_counts[word];
}

/* ---- heap: greatest count first, then the smaller pair ---------------------------------------- */

static bool above(const joiner *j, heap_entry a, heap_entry b)
{
    if (a.count != b.count)
        return a.count > b.count;
    return j->pairs[a.pair].pair < j->pairs[b.pair].pair;
}

static bool push(joiner *j, uint32_t pair)
{
    const heap_entry e = {j->pairs[pair].count, pair};
    if (!qkv__grow(j->ctx, &j->heap, &j->heap_cap, j->heap_count + 1, sizeof *j->heap))
        return false;
    size_t i = j->heap_count++;
    for (; i > 0 && above(j, e, j->heap[(i - 1) / 2]); i = (i - 1) / 2)
        j->heap[i] = j->heap[(i - 1) / 2];
    j->heap[i] = e;
    return true;
}

static heap_entry pop(joiner *j)
{
    heap_entry top = j->heap[0], e = j->heap[--j->heap_count];
    size_t i = 0, n = j->heap_count;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && above(j, j->heap[child + 1], j->heap[child]))
            child++;
        if (!above(j, j->heap[child], e))
            break;
        j->heap[i] = j->heap[child];
        i = child;
    }
    j->heap[i] = e;
    return top;
}

static bool push_touched(joiner *j)
{
    bool ok = true;
    for (size_t i = 0; i < j->touched_count && ok; i++) {
        pair_count *pair = &j->pairs[j->touched[i]];
        pair->touched = false;
        ok = pair->count <= 0 || push(j, j->touched[i]);
    }
    j->touched_count = 0;
    return ok;
}

/* ---- joining ----------------------------------------------------------------------------------- */

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
    while (j->heap_count && *ok) {
        heap_entry top = pop(j);
        int64_t count = j->pairs[top.pair].count;
        if (count == top.count)
            return count >= 1 && (uint64_t)count >= min_count ? top.pair : none;
        if (count > 0)
            *ok = push(j, top.pair);
    }
    return none;
}

/* Adds the token "left right" to the vocabulary, or finds it there; -1: memory. */
static int32_t join_tokens(qkv__vocab *v, int32_t left, int32_t right)
{
    size_t n;
    qkv__str text;
    qkv__str_init(&text, v->ctx);
    const char *part = qkv__vocab_text(v, left, &n);
    qkv__str_add(&text, part, n);
    part = qkv__vocab_text(v, right, &n);
    qkv__str_add(&text, part, n);
    int32_t id = text.failed ? -1 : qkv__vocab_find(v, text.data, text.len);
    if (!text.failed && id < 0 &&
        qkv__vocab_add(v, text.data, text.len, (int32_t)v->count) == QKV_OK)
        id = (int32_t)v->count - 1;
    qkv__str_free(&text);
    return id;
}

static qkv_status join_all(joiner *j, qkv__vocab *v, size_t vocab, size_t min_count)
{
    bool ok = push_touched(j);
    while (ok && v->count < vocab) {
        uint32_t p = best_pair(j, min_count, &ok);
        if (p == none)
            break;
        int32_t left = (int32_t)(j->pairs[p].pair >> 32);
        int32_t right = (int32_t)(uint32_t)j->pairs[p].pair;
        int32_t made = join_tokens(v, left, right);
        if (made < 0 || !qkv__grow(j->ctx, &j->merges, &j->merge_cap, j->merge_count + 1,
                                   sizeof *j->merges))
            return QKV_E_MEMORY;
        j->merges[j->merge_count][0] = left;
        j->merges[j->merge_count++][1] = right;
        for (uint32_t o = j->pairs[p].first; o != none && ok; o = j->occurrences[o].next)
            ok = join_in_word(j, j->occurrences[o].word, left, right, made);
        ok = ok && push_touched(j);
    }
    return ok ? QKV_OK : QKV_E_MEMORY;
}

/* Words as symbols, and the first counts of pairs. base: the id of byte 0's place in sorted
 * order is found through the vocabulary. */
static qkv_status joiner_init(joiner *j, const qkv_tokenizer_trainer *tr, const qkv__vocab *v)
{
    int32_t byte_id[256];
    *j = (joiner){.ctx = tr->ctx, .word_counts = tr->counts, .word_count = tr->words.count};
    for (int i = 0; i < 256; i++) {
        char c[4];
        size_t n = qkv__utf8_put(c, qkv__byte_char((uint8_t)i));
        byte_id[i] = qkv__vocab_find(v, c, n);
    }
    j->words = qkv__malloc(j->ctx, (j->word_count + 1) * sizeof *j->words);
    if (!j->words || !qkv__ids_reserve(j->ctx, &j->symbols, tr->words.text_len + 1))
        return QKV_E_MEMORY;
    for (size_t i = 0; i < j->word_count; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&tr->words, (int32_t)i, &len);
        int32_t *s = j->symbols.data + j->symbols.count;
        j->words[i] = (word_span){j->symbols.count, (uint32_t)len};
        j->symbols.count += len;
        for (size_t k = 0; k < len; k++)
            s[k] = byte_id[(unsigned char)text[k]];
        for (size_t k = 0; k + 1 < len; k++)
            if (!add_place(j, s[k], s[k + 1], (uint32_t)i))
                return QKV_E_MEMORY;
    }
    return QKV_OK;
}

static void joiner_free(joiner *j)
{
    qkv_ids_free(j->ctx, &j->symbols);
    qkv__free(j->ctx, j->words);
    qkv__free(j->ctx, j->pairs);
    qkv__free(j->ctx, j->slots);
    qkv__free(j->ctx, j->occurrences);
    qkv__free(j->ctx, j->heap);
    qkv__free(j->ctx, j->touched);
    qkv__free(j->ctx, j->merges);
}

/* ---- vocabularies -------------------------------------------------------------------------------- */

static qkv_status add_token(qkv__vocab *v, const char *text, size_t len)
{
    if (qkv__vocab_find(v, text, len) >= 0)
        return QKV_OK;
    return qkv__vocab_add(v, text, len, (int32_t)v->count);
}

static qkv_status add_specials(const qkv_tokenizer_trainer *tr, qkv__vocab *v)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++)
        if (tr->options.special[i])
            status = add_token(v, tr->options.special[i], strlen(tr->options.special[i]));
    return status;
}

/* The 256 bytes in the order of their characters. */
static qkv_status add_bytes(qkv__vocab *v)
{
    qkv_status status = QKV_OK;
    for (int32_t cp = 0; cp <= 0x143 && !status; cp++) {
        char c[4];
        if (qkv__char_byte(cp) >= 0)
            status = add_token(v, c, qkv__utf8_put(c, cp));
    }
    return status;
}

static qkv_status add_chars(const qkv_tokenizer_trainer *tr, qkv__vocab *v)
{
    qkv_status status = QKV_OK;
    for (int32_t cp = 0; cp < CODE_POINTS && !status; cp++) {
        char c[4];
        if (tr->seen[cp / 8] >> (cp % 8) & 1)
            status = add_token(v, c, qkv__utf8_put(c, cp));
    }
    return status;
}

static void put_vocab(qkv__json_out *w, const qkv__vocab *v)
{
    qkv__json_begin_object(w, "vocab");
    for (size_t id = 0; id < v->count; id++) {
        size_t len;
        qkv__json_put_int(w, qkv__vocab_text(v, (int32_t)id, &len), (int64_t)id);
    }
    qkv__json_end_object(w);
}

static void put_merges(qkv__json_out *w, const qkv__vocab *v, const joiner *j)
{
    qkv__json_begin_array(w, "merges");
    for (size_t i = 0; i < j->merge_count; i++) {
        qkv__json_begin_array(w, NULL);
        for (int side = 0; side < 2; side++) {
            size_t len;
            qkv__json_put_string(w, NULL, qkv__vocab_text(v, j->merges[i][side], &len));
        }
        qkv__json_end_array(w);
    }
    qkv__json_end_array(w);
}

/* The tokenizer goes through its own file format: one way in for all. */
static qkv_status build(const qkv_tokenizer_trainer *tr, const qkv__vocab *v, const joiner *j,
                        size_t specials, qkv_tokenizer **out)
{
    const char *texts[QKV_TOKEN_ROLES];
    int32_t ids[QKV_TOKEN_ROLES];
    for (size_t i = 0; i < specials; i++) {
        size_t len;
        ids[i] = (int32_t)i;
        texts[i] = qkv__vocab_text(v, ids[i], &len);
    }
    qkv__json_out w;
    qkv__json_out_init(&w, tr->ctx, 0);
    qkv__tokenizer_begin_spec(&w, tr->options.kind, texts, ids, specials,
                              tr->options.special[QKV_TOKEN_UNK]);
    put_vocab(&w, v);
    if (j)
        put_merges(&w, v, j);
    qkv__json_end_object(&w);
    qkv__json_end_object(&w);
    qkv_status status = w.text.failed ? QKV_E_MEMORY
                                      : qkv__tokenizer_parse(out, tr->ctx, "trained tokenizer",
                                                             w.text.data, w.text.len);
    qkv__json_out_free(&w);
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        const char *text = tr->options.special[i];
        (*out)->special[i] = text ? qkv_tokenizer_id(*out, text, strlen(text)) : -1;
    }
    return status;
}

static qkv_status finish_bpe(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                             qkv_tokenizer **out)
{
    joiner j = {.ctx = tr->ctx};
    qkv_status status = add_bytes(v);
    if (!status && v->count > tr->options.vocab)
        status = qkv__fail(tr->ctx, QKV_E_ARGUMENT,
                           "a BPE vocabulary of %zu tokens: the bytes and special tokens alone "
                           "are %zu", tr->options.vocab, v->count);
    if (!status)
        status = joiner_init(&j, tr, v);
    if (!status)
        status = join_all(&j, v, tr->options.vocab, tr->options.min_count);
    if (!status)
        status = build(tr, v, &j, specials, out);
    joiner_free(&j);
    return status;
}

/* ---- counting --------------------------------------------------------------------------------------- */

static qkv_status count_chars(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        int32_t cp;
        size_t n = qkv__utf8_next(text + i, len - i, &cp);
        if (cp <= 0)
            return qkv__fail(tr->ctx, QKV_E_FORMAT,
                             "byte 0x%02x at %zu is not text: a character tokenizer needs UTF-8",
                             (unsigned)(unsigned char)text[i], i);
        tr->seen[cp / 8] |= (uint8_t)(1u << (cp % 8));
        i += n;
    }
    return QKV_OK;
}

static qkv_status count_words(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = qkv__scan_gpt2(text + i, len - i);
        int32_t id = qkv__vocab_find(&tr->words, text + i, n);
        if (id < 0) {
            id = (int32_t)tr->words.count;
            if (id == INT32_MAX || n >= UINT32_MAX)
                return qkv__fail(tr->ctx, QKV_E_UNSUPPORTED, "more distinct words than 2^31");
            if (!qkv__grow(tr->ctx, &tr->counts, &tr->count_cap, (size_t)id + 1,
                           sizeof *tr->counts) ||
                qkv__vocab_add(&tr->words, text + i, n, id))
                return QKV_E_MEMORY;
            tr->counts[id] = 0;
        }
        tr->counts[id]++;
        i += n;
    }
    return QKV_OK;
}

/* ---- public -------------------------------------------------------------------------------------------- */

qkv_tokenizer_options qkv_tokenizer_defaults(qkv_tokenizer_kind kind)
{
    qkv_tokenizer_options o = {.kind = kind, .vocab = 8192};
    if (kind == QKV_TOKENIZER_BPE)
        o.special[QKV_TOKEN_EOS] = o.special[QKV_TOKEN_BOS] = "<|endoftext|>";
    return o;
}

static qkv_status check_options(qkv_context *ctx, const qkv_tokenizer_options *o)
{
    if (o->kind != QKV_TOKENIZER_CHAR && o->kind != QKV_TOKENIZER_BPE)
        return qkv__fail(ctx, QKV_E_ARGUMENT, "tokenizer kind %d: there are 0 and 1",
                         (int)o->kind);
    if (o->kind == QKV_TOKENIZER_BPE && (o->vocab < 256 || o->vocab >= QKV_TOKENIZER_ID_LIMIT))
        return qkv__fail(ctx, QKV_E_ARGUMENT, "a BPE vocabulary has from 256 to %d tokens, not %zu",
                         QKV_TOKENIZER_ID_LIMIT - 1, o->vocab);
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        if (o->special[i] && (!*o->special[i] || strlen(o->special[i]) > 1000))
            return qkv__fail(ctx, QKV_E_ARGUMENT, "%s has %zu bytes: expected 1 to 1000",
                             qkv__role_keys[i], strlen(o->special[i]));
    return QKV_OK;
}

qkv_status qkv_tokenizer_trainer_create(qkv_tokenizer_trainer **out, qkv_context *ctx,
                                        const qkv_tokenizer_options *options)
{
    const qkv_tokenizer_options o = options ? *options : qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    *out = NULL;
    qkv_status status = check_options(ctx, &o);
    if (status)
        return status;
    qkv_tokenizer_trainer *tr = qkv__calloc(ctx, 1, sizeof *tr);
    if (!tr)
        return QKV_E_MEMORY;
    tr->ctx = ctx;
    tr->options = o;
    qkv__vocab_init(&tr->words, ctx);
    bool ok = true;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        tr->options.special[i] = o.special[i] ? qkv__strdup(ctx, o.special[i]) : NULL;
        ok = ok && !o.special[i] == !tr->options.special[i];
    }
    if (ok && o.kind == QKV_TOKENIZER_CHAR) {
        tr->seen = qkv__calloc(ctx, CODE_POINTS / 8, 1);
        ok = tr->seen != NULL;
    }
    if (!ok) {
        qkv_tokenizer_trainer_destroy(tr);
        return QKV_E_MEMORY;
    }
    *out = tr;
    return QKV_OK;
}

qkv_status qkv_tokenizer_trainer_add(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    tr->text_bytes += len;
    return tr->options.kind == QKV_TOKENIZER_CHAR ? count_chars(tr, text, len)
                                                  : count_words(tr, text, len);
}

qkv_status qkv_tokenizer_trainer_add_file(qkv_tokenizer_trainer *tr, const char *file)
{
    qkv__map map;
    qkv_status status = qkv__map_open(&map, tr->ctx, file);
    if (status)
        return status;
    if (qkv_tokenizer_trainer_add(tr, (const char *)map.data, map.size))
        status = qkv__fail_prefix(tr->ctx, file);
    qkv__map_close(&map);
    return status;
}

qkv_status qkv_tokenizer_trainer_finish(qkv_tokenizer_trainer *tr, qkv_tokenizer **out)
{
    *out = NULL;
    if (tr->text_bytes == 0)
        return qkv__fail(tr->ctx, QKV_E_ARGUMENT, "there is no text to train a tokenizer on");
    qkv__vocab v;
    qkv__vocab_init(&v, tr->ctx);
    qkv_status status = add_specials(tr, &v);
    size_t specials = v.count;
    if (!status && tr->options.kind == QKV_TOKENIZER_BPE) {
        status = finish_bpe(tr, &v, specials, out);
    } else if (!status) {
        status = add_chars(tr, &v);
        if (!status)
            status = build(tr, &v, NULL, specials, out);
    }
    qkv__vocab_free(&v);
    return status;
}

void qkv_tokenizer_trainer_destroy(qkv_tokenizer_trainer *tr)
{
    if (!tr)
        return;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        qkv__free(tr->ctx, (char *)(uintptr_t)tr->options.special[i]);
    qkv__free(tr->ctx, tr->seen);
    qkv__vocab_free(&tr->words);
    qkv__free(tr->ctx, tr->counts);
    qkv__free(tr->ctx, tr);
}
