/* train_spm.c - SentencePiece models from text: what counts as a word, BPE over
 * characters, and the tokenizer made of the pieces. The unigram model's own training is in
 * train_unigram.c. */
#include "tokenizer/trainers.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bert.h"
#include "tokenizer/object.h"
#include "tokenizer/spec.h"
#include "tokenizer/spm_files.h"

/* What pieces do not mix: letters (with their marks), numbers, other characters. */
static int train_spm_kind_of(int32_t cp)
{
    qkv__char_class class = qkv__class_of(cp);
    if (class == QKV__LETTER || (cp >= 0 && qkv__is_mark(cp)))
        return 1;
    return class == QKV__NUMBER ? 2 : 3;
}

/* Bytes of the first word: the mark of a space goes with what follows. */
static size_t next_word(const char *s, size_t len)
{
    const size_t mark = strlen(QKV__SPACE_MARK);
    size_t at = len >= mark && memcmp(s, QKV__SPACE_MARK, mark) == 0 ? mark : 0;
    int kind = 0;
    while (at < len) {
        int32_t cp;
        size_t n = qkv__utf8_next(s + at, len - at, &cp);
        int here = cp == 0x2581 ? 0 : train_spm_kind_of(cp);
        if (!here || (kind && here != kind))
            break;
        kind = here;
        at += n;
    }
    return at;
}

static qkv_status train_spm_prepare(qkv_tokenizer_trainer *tr)
{
    tr->spm = qkv__spm_new(tr->ctx);
    return tr->spm ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status train_spm_count(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    qkv_str line;
    qkv_status status = QKV_OK;
    qkv_str_init(&line, tr->ctx);
    for (size_t at = 0, end; at < len && !status; at = end + 1) {
        const char *stop = memchr(text + at, '\n', len - at);
        end = stop ? (size_t)(stop - text) : len;
        qkv_str_clear(&line);
        qkv__spm_normalize(tr->spm, text + at, end - at, &line);
        if (line.failed)
            status = QKV_E_MEMORY;
        for (size_t i = 0, n; i < line.len && !status; i += n) {
            n = next_word(line.data + i, line.len - i);
            status = qkv__train_count_word(tr, line.data + i, n);
        }
    }
    qkv_str_free(&line);
    return status;
}

/* ---- the tokenizer ------------------------------------------------------------------- */

/* Appends the model's pieces that v has not got. */
static qkv_status add_pieces(qkv__vocab *v, const qkv__spm *m)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->pieces.count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&m->pieces, (int32_t)i, &len);
        if (m->info[i].type == QKV__PIECE_NORMAL && qkv__vocab_find(v, text, len) < 0)
            status = qkv__vocab_add(v, text, len, (int32_t)v->count);
    }
    return status;
}

/* Marian's vocab.json: </s>, <unk>, the pieces of both models in their order, <pad>. */
static qkv_status make_vocab(qkv__json *out, const qkv__spm *source, const qkv__spm *target)
{
    qkv_context *ctx = source->ctx;
    qkv__vocab v;
    qkv__vocab_init(&v, ctx);
    qkv_status status = qkv__vocab_add(&v, "</s>", 4, 0);
    if (!status)
        status = qkv__vocab_add(&v, "<unk>", 5, 1);
    if (!status)
        status = add_pieces(&v, source);
    if (!status)
        status = add_pieces(&v, target);
    if (!status)
        status = qkv__vocab_add(&v, "<pad>", 5, (int32_t)v.count);
    *out = (qkv__json){.ctx = ctx, .file = "trained tokenizer",
                       .value = status ? NULL : qkv__spec_vocab(&v)};
    qkv__vocab_free(&v);
    return out->value ? QKV_OK : QKV_E_MEMORY;
}

/* Takes both models, either of which may be NULL after a failure. */
static qkv_status build_pair(qkv_tokenizer **out, qkv_status status, qkv__spm *source,
                             qkv__spm *target)
{
    qkv__json vocab = {0};
    if (!status)
        status = make_vocab(&vocab, source, target);
    if (status) {
        qkv__spm_destroy(source);
        qkv__spm_destroy(target);
    } else {
        status = qkv__tokenizer_of_marian(out, source, target, &vocab);
    }
    qkv__json_free(&vocab);
    return status;
}

static qkv_status copy_model(qkv__spm **out, const qkv__spm *m)
{
    return qkv__spm_parse(out, m->ctx, "trained tokenizer", m->file.data, m->file.len);
}

/* Takes tr->spm, whose pieces are there: the same model for both languages. */
static qkv_status train_spm_build(qkv_tokenizer_trainer *tr, qkv_tokenizer **out)
{
    qkv__spm *m = tr->spm, *target = NULL;
    tr->spm = NULL;
    m->coverage = tr->options.coverage;
    qkv_status status = qkv__spm_finish(m, "trained tokenizer");
    if (!status)
        status = qkv__spm_write(m);
    if (!status)
        status = copy_model(&target, m);
    return build_pair(out, status, m, target);
}

qkv_status qkv_tokenizer_join(qkv_tokenizer **out, const qkv_tokenizer *source,
                              const qkv_tokenizer *target)
{
    qkv__spm *models[2] = {NULL, NULL};
    *out = NULL;
    if (!source->marian || !target->marian)
        return qkv_fail(source->ctx, QKV_E_UNSUPPORTED, "a model for each language: two "
                        "tokenizers with SentencePiece models expected");
    qkv_status status = copy_model(&models[0], source->spm);
    if (!status)
        status = copy_model(&models[1], target->spm);
    return build_pair(out, status, models[0], models[1]);
}

static bool reserved(const char *text, size_t len)
{
    static const char *const names[] = {"<unk>", "<s>", "</s>", "<pad>"};
    for (size_t i = 0; i < 4; i++)
        if (strlen(names[i]) == len && memcmp(text, names[i], len) == 0)
            return true;
    return false;
}

static qkv_status train_spm_add_specials(qkv__spm *m, int kind)
{
    m->kind = kind;
    qkv_status status = qkv__spm_add(m, "<unk>", 5, 0, QKV__PIECE_UNKNOWN);
    if (!status)
        status = qkv__spm_add(m, "<s>", 3, 0, QKV__PIECE_CONTROL);
    return status ? status : qkv__spm_add(m, "</s>", 4, 0, QKV__PIECE_CONTROL);
}

/* </s>, <unk> and <pad> take three of the ids. */
static size_t room(const qkv_tokenizer_trainer *tr)
{
    return tr->options.vocab - 3;
}

static qkv_status check_room(const qkv_tokenizer_trainer *tr, size_t characters)
{
    if (characters <= room(tr))
        return QKV_OK;
    return qkv_fail(tr->ctx, QKV_E_ARGUMENT,
                    "a vocabulary of %zu tokens: the characters and special tokens alone are %zu",
                    tr->options.vocab, characters + 3);
}

static qkv_status train_spm_finish_bpe(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                       qkv_tokenizer **out)
{
    const qkv__bpe_training how = {false, "", room(tr), tr->options.min_count};
    qkv_ids merges = {0};
    (void)specials;
    qkv_status status = qkv__train_alphabet(tr, v);
    size_t characters = v->count;
    if (!status)
        status = check_room(tr, characters);
    if (!status)
        status = qkv__train_bpe(tr->ctx, v, &tr->words, tr->counts, &how, &merges);
    if (!status)
        status = train_spm_add_specials(tr->spm, QKV__SPM_BPE);
    for (size_t i = 0; i < v->count && !status; i++) { /* merges in their order, characters */
        size_t id = i < v->count - characters ? characters + i : i - (v->count - characters), len;
        const char *text = qkv__vocab_text(v, (int32_t)id, &len);
        if (!reserved(text, len))
            status = qkv__spm_add(tr->spm, text, len, -(float)i, QKV__PIECE_NORMAL);
    }
    qkv_ids_free(&merges, tr->ctx);
    return status ? status : train_spm_build(tr, out);
}

static qkv_status finish_unigram(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                 qkv_tokenizer **out)
{
    float *scores = NULL;
    qkv__vocab pieces;
    (void)specials;
    qkv__vocab_init(&pieces, tr->ctx);
    qkv_status status = qkv__train_alphabet(tr, v);
    if (!status)
        status = check_room(tr, v->count);
    if (!status)
        status = qkv__train_unigram(tr->ctx, v, &tr->words, tr->counts, room(tr), &pieces, &scores);
    if (!status)
        status = train_spm_add_specials(tr->spm, QKV__SPM_UNIGRAM);
    for (size_t i = 0; i < pieces.count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&pieces, (int32_t)i, &len);
        if (!reserved(text, len))
            status = qkv__spm_add(tr->spm, text, len, scores[i], QKV__PIECE_NORMAL);
    }
    qkv__vocab_free(&pieces);
    qkv_free(tr->ctx, scores);
    return status ? status : train_spm_build(tr, out);
}

static void defaults(qkv_tokenizer_options *o) { o->coverage = 0.9995; }

#define SENTENCEPIECE(finish_)                                                                     \
    {                                                                                              \
        .least = 4, .own_special = true, .defaults = defaults, .prepare = train_spm_prepare,       \
        .count = train_spm_count, .finish = finish_                                                \
    }
const qkv__trainer_kind qkv__trainer_unigram = SENTENCEPIECE(finish_unigram);
const qkv__trainer_kind qkv__trainer_spm_bpe = SENTENCEPIECE(train_spm_finish_bpe);
