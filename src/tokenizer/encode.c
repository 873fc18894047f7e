/* encode.c - text to ids through all parts.
 * Not here: files (files.c), ids to text (decode.c). */
#include "tokenizer/object.h"

#include <string.h>

#include "base/utf8.h"

/* ---- encoding ------------------------------------------------------------------------ */

typedef struct {
    qkv_tokenizer *t;
    unsigned flags;
    qkv_ids *out;
} encoding;

static qkv_status encode_piece(void *user, const char *piece, size_t len)
{
    const encoding *e = user;
    qkv_tokenizer *t = e->t;
    size_t count, before = e->out->count;
    if (!t->kind->remembered || t->sampling.amount > 0)
        return t->kind->encode(t, piece, len, e->out);
    const int32_t *ids = qkv__pieces_find(&t->pieces, piece, len, &count);
    if (ids) {
        if (!qkv__ids_reserve(t->ctx, e->out, count))
            return QKV_E_MEMORY;
        for (size_t i = 0; i < count; i++)
            e->out->data[before + i] = ids[i];
        e->out->count += count;
        return QKV_OK;
    }
    qkv_status status = t->kind->encode(t, piece, len, e->out);
    if (status)
        return status;
    return qkv__pieces_keep(&t->pieces, t->ctx, piece, len, e->out->data + before,
                            e->out->count - before);
}

/* What lies between added tokens; first: as many of its bytes come from the first character of the
 * text, before it was normalised. */
typedef qkv_status stretch_fn(encoding *e, const char *text, size_t len, size_t first);

/* Through splitter and model. */
static qkv_status encode_stretch(encoding *e, const char *text, size_t len, size_t first)
{
    const qkv__sink sink = {encode_piece, e};
    return len ? qkv__split(&e->t->splitter, e->t->ctx, text, len, first, &sink) : QKV_OK;
}

/* Cuts added tokens out and gives what lies between to stretch. */
static qkv_status cut_added(encoding *e, const char *text, size_t len, bool normalized,
                            size_t first, stretch_fn *stretch)
{
    size_t at = 0;
    qkv__match m;
    qkv_status status = QKV_OK;
    bool plain = e->flags & QKV_ENCODE_PLAIN;
    while (!status && qkv__added_next(&e->t->added, text, len, at, at, normalized, plain, &m)) {
        if (m.start > at)
            status = stretch(e, text + at, m.start - at, first > at ? first - at : 0);
        if (!status && !qkv__ids_push(e->t->ctx, e->out, m.id))
            status = QKV_E_MEMORY;
        at = m.end;
    }
    return status || at == len ? status
                               : stretch(e, text + at, len - at, first > at ? first - at : 0);
}

/* Bytes of the normalised text that come from the first character of text: what stands before the
 * longest ending that it shares with the text normalised with another letter first. */
static qkv_status first_part(const encoding *e, const char *text, size_t len,
                             const qkv_str *normal, size_t *first)
{
    /* Two that join with no accent: text may begin with one of them, in some form. */
    static const char *const letters[] = {"Q", "\xe1\x83\x90", NULL}; /* Georgian an */
    size_t skip = qkv__scan_char(text, len);
    qkv_str other, result;
    qkv_status status = QKV_OK;
    qkv_str_init(&other, e->t->ctx);
    qkv_str_init(&result, e->t->ctx);
    *first = 0;
    for (size_t i = 0; letters[i] && !*first && !status; i++) {
        size_t same = 0;
        qkv_str_clear(&other);
        qkv_str_clear(&result);
        qkv_str_puts(&other, letters[i]);
        qkv_str_add(&other, text + skip, len - skip);
        status = other.failed ? QKV_E_MEMORY
                              : qkv__normalize(&e->t->normalizer, e->t->ctx, other.data,
                                               other.len, &result);
        while (!status && same < result.len && same < normal->len &&
               result.data[result.len - 1 - same] == normal->data[normal->len - 1 - same])
            same++;
        *first = normal->len - same;
    }
    qkv_str_free(&other);
    qkv_str_free(&result);
    return status;
}

static qkv_status encode_normalized(encoding *e, const char *text, size_t len, size_t first)
{
    if (!e->t->normalizer.count)
        return cut_added(e, text, len, true, first, encode_stretch);
    qkv_str normal;
    qkv_str_init(&normal, e->t->ctx);
    qkv_status status = qkv__normalize(&e->t->normalizer, e->t->ctx, text, len, &normal);
    if (!status && first && e->t->splitter.asks_first)
        status = first_part(e, text, len, &normal, &first);
    if (!status)
        status = cut_added(e, normal.data, normal.len, true, first, encode_stretch);
    qkv_str_free(&normal);
    return status;
}

/* ids, and the type of each where types are asked for. */
static qkv_status put_type(encoding *e, qkv_ids *types, int32_t type)
{
    bool ok = true;
    while (types && ok && types->count < e->out->count)
        ok = qkv__ids_push(e->t->ctx, types, type);
    return ok ? QKV_OK : QKV_E_MEMORY;
}

/* Bytes of a code like >>de<< that begins the text, and its id; 0: there is none. */
static size_t language_code(const qkv_tokenizer *t, const char *text, size_t len, int32_t *id)
{
    if (!t->marian || len < 4 || memcmp(text, ">>", 2) != 0)
        return 0;
    for (size_t i = 2; i + 1 < len; i++)
        if (text[i] == '<' && text[i + 1] == '<') {
            int32_t code = qkv__vocab_find(&t->vocab, text, i + 2);
            *id = code < 0 ? t->special[QKV_TOKEN_UNK] : code;
            return i + 2;
        }
    return 0;
}

/* One of the texts, or one token. */
static qkv_status encode_item(encoding *e, int32_t id, const char *text, size_t len)
{
    if (id >= 0)
        return qkv__ids_push(e->t->ctx, e->out, id) ? QKV_OK : QKV_E_MEMORY;
    int32_t code;
    size_t taken = language_code(e->t, text, len, &code);
    if (taken && !qkv__ids_push(e->t->ctx, e->out, code))
        return QKV_E_MEMORY;
    text += taken;
    len -= taken;
    e->t->text = text;
    e->t->text_len = len;
    qkv_status status = len ? cut_added(e, text, len, false, 1, encode_normalized) : QKV_OK;
    e->t->text = NULL;
    return status;
}

/* ---- cutting ------------------------------------------------------------------------- */

/* Whether an added token may lie across a place: it agrees with the text as far as that goes. */
static bool token_across(const qkv_tokenizer *t, const char *text, size_t len, size_t place)
{
    const qkv__added *a = &t->added;
    size_t longest = a->length_count ? a->lengths[0] : 0;
    for (size_t start = place > longest ? place - longest : 0; start < place; start++) {
        if (!a->first[(unsigned char)text[start]])
            continue;
        for (size_t i = 0; i < a->count; i++) {
            size_t n;
            const char *token = qkv__vocab_text(&a->names, a->list[i].id, &n);
            size_t seen = n < len - start ? n : len - start;
            if (start + n > place && memcmp(token, text + start, seen) == 0)
                return true;
        }
    }
    return false;
}

/* GPT-2's pattern always cuts before a space that follows something else. */
static bool word_ends(const char *text, size_t place)
{
    int32_t cp;
    if (!strchr(" \n\t\r", text[place]) || !text[place])
        return false;
    (void)qkv__utf8_before(text, place, &cp);
    return qkv__class_of(cp) != QKV__SPACE;
}

/* ---- public -------------------------------------------------------------------------- */

qkv_status qkv__tokenizer_pieces(qkv_tokenizer *t, const char *text, size_t len,
                                 const qkv__sink *sink)
{
    qkv_str normal;
    qkv_str_init(&normal, t->ctx);
    qkv_status status = qkv__normalize(&t->normalizer, t->ctx, text, len, &normal);
    if (!status && normal.len)
        status = qkv__split(&t->splitter, t->ctx, normal.data, normal.len, 1, sink);
    qkv_str_free(&normal);
    return status;
}

qkv_status qkv_tokenizer_encode(qkv_tokenizer *t, const char *text, size_t len, unsigned flags,
                                qkv_ids *out)
{
    return qkv_tokenizer_encode_pair(t, text, len, NULL, 0, flags, out, NULL);
}

qkv_status qkv_tokenizer_encode_pair(qkv_tokenizer *t, const char *a, size_t a_len, const char *b,
                                     size_t b_len, unsigned flags, qkv_ids *out, qkv_ids *types)
{
    size_t before = out->count, types_before = types ? types->count : 0;
    if ((flags & QKV_ENCODE_TARGET) && t->target)
        t = t->target;
    const qkv__template *x = b ? &t->templates.pair : &t->templates.single;
    encoding e = {t, flags, out};
    qkv_status status = QKV_OK;
    if (types && types_before != before)
        return qkv_fail(t->ctx, QKV_E_ARGUMENT, "%zu types stand beside %zu ids", types_before,
                         before);
    for (size_t i = 0; i < x->count && !status; i++) {
        int32_t id = x->items[i].id;
        if (id >= 0 && !(flags & QKV_ENCODE_ADD_SPECIAL))
            continue;
        status = id == QKV__TEXT_B ? encode_item(&e, id, b, b_len) : encode_item(&e, id, a, a_len);
        if (!status)
            status = put_type(&e, types, x->items[i].type);
    }
    if (status) {
        out->count = before;
        if (types)
            types->count = types_before;
    }
    return status;
}

qkv_status qkv_tokenizer_sample(qkv_tokenizer *t, double amount, uint64_t seed)
{
    if (!t->kind->most_sampling)
        return qkv_fail(t->ctx, QKV_E_UNSUPPORTED, "a tokenizer of the model %s draws nothing",
                         t->kind->name);
    if (!(amount >= 0 && amount <= t->kind->most_sampling))
        return qkv_fail(t->ctx, QKV_E_ARGUMENT, "sampling %g: expected 0 to %d", amount,
                         t->kind->most_sampling);
    for (; t; t = t->target) {
        t->sampling.amount = amount;
        qkv_rng_init(&t->sampling.rng, seed, qkv_hash64("tokenizer", 9));
    }
    return QKV_OK;
}

size_t qkv_tokenizer_cut(const qkv_tokenizer *t, const char *text, size_t len)
{
    qkv__scan_fn *scan = qkv__splitter_scan(&t->splitter);
    bool words = scan == qkv__scan_gpt2;
    if (t->normalizer.count || (!words && scan != qkv__scan_char))
        return 0;
    size_t place = words ? len : len + 1;
    while (place-- > 1) {
        bool cut = words ? word_ends(text, place)
                         : place == len ? qkv__utf8_unfinished(text, len) == 0
                                        : ((unsigned char)text[place] & 0xc0) != 0x80;
        if (cut && !token_across(t, text, len, place))
            return place;
    }
    return 0;
}
