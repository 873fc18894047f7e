/* train_kinds.c - kinds of tokenizers that are trained: characters, byte-level BPE and WordPiece,
 * whose merges train_bpe.c finds. */
#include "tokenizer/trainers.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"
#include "tokenizer/words_file.h"

enum { CODE_POINTS = 0x110000 };

/* ---- vocabularies -------------------------------------------------------------------- */

/* The 256 bytes in the order of their characters. */
static qkv_status train_kinds_add_bytes(qkv__vocab *v)
{
    qkv_status status = QKV_OK;
    for (int32_t cp = 0; cp <= 0x143 && !status; cp++) {
        char c[4];
        if (qkv__char_byte(cp) >= 0)
            status = qkv__train_add(v, c, qkv__utf8_put(c, cp));
    }
    return status;
}

static qkv_status add_chars(const qkv_tokenizer_trainer *tr, qkv__vocab *v)
{
    qkv_status status = QKV_OK;
    for (int32_t cp = 0; cp < CODE_POINTS && !status; cp++) {
        char c[4];
        if (tr->seen[cp / 8] >> (cp % 8) & 1)
            status = qkv__train_add(v, c, qkv__utf8_put(c, cp));
    }
    return status;
}

qkv_status qkv__train_build(const qkv_tokenizer_trainer *tr, json_t *spec, const qkv__vocab *v,
                            const qkv_ids *merges, qkv_tokenizer **out)
{
    qkv_status status = qkv__tokenizer_build(out, "trained tokenizer", spec, v, merges);
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
    return qkv__train_build(tr, qkv__spec_plain(o->kind, texts, ids, specials,
                                                o->special[QKV_TOKEN_UNK],
                                     begin, end), v, merges, out);
}

/* ---- kinds --------------------------------------------------------------------------- */

static qkv_status finish_chars(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                               qkv_tokenizer **out)
{
    qkv_status status = add_chars(tr, v);
    return status ? status : build_plain(tr, v, NULL, specials, out);
}

static qkv_status train_kinds_finish_bpe(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                         qkv_tokenizer **out)
{
    qkv_ids merges = {0};
    qkv_status status = train_kinds_add_bytes(v);
    if (!status && v->count > tr->options.vocab)
        status = qkv_fail(tr->ctx, QKV_E_ARGUMENT,
                          "a BPE vocabulary of %zu tokens: the bytes and special tokens alone "
                          "are %zu", tr->options.vocab, v->count);
    const qkv__bpe_training how = {true, "", tr->options.vocab, tr->options.min_count};
    if (!status)
        status = qkv__train_bpe(tr->ctx, v, &tr->words, tr->counts, &how, &merges);
    if (!status)
        status = build_plain(tr, v, &merges, specials, out);
    if (!status && (*out)->special[QKV_TOKEN_UNK] < 0) /* as GPT-2's: others' tools want a name */
        (*out)->special[QKV_TOKEN_UNK] = (*out)->special[QKV_TOKEN_EOS];
    qkv_ids_free(&merges, tr->ctx);
    return status;
}

static json_t *wordpiece_spec(const qkv_tokenizer_options *o, const qkv__vocab *v)
{
    const qkv__bert_options bert = {!o->keep_case, true, -1};
    int32_t ids[QKV_TOKEN_ROLES];
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        ids[i] = o->special[i] ? qkv__vocab_find(v, o->special[i], strlen(o->special[i])) : 0;
    return qkv__bert_spec(&bert, o->add_eos, o->special, ids);
}

/* Pieces joined by counts, as if they were BPE's. */
static qkv_status finish_wordpiece(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                   qkv_tokenizer **out)
{
    const qkv__bpe_training how = {false, "##", tr->options.vocab, tr->options.min_count};
    qkv_ids merges = {0};
    (void)specials;
    qkv_status status = qkv__train_alphabet(tr, v);
    if (!status)
        status = qkv__train_bpe(tr->ctx, v, &tr->words, tr->counts, &how, &merges);
    qkv_ids_free(&merges, tr->ctx);
    return status ? status : qkv__train_build(tr, wordpiece_spec(&tr->options, v), v, NULL, out);
}

/* What makes words of a text before there is a vocabulary. */
static qkv_status cut_wordpiece(qkv_tokenizer_trainer *tr)
{
    static const char *const unk[QKV_TOKEN_ROLES] = {[QKV_TOKEN_UNK] = "u"};
    const qkv_tokenizer_trainer plain = {.ctx = tr->ctx};
    qkv_tokenizer_options o = tr->options;
    qkv__vocab v;
    qkv__vocab_init(&v, tr->ctx);
    memcpy(o.special, unk, sizeof unk);
    qkv_status status = qkv__vocab_add(&v, "u", 1, 0);
    if (!status)
        status = qkv__train_build(&plain, wordpiece_spec(&o, &v), &v, NULL, &tr->cutter);
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

qkv_status qkv__train_count_lines(qkv_tokenizer_trainer *tr, const char *text, size_t len)
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

/* ---- the kinds ----------------------------------------------------------------------- */

static qkv_status prepare_chars(qkv_tokenizer_trainer *tr)
{
    tr->seen = qkv_calloc(tr->ctx, CODE_POINTS / 8, 1);
    return tr->seen ? QKV_OK : QKV_E_MEMORY;
}

static void bpe_defaults(qkv_tokenizer_options *o)
{
    o->special[QKV_TOKEN_EOS] = o->special[QKV_TOKEN_BOS] = "<|endoftext|>";
}

static void wordpiece_defaults(qkv_tokenizer_options *o)
{
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        o->special[i] = qkv__bert_names[i];
}

const qkv__trainer_kind qkv__trainer_chars = {
    .exact = true, .prepare = prepare_chars, .count = count_chars, .finish = finish_chars};
const qkv__trainer_kind qkv__trainer_bpe = {
    .least = 256, .defaults = bpe_defaults, .count = count_bytes, .finish = train_kinds_finish_bpe};
const qkv__trainer_kind qkv__trainer_wordpiece = {
    .least = 1, .defaults = wordpiece_defaults, .prepare = cut_wordpiece,
    .count = qkv__train_count_lines, .finish = finish_wordpiece};
