/* train.c - vocabularies from text: characters, and the words for the others, which
 * train_bpe.c joins. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/file.h"
#include "tokenizer/bytes.h"
#include "tokenizer/encode.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"
#include "tokenizer/train_bpe.h"
#include "tokenizer/train_spm.h"
#include "tokenizer/words_file.h"

enum { CODE_POINTS = 0x110000 };

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

static void put_vocab(qkv_json_writer *w, const qkv__vocab *v)
{
    qkv_json_begin_object(w, "vocab");
    for (size_t id = 0; id < v->count; id++) {
        size_t len;
        qkv_json_put_int(w, qkv__vocab_text(v, (int32_t)id, &len), (int64_t)id);
    }
    qkv_json_end_object(w);
}

/* merges: left, right, left, right, ... */
static void put_merges(qkv_json_writer *w, const qkv__vocab *v, const qkv_ids *merges)
{
    qkv_json_begin_array(w, "merges");
    for (size_t i = 0; i < merges->count; i++) {
        size_t len;
        if (i % 2 == 0)
            qkv_json_begin_array(w, NULL);
        qkv_json_put_string(w, NULL, qkv__vocab_text(v, merges->data[i], &len));
        if (i % 2 == 1)
            qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

/* The specification's end: the vocabulary, perhaps merges. The tokenizer goes through its own
 * file format: one way in for all. */
static qkv_status build(const qkv_tokenizer_trainer *tr, qkv_json_writer *w, const qkv__vocab *v,
                        const qkv_ids *merges, qkv_tokenizer **out)
{
    put_vocab(w, v);
    if (merges)
        put_merges(w, v, merges);
    qkv_json_end_object(w);
    qkv_json_end_object(w);
    qkv_status status = w->text.failed ? QKV_E_MEMORY
                                       : qkv__tokenizer_parse(out, tr->ctx, "trained tokenizer",
                                                              w->text.data, w->text.len);
    qkv_json_writer_free(w);
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        const char *text = tr->options.special[i];
        (*out)->special[i] = text ? qkv_tokenizer_id(*out, text, strlen(text)) : -1;
    }
    return status;
}

/* For characters and byte-level BPE. */
static qkv_status build_plain(const qkv_tokenizer_trainer *tr, const qkv__vocab *v,
                              const qkv_ids *merges, size_t specials, qkv_tokenizer **out)
{
    const char *texts[QKV_TOKEN_ROLES];
    int32_t ids[QKV_TOKEN_ROLES];
    for (size_t i = 0; i < specials; i++) {
        size_t len;
        ids[i] = (int32_t)i;
        texts[i] = qkv__vocab_text(v, ids[i], &len);
    }
    const qkv_tokenizer_options *o = &tr->options;
    const char *begin = o->add_eos ? NULL : o->special[QKV_TOKEN_CLS];
    const char *end = o->special[o->add_eos ? QKV_TOKEN_EOS : QKV_TOKEN_SEP];
    if (!o->add_eos && (!begin || !end))
        begin = end = NULL;
    qkv_json_writer w;
    qkv_json_writer_init(&w, tr->ctx, 0);
    qkv__tokenizer_begin_spec(&w, o->kind, texts, ids, specials, o->special[QKV_TOKEN_UNK], begin,
                              end);
    return build(tr, &w, v, merges, out);
}

/* ---- kinds --------------------------------------------------------------------------- */

static qkv_status finish_chars(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                               qkv_tokenizer **out)
{
    qkv_status status = add_chars(tr, v);
    return status ? status : build_plain(tr, v, NULL, specials, out);
}

static qkv_status finish_bpe(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                             qkv_tokenizer **out)
{
    qkv_ids merges = {0};
    qkv_status status = add_bytes(v);
    if (!status && v->count > tr->options.vocab)
        status = qkv_fail(tr->ctx, QKV_E_ARGUMENT,
                          "a BPE vocabulary of %zu tokens: the bytes and special tokens alone "
                          "are %zu", tr->options.vocab, v->count);
    const qkv__bpe_training how = {true, "", tr->options.vocab, tr->options.min_count};
    if (!status)
        status = qkv__train_bpe(tr->ctx, v, &tr->words, tr->counts, &how, &merges);
    if (!status)
        status = build_plain(tr, v, &merges, specials, out);
    qkv_ids_free(&merges, tr->ctx);
    return status;
}

static void begin_wordpiece(qkv_json_writer *w, const qkv_tokenizer_options *o, const qkv__vocab *v)
{
    const qkv__bert_options bert = {!o->keep_case, true, -1};
    int32_t ids[QKV_TOKEN_ROLES];
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        ids[i] = v && o->special[i] ? qkv__vocab_find(v, o->special[i], strlen(o->special[i])) : 0;
    qkv__bert_begin_spec(w, &bert, o->add_eos, o->special, ids);
}

/* Pieces joined by counts, as if they were BPE's. */
static qkv_status finish_wordpiece(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                   qkv_tokenizer **out)
{
    const qkv__bpe_training how = {false, "##", tr->options.vocab, tr->options.min_count};
    qkv_ids merges = {0};
    qkv_json_writer w;
    (void)specials;
    qkv_status status = qkv__train_alphabet(tr, v);
    if (!status)
        status = qkv__train_bpe(tr->ctx, v, &tr->words, tr->counts, &how, &merges);
    qkv_ids_free(&merges, tr->ctx);
    if (status)
        return status;
    qkv_json_writer_init(&w, tr->ctx, 0);
    begin_wordpiece(&w, &tr->options, v);
    return build(tr, &w, v, NULL, out);
}

/* What makes words of a text before there is a vocabulary. */
static qkv_status cut_wordpiece(qkv_tokenizer_trainer *tr)
{
    static const char *const unk[QKV_TOKEN_ROLES] = {[QKV_TOKEN_UNK] = "u"};
    qkv_tokenizer_options o = tr->options;
    qkv_json_writer w;
    qkv__vocab v;
    qkv__vocab_init(&v, tr->ctx);
    memcpy(o.special, unk, sizeof unk);
    qkv_json_writer_init(&w, tr->ctx, 0);
    qkv_status status = qkv__vocab_add(&v, "u", 1, 0);
    begin_wordpiece(&w, &o, &v);
    qkv_tokenizer_trainer plain = {.ctx = tr->ctx};
    if (!status)
        status = build(&plain, &w, &v, NULL, &tr->cutter);
    else
        qkv_json_writer_free(&w);
    qkv__vocab_free(&v);
    return status;
}

/* ---- counting ------------------------------------------------------------------------ */

static qkv_status count_chars(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        int32_t cp;
        size_t n = qkv__utf8_next(text + i, len - i, &cp);
        if (cp <= 0)
            return qkv_fail(tr->ctx, QKV_E_FORMAT,
                            "byte 0x%02x at %zu is not text: a character tokenizer needs UTF-8",
                            (unsigned)(unsigned char)text[i], i);
        tr->seen[cp / 8] |= (uint8_t)(1u << (cp % 8));
        i += n;
    }
    return QKV_OK;
}

static qkv_status count_bytes(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0, n; i < len && !status; i += n) {
        n = qkv__scan_gpt2(text + i, len - i);
        status = qkv__train_count_word(tr, text + i, n);
    }
    return status;
}

static qkv_status count_word(void *user, const char *word, size_t len)
{
    return qkv__train_count_word(user, word, len);
}

/* Line by line. */
static qkv_status count_lines(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    const qkv__sink sink = {count_word, tr};
    qkv_status status = QKV_OK;
    for (size_t at = 0, end; at < len && !status; at = end + 1) {
        const char *stop = memchr(text + at, '\n', len - at);
        end = stop ? (size_t)(stop - text) : len;
        status = qkv__tokenizer_pieces(tr->cutter, text + at, end - at, &sink);
    }
    return status;
}

/* By qkv_tokenizer_kind. */
static const struct {
    size_t least; /* tokens that a vocabulary must have room for; 0: it is as large as it is */
    qkv_status (*prepare)(qkv_tokenizer_trainer *tr); /* NULL: nothing */
    qkv_status (*count)(qkv_tokenizer_trainer *tr, const char *text, size_t len);
    qkv_status (*finish)(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                         qkv_tokenizer **out);
} kinds[] = {
    [QKV_TOKENIZER_CHAR] = {0, NULL, count_chars, finish_chars},
    [QKV_TOKENIZER_BPE] = {256, NULL, count_bytes, finish_bpe},
    [QKV_TOKENIZER_WORDPIECE] = {1, cut_wordpiece, count_lines, finish_wordpiece},
    [QKV_TOKENIZER_UNIGRAM] = {4, qkv__train_spm_prepare, qkv__train_spm_count,
                               qkv__train_spm_unigram},
    [QKV_TOKENIZER_SENTENCEPIECE_BPE] = {4, qkv__train_spm_prepare, qkv__train_spm_count,
                                         qkv__train_spm_bpe},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- public -------------------------------------------------------------------------- */

qkv_tokenizer_options qkv_tokenizer_defaults(qkv_tokenizer_kind kind)
{
    qkv_tokenizer_options o = {.kind = kind, .vocab = 8192, .coverage = 1};
    if (kind == QKV_TOKENIZER_UNIGRAM || kind == QKV_TOKENIZER_SENTENCEPIECE_BPE)
        o.coverage = 0.9995;
    if (kind == QKV_TOKENIZER_BPE)
        o.special[QKV_TOKEN_EOS] = o.special[QKV_TOKEN_BOS] = "<|endoftext|>";
    for (size_t i = 0; kind == QKV_TOKENIZER_WORDPIECE && i < QKV_TOKEN_ROLES; i++)
        o.special[i] = qkv__bert_names[i];
    return o;
}

static qkv_status check_options(qkv_context *ctx, const qkv_tokenizer_options *o)
{
    if ((size_t)o->kind >= KINDS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "tokenizer kind %d: there are 0 to %d",
                        (int)o->kind, KINDS - 1);
    size_t least = kinds[o->kind].least;
    bool fixed = kinds[o->kind].prepare == qkv__train_spm_prepare;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && fixed; i++)
        if (o->special[i])
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: this kind has special tokens of its own",
                            qkv__role_keys[i]);
    if (least && (o->vocab < least || o->vocab >= QKV_TOKENIZER_ID_LIMIT))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "such a vocabulary has from %zu to %d tokens, not %zu", least,
                        QKV_TOKENIZER_ID_LIMIT - 1, o->vocab);
    if (o->add_eos && !fixed && !o->special[QKV_TOKEN_EOS])
        return qkv_fail(ctx, QKV_E_ARGUMENT, "texts end in eos_token, which is missing");
    if (!(o->coverage > 0 && o->coverage <= 1))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "coverage %g: the share of the text's characters is above 0, at most 1",
                        o->coverage);
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        if (o->special[i] && (!*o->special[i] || strlen(o->special[i]) > 1000))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s has %zu bytes: expected 1 to 1000",
                            qkv__role_keys[i], strlen(o->special[i]));
    return QKV_OK;
}

qkv_status qkv_tokenizer_trainer_create(qkv_tokenizer_trainer **out, qkv_context *ctx,
                                        const qkv_tokenizer_options *options)
{
    qkv_tokenizer_options o = options ? *options : qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    *out = NULL;
    if (o.coverage == 0)
        o.coverage = 1;
    qkv_status status = check_options(ctx, &o);
    if (status)
        return status;
    qkv_tokenizer_trainer *tr = qkv_calloc(ctx, 1, sizeof *tr);
    if (!tr)
        return QKV_E_MEMORY;
    tr->ctx = ctx;
    tr->options = o;
    qkv__vocab_init(&tr->words, ctx);
    bool ok = true;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        tr->options.special[i] = o.special[i] ? qkv_strdup(ctx, o.special[i]) : NULL;
        ok = ok && !o.special[i] == !tr->options.special[i];
    }
    if (ok && o.kind == QKV_TOKENIZER_CHAR) {
        tr->seen = qkv_calloc(ctx, CODE_POINTS / 8, 1);
        ok = tr->seen != NULL;
    }
    if (ok && kinds[o.kind].prepare)
        ok = kinds[o.kind].prepare(tr) == QKV_OK;
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
    return kinds[tr->options.kind].count(tr, text, len);
}

qkv_status qkv_tokenizer_trainer_add_file(qkv_tokenizer_trainer *tr, const char *file)
{
    qkv__map map;
    qkv_status status = qkv__map_open(&map, tr->ctx, file);
    if (status)
        return status;
    if (qkv_tokenizer_trainer_add(tr, (const char *)map.data, map.size))
        status = qkv_fail_prefix(tr->ctx, file);
    qkv__map_close(&map);
    return status;
}

qkv_status qkv_tokenizer_trainer_finish(qkv_tokenizer_trainer *tr, qkv_tokenizer **out)
{
    *out = NULL;
    if (tr->text_bytes == 0)
        return qkv_fail(tr->ctx, QKV_E_ARGUMENT, "there is no text to train a tokenizer on");
    qkv__vocab v;
    qkv__vocab_init(&v, tr->ctx);
    qkv_status status = add_specials(tr, &v);
    size_t specials = v.count;
    if (!status)
        status = kinds[tr->options.kind].finish(tr, &v, specials, out);
    qkv__vocab_free(&v);
    return status;
}

void qkv_tokenizer_trainer_destroy(qkv_tokenizer_trainer *tr)
{
    if (!tr)
        return;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        qkv_free(tr->ctx, (char *)(uintptr_t)tr->options.special[i]);
    qkv_free(tr->ctx, tr->seen);
    qkv_tokenizer_destroy(tr->cutter);
    qkv__spm_destroy(tr->spm);
    qkv__vocab_free(&tr->words);
    qkv_free(tr->ctx, tr->counts);
    qkv_free(tr->ctx, tr);
}
