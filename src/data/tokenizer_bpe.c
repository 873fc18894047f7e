/* tokenizer_bpe.c - byte-pair encoding: a piece's symbols are joined, the pair of lowest rank
 * first and leftmost among equals, until no known pair is left.
 *
 * Pieces repeat, so the ids of short ones are kept in a table: most text is look-ups. */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer.h"

enum {
    SHORT_PIECE = 32,    /* symbols that are searched end to end; longer pieces use a heap */
    KEPT_PIECE = 64,     /* bytes of a piece whose ids are kept */
    KEPT_MOST = 1 << 17, /* pieces kept; then the table starts anew */
};

static const uint32_t no_rank = UINT32_MAX;

typedef struct {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank; /* no_rank: free slot */
    int32_t made;
} merge;

typedef struct {
    uint64_t hash;
    size_t key, ids; /* where they start; a single id stands in ids itself */
    uint16_t key_len, count; /* count 0: free slot */
} kept;

/* The ids of pieces seen before. */
typedef struct {
    kept *slots;
    size_t slot_count, used;
    qkv_text keys;
    qkv_ids ids;
} memory;

/* A symbol of a long piece; a list by index, -1 at the ends. id -1: joined into another. */
typedef struct {
    int32_t id, before, after;
} symbol;

typedef struct {
    int32_t byte_id[256]; /* -1: the vocabulary lacks the byte */
    int32_t (*pairs)[2];  /* by rank, for saving */
    int32_t *made;        /* by rank */
    size_t count, pair_cap, made_cap;
    merge *merges; /* hash table by pair */
    size_t mask;
    int32_t unk; /* -1: none */
    bool fuse_unk, byte_fallback, ignore_merges;
    memory memory;
    qkv_ids work; /* symbols of the piece at hand */
    symbol *symbols;
    size_t symbol_cap;
    uint64_t *heap; /* rank << 32 | place */
    size_t heap_count, heap_cap;
} bpe;

/* ---- pairs -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 32);
}

static inline const merge *find_merge(const bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t i = (size_t)mix(pair) & b->mask;; i = (i + 1) & b->mask)
        if (b->merges[i].pair == pair || b->merges[i].rank == no_rank)
            return &b->merges[i];
}

static qkv_status finish(qkv_tokenizer *t)
{
    bpe *b = t->model;
    size_t slots = 16;
    while (slots < 2 * b->count + 2)
        slots *= 2;
    b->merges = qkv__malloc(t->ctx, slots * sizeof *b->merges);
    if (!b->merges)
        return QKV_E_MEMORY;
    b->mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        b->merges[i] = (merge){UINT64_MAX, no_rank, -1};
    for (size_t rank = 0; rank < b->count; rank++) { /* of equal pairs the last one counts */
        merge *m = (merge *)(uintptr_t)find_merge(b, b->pairs[rank][0], b->pairs[rank][1]);
        m->pair = (uint64_t)(uint32_t)b->pairs[rank][0] << 32 | (uint32_t)b->pairs[rank][1];
        m->rank = (uint32_t)rank;
        m->made = b->made[rank];
    }
    return QKV_OK;
}

/* ---- joining ------------------------------------------------------------------------------ */

/* Few symbols: look at all ranks each time. */
static void join_short(const bpe *b, qkv_ids *ids)
{
    uint32_t rank[SHORT_PIECE];
    int32_t made[SHORT_PIECE], *id = ids->data;
    size_t n = ids->count;
    for (size_t i = 0; i + 1 < n; i++) {
        const merge *m = find_merge(b, id[i], id[i + 1]);
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
            const merge *m = find_merge(b, id[i], id[i + 1]);
            rank[i] = m->rank;
            made[i] = m->made;
        }
    }
    ids->count = n;
}

static bool heap_push(qkv_context *ctx, bpe *b, uint64_t key)
{
    if (!qkv__grow(ctx, &b->heap, &b->heap_cap, b->heap_count + 1, sizeof *b->heap))
        return false;
    size_t i = b->heap_count++;
    for (; i > 0 && key < b->heap[(i - 1) / 2]; i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = key;
    return true;
}

static uint64_t heap_pop(bpe *b)
{
    uint64_t top = b->heap[0], key = b->heap[--b->heap_count];
    size_t i = 0, n = b->heap_count;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && b->heap[child + 1] < b->heap[child])
            child++;
        if (key <= b->heap[child])
            break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = key;
    return top;
}

/* Puts the pair that begins at place on the heap, if it is one. */
static bool offer(qkv_context *ctx, bpe *b, int32_t place)
{
    int32_t after = place < 0 ? -1 : b->symbols[place].after;
    if (after < 0)
        return true;
    const merge *m = find_merge(b, b->symbols[place].id, b->symbols[after].id);
    return m->rank == no_rank || heap_push(ctx, b, (uint64_t)m->rank << 32 | (uint32_t)place);
}

static qkv_status join_long(qkv_context *ctx, bpe *b, qkv_ids *ids)
{
    size_t n = ids->count;
    bool ok = qkv__grow(ctx, &b->symbols, &b->symbol_cap, n, sizeof *b->symbols);
    for (size_t i = 0; ok && i < n; i++)
        b->symbols[i] = (symbol){ids->data[i], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    b->heap_count = 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = offer(ctx, b, (int32_t)i);
    while (ok && b->heap_count) {
        uint64_t top = heap_pop(b);
        int32_t place = (int32_t)(uint32_t)top;
        symbol *s = &b->symbols[place];
        if (s->id < 0 || s->after < 0)
            continue;
        symbol *next = &b->symbols[s->after];
        const merge *m = find_merge(b, s->id, next->id);
        if (m->rank != top >> 32) /* an older pair stood there */
            continue;
        s->id = m->made;
        next->id = -1;
        s->after = next->after;
        if (s->after >= 0)
            b->symbols[s->after].before = place;
        ok = offer(ctx, b, s->before) && offer(ctx, b, place);
    }
    if (!ok)
        return QKV_E_MEMORY;
    ids->count = 0;
    for (int32_t i = 0; i >= 0; i = b->symbols[i].after)
        ids->data[ids->count++] = b->symbols[i].id;
    return QKV_OK;
}

/* ---- a piece's symbols ---------------------------------------------------------------------- */

/* Ids of the pieces <0xXX> of a character's bytes; false when one is missing. */
static bool fall_back(qkv_tokenizer *t, const char *s, size_t len, qkv_ids *ids)
{
    size_t before = ids->count;
    for (size_t i = 0; i < len; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", (unsigned)(unsigned char)s[i]);
        int32_t id = qkv__vocab_find(&t->vocab, name, 6);
        if (id < 0 || !qkv__ids_push(t->ctx, ids, id)) {
            ids->count = before;
            return false;
        }
    }
    return true;
}

static qkv_status add_unknown(qkv_tokenizer *t, const char *s, size_t len, bool after_unknown,
                              qkv_ids *ids)
{
    const bpe *b = t->model;
    if (b->unk < 0)
        return qkv__tokenizer_unknown(t, s, len);
    if (after_unknown && b->fuse_unk)
        return QKV_OK;
    return qkv__ids_push(t->ctx, ids, b->unk) ? QKV_OK : QKV_E_MEMORY;
}

/* One id for each byte, or for each character where the model is not byte-level. */
static qkv_status symbols_of(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *ids)
{
    const bpe *b = t->model;
    bool unknown = false;
    ids->count = 0;
    if (!qkv__ids_reserve(t->ctx, ids, len))
        return QKV_E_MEMORY;
    for (size_t i = 0; i < len;) {
        int32_t cp, id;
        size_t n = t->splitter.byte_level ? 1 : qkv__utf8_next(piece + i, len - i, &cp);
        id = t->splitter.byte_level ? b->byte_id[(unsigned char)piece[i]]
                                    : qkv__vocab_find(&t->vocab, piece + i, n);
        if (id >= 0) {
            ids->data[ids->count++] = id;
            unknown = false;
        } else if (b->byte_fallback && fall_back(t, piece + i, n, ids)) {
            unknown = false;
        } else {
            qkv_status status = add_unknown(t, piece + i, n, unknown, ids);
            if (status)
                return status;
            unknown = true;
        }
        i += n;
    }
    return QKV_OK;
}

/* The piece's own token, where merges do not matter to a word that is one; -1: none. */
static int32_t whole(qkv_tokenizer *t, const char *piece, size_t len)
{
    qkv__str chars;
    if (!t->splitter.byte_level)
        return qkv__vocab_find(&t->vocab, piece, len);
    qkv__str_init(&chars, t->ctx);
    qkv__bytes_to_chars(&chars, piece, len);
    int32_t id = chars.failed ? -1 : qkv__vocab_find(&t->vocab, chars.data, chars.len);
    qkv__str_free(&chars);
    return id;
}

/* The piece's ids into b->work. */
static qkv_status work_out(qkv_tokenizer *t, const char *piece, size_t len)
{
    bpe *b = t->model;
    int32_t id = b->ignore_merges ? whole(t, piece, len) : -1;
    if (id >= 0) {
        b->work.count = 0;
        return qkv__ids_push(t->ctx, &b->work, id) ? QKV_OK : QKV_E_MEMORY;
    }
    qkv_status status = symbols_of(t, piece, len, &b->work);
    if (status)
        return status;
    if (b->work.count > SHORT_PIECE)
        return join_long(t->ctx, b, &b->work);
    join_short(b, &b->work);
    return QKV_OK;
}

/* ---- pieces seen before ---------------------------------------------------------------------- */

static uint64_t hash_piece(const char *s, size_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15u;
    for (; len >= 8; s += 8, len -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = mix(h ^ w) * 0xff51afd7ed558ccdu;
    }
    uint64_t w = 0;
    for (size_t i = 0; i < len; i++)
        w = w << 8 | (unsigned char)s[i];
    return mix(mix(h ^ w) * 0xff51afd7ed558ccdu);
}

/* The piece's slot, or the free one where it would go. */
static kept *recall(const memory *m, const char *piece, size_t len, uint64_t hash)
{
    size_t mask = m->slot_count - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        kept *k = &m->slots[i];
        if (k->count == 0 || (k->hash == hash && k->key_len == len &&
                              memcmp(m->keys.data + k->key, piece, len) == 0))
            return k;
    }
}

/* Room for one more; when there are too many all are forgotten. */
static bool make_room(qkv_context *ctx, memory *m)
{
    if (2 * (m->used + 1) <= m->slot_count)
        return true;
    if (m->used >= KEPT_MOST) {
        memset(m->slots, 0, m->slot_count * sizeof *m->slots);
        m->used = m->keys.len = m->ids.count = 0;
        return true;
    }
    size_t count = m->slot_count ? 2 * m->slot_count : 1024;
    kept *slots = qkv__calloc(ctx, count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < m->slot_count; i++) {
        if (m->slots[i].count == 0)
            continue;
        size_t at = (size_t)m->slots[i].hash & (count - 1);
        while (slots[at].count)
            at = (at + 1) & (count - 1);
        slots[at] = m->slots[i];
    }
    qkv__free(ctx, m->slots);
    m->slots = slots;
    m->slot_count = count;
    return true;
}

static qkv_status keep(qkv_tokenizer *t, const char *piece, size_t len, uint64_t hash)
{
    bpe *b = t->model;
    memory *m = &b->memory;
    size_t count = b->work.count;
    if (count == 0)
        return QKV_OK;
    if (!make_room(t->ctx, m))
        return QKV_E_MEMORY;
    kept k = {hash, m->keys.len, m->ids.count, (uint16_t)len, (uint16_t)count};
    if (count == 1) {
        k.ids = (size_t)b->work.data[0];
    } else {
        if (!qkv__ids_reserve(t->ctx, &m->ids, count))
            return QKV_E_MEMORY;
        memcpy(m->ids.data + m->ids.count, b->work.data, count * sizeof(int32_t));
        m->ids.count += count;
    }
    if (!qkv__text_add(t->ctx, &m->keys, piece, len))
        return QKV_E_MEMORY;
    *recall(m, piece, len, hash) = k;
    m->used++;
    return QKV_OK;
}

static qkv_status add_ids(qkv_context *ctx, qkv_ids *out, const int32_t *ids, size_t count)
{
    if (!qkv__ids_reserve(ctx, out, count))
        return QKV_E_MEMORY;
    memcpy(out->data + out->count, ids, count * sizeof *ids);
    out->count += count;
    return QKV_OK;
}

static qkv_status encode(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out)
{
    bpe *b = t->model;
    uint64_t hash = 0;
    if (len <= KEPT_PIECE && b->memory.slot_count) {
        hash = hash_piece(piece, len);
        const kept *k = recall(&b->memory, piece, len, hash);
        if (k->count == 1)
            return qkv__ids_push(t->ctx, out, (int32_t)k->ids) ? QKV_OK : QKV_E_MEMORY;
        if (k->count)
            return add_ids(t->ctx, out, b->memory.ids.data + k->ids, k->count);
    }
    if (len > INT32_MAX)
        return qkv__fail(t->ctx, QKV_E_UNSUPPORTED,
                         "a word of %zu bytes: at most %d can be encoded", len, INT32_MAX);
    qkv_status status = work_out(t, piece, len);
    if (!status && len <= KEPT_PIECE)
        status = keep(t, piece, len, hash_piece(piece, len));
    return status ? status : add_ids(t->ctx, out, b->work.data, b->work.count);
}

/* ---- reading and writing ------------------------------------------------------------------------ */

static qkv_status create(qkv_tokenizer *t)
{
    bpe *b = qkv__malloc(t->ctx, sizeof *b);
    if (!b)
        return QKV_E_MEMORY;
    *b = (bpe){.unk = -1};
    t->kind = &qkv__model_bpe;
    t->model = b;
    for (int i = 0; i < 256; i++) {
        char c[4];
        size_t n = qkv__utf8_put(c, qkv__byte_char((uint8_t)i));
        b->byte_id[i] = qkv__vocab_find(&t->vocab, c, n);
    }
    return QKV_OK;
}

/* Bytes of a token that a message shows. */
static int shown(size_t len)
{
    return len < 60 ? (int)len : 60;
}

/* where: "line 7", "model.merges.6" */
static qkv_status add_merge(qkv_tokenizer *t, const char *file, const char *where,
                            const char *left, size_t left_len, const char *right,
                            size_t right_len)
{
    bpe *b = t->model;
    qkv__str joined;
    int32_t pair[2] = {qkv__vocab_find(&t->vocab, left, left_len),
                       qkv__vocab_find(&t->vocab, right, right_len)};
    for (int i = 0; i < 2; i++)
        if (pair[i] < 0)
            return qkv__fail(t->ctx, QKV_E_FORMAT,
                             "%s: %s: merge of \"%.*s\", which is not in the vocabulary", file,
                             where, shown(i ? right_len : left_len), i ? right : left);
    qkv__str_init(&joined, t->ctx);
    qkv__str_add(&joined, left, left_len);
    qkv__str_add(&joined, right, right_len);
    int32_t made = joined.failed ? -1 : qkv__vocab_find(&t->vocab, joined.data, joined.len);
    qkv_status status = joined.failed ? QKV_E_MEMORY : QKV_OK;
    if (!status && made < 0)
        status = qkv__fail(t->ctx, QKV_E_FORMAT,
                           "%s: %s: merge gives \"%.60s\", which is not in the vocabulary", file,
                           where, joined.data);
    qkv__str_free(&joined);
    if (status)
        return status;
    if (!qkv__grow(t->ctx, &b->pairs, &b->pair_cap, b->count + 1, sizeof *b->pairs) ||
        !qkv__grow(t->ctx, &b->made, &b->made_cap, b->count + 1, sizeof *b->made))
        return QKV_E_MEMORY;
    memcpy(b->pairs[b->count], pair, sizeof pair);
    b->made[b->count++] = made;
    return QKV_OK;
}

/* Element i of "merges": "left right", or ["left", "right"]. */
static qkv_status read_merge(qkv_tokenizer *t, const qkv__json *list, size_t i)
{
    qkv__json at, none;
    const char *left = NULL, *right = NULL, *space = NULL;
    qkv__json_item(list, i, &at);
    if (json_is_array(at.value) && qkv__json_count(&at) == 2) {
        left = json_string_value(json_array_get(at.value, 0));
        right = json_string_value(json_array_get(at.value, 1));
    } else if (json_is_string(at.value)) {
        left = json_string_value(at.value);
        space = strchr(left, ' ');
        right = space ? space + 1 : NULL;
    } else {
        return qkv__json_get_array(&at, NULL, &none) ? QKV_E_FORMAT
               : qkv__json_fail(&at, NULL, "expected two tokens, found %zu", qkv__json_count(&at));
    }
    if (!left || !right || (space && strchr(right, ' ')))
        return qkv__json_fail(&at, NULL, "expected two tokens");
    return add_merge(t, at.file, at.path, left,
                              space ? (size_t)(space - left) : strlen(left), right, strlen(right));
}

static qkv_status read_merges(qkv_tokenizer *t, const qkv__json *at)
{
    qkv__json merges;
    qkv_status status = qkv__json_get_array(at, "merges", &merges);
    size_t count = status ? 0 : qkv__json_count(&merges);
    for (size_t i = 0; !status && i < count; i++)
        status = read_merge(t, &merges, i);
    return status;
}

/* "#version: 0.2", then a merge a line. */
static qkv_status read_lines(qkv_tokenizer *t, const qkv__bpe_files *files)
{
    const char *p = files->merges, *end = p + files->merges_len;
    qkv_status status = QKV_OK;
    for (size_t line = 1; p < end && !status; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *next = stop ? stop + 1 : end;
        char where[40];
        stop = stop ? stop : end;
        if (stop > p && stop[-1] == '\r')
            stop--;
        const char *space = memchr(p, ' ', (size_t)(stop - p));
        bool comment = line == 1 && *p == '#' && stop - p > 8 && memcmp(p, "#version", 8) == 0;
        (void)snprintf(where, sizeof where, "line %zu", line);
        if (stop > p && !comment) {
            if (!space || memchr(space + 1, ' ', (size_t)(stop - space - 1)))
                return qkv__fail(t->ctx, QKV_E_FORMAT, "%s: %s: expected two tokens",
                                 files->merges_file, where);
            status = add_merge(t, files->merges_file, where, p, (size_t)(space - p), space + 1,
                               (size_t)(stop - space - 1));
        }
        p = next;
    }
    return status;
}

static qkv_status read_unknown(qkv_tokenizer *t, const qkv__json *at)
{
    bpe *b = t->model;
    const char *unk = NULL;
    qkv_status status = qkv__json_opt_string(at, "unk_token", &unk);
    if (status || !unk)
        return status;
    b->unk = qkv__vocab_find(&t->vocab, unk, strlen(unk));
    if (b->unk < 0)
        return qkv__json_fail(at, "unk_token", "\"%.60s\" is not in the vocabulary", unk);
    return QKV_OK;
}

static qkv_status read(qkv_tokenizer *t, const qkv__json *at)
{
    static const char *const unsupported[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    double dropout = 0;
    qkv_status status = create(t);
    bpe *b = t->model;
    for (size_t i = 0; !status && i < 2; i++) {
        const char *text = "";
        status = qkv__json_opt_string(at, unsupported[i], &text);
        if (!status && *text)
            status = qkv__json_fail(at, unsupported[i], "\"%.40s\" is not supported", text);
    }
    if (!status)
        status = qkv__json_opt_real(at, "dropout", 0, 0, &dropout);
    if (!status)
        status = qkv__json_opt_bool(at, "fuse_unk", &b->fuse_unk);
    if (!status)
        status = qkv__json_opt_bool(at, "byte_fallback", &b->byte_fallback);
    if (!status)
        status = qkv__json_opt_bool(at, "ignore_merges", &b->ignore_merges);
    if (!status)
        status = read_unknown(t, at);
    if (!status && t->files)
        status = read_lines(t, t->files);
    else if (!status)
        status = read_merges(t, at);
    return status ? status : finish(t);
}

/* Merges as "left right", which every version reads, unless a token holds a space. */
static void write(const qkv_tokenizer *t, qkv__json_out *w)
{
    const bpe *b = t->model;
    qkv__str line;
    qkv__str_init(&line, t->ctx);
    qkv__json_begin_array(w, "merges");
    bool spaces = false;
    for (size_t id = 0; id < t->vocab.count && !spaces; id++)
        if (t->vocab.tokens[id].used)
            spaces = strchr(t->vocab.text + t->vocab.tokens[id].start, ' ') != NULL;
    for (size_t i = 0; i < b->count; i++) {
        size_t left_len, right_len;
        const char *left = qkv__vocab_text(&t->vocab, b->pairs[i][0], &left_len);
        const char *right = qkv__vocab_text(&t->vocab, b->pairs[i][1], &right_len);
        if (spaces) {
            qkv__json_begin_array(w, NULL);
            qkv__json_put_bytes(w, NULL, left, left_len);
            qkv__json_put_bytes(w, NULL, right, right_len);
            qkv__json_end_array(w);
            continue;
        }
        qkv__str_clear(&line);
        qkv__str_add(&line, left, left_len);
        qkv__str_puts(&line, " ");
        qkv__str_add(&line, right, right_len);
        if (line.failed)
            w->text.failed = true;
        else
            qkv__json_put_bytes(w, NULL, line.data, line.len);
    }
    qkv__json_end_array(w);
    qkv__str_free(&line);
}

static void destroy(qkv_tokenizer *t)
{
    bpe *b = t->model;
    qkv__free(t->ctx, b->pairs);
    qkv__free(t->ctx, b->made);
    qkv__free(t->ctx, b->merges);
    qkv__free(t->ctx, b->memory.slots);
    qkv_text_free(t->ctx, &b->memory.keys);
    qkv_ids_free(t->ctx, &b->memory.ids);
    qkv_ids_free(t->ctx, &b->work);
    qkv__free(t->ctx, b->symbols);
    qkv__free(t->ctx, b->heap);
    qkv__free(t->ctx, b);
}

const qkv__model_kind qkv__model_bpe = {"BPE", read, encode, write, destroy};

size_t qkv__bpe_merges(const qkv_tokenizer *t)
{
    return ((const bpe *)t->model)->count;
}

void qkv__bpe_merge(const qkv_tokenizer *t, size_t rank, int32_t pair[2])
{
    memcpy(pair, ((const bpe *)t->model)->pairs[rank], 2 * sizeof *pair);
}
