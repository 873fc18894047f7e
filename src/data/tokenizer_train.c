/* tokenizer_train.c - vocabularies from text: characters, and the words for byte-level BPE,
 * which tokenizer_train_bpe.c joins. */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer.h"
#include "io/file.h"

enum { CODE_POINTS = 0x110000 };

struct qkv_tokenizer_trainer {
    qkv_context *ctx;
    qkv_tokenizer_options options; /* special: copies */
    uint8_t *seen;                 /* CHAR: a bit per code point */
    qkv__vocab words;              /* BPE: distinct pieces, ids in order of coming */
    int64_t *counts;               /* BPE: by word */
    size_t count_cap;
    size_t text_bytes;
};

/* ---- vocabularies -------------------------------------------------------------------- */

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

/* merges: left, right, left, right, ... */
static void put_merges(qkv__json_out *w, const qkv__vocab *v, const qkv_ids *merges)
{
    qkv__json_begin_array(w, "merges");
    for (size_t i = 0; i < merges->count; i++) {
        size_t len;
        if (i % 2 == 0)
            qkv__json_begin_array(w, NULL);
        qkv__json_put_string(w, NULL, qkv__vocab_text(v, merges->data[i], &len));
        if (i % 2 == 1)
            qkv__json_end_array(w);
    }
    qkv__json_end_array(w);
}

/* The tokenizer goes through its own file format: one way in for all. */
static qkv_status build(const qkv_tokenizer_trainer *tr, const qkv__vocab *v,
                        const qkv_ids *merges, size_t specials, qkv_tokenizer **out)
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
    if (merges)
        put_merges(&w, v, merges);
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
    qkv_ids merges = {0};
    qkv_status status = add_bytes(v);
    if (!status && v->count > tr->options.vocab)
        status = qkv__fail(tr->ctx, QKV_E_ARGUMENT,
                           "a BPE vocabulary of %zu tokens: the bytes and special tokens alone "
                           "are %zu", tr->options.vocab, v->count);
    if (!status)
        status = qkv__train_bpe(tr->ctx, v, &tr->words, tr->counts, tr->options.vocab,
                                tr->options.min_count, &merges);
    if (!status)
        status = build(tr, v, &merges, specials, out);
    qkv_ids_free(tr->ctx, &merges);
    return status;
}

/* ---- counting ------------------------------------------------------------------------ */

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

/* ---- public -------------------------------------------------------------------------- */

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
