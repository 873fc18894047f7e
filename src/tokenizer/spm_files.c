/* spm_files.c - tokenizers made of SentencePiece models: one model with its own ids, or
 * Marian's folder: source.spm and target.spm, whose pieces get their ids from vocab.json. */
#include "tokenizer/spm_files.h"

#include <string.h>

#include "io/file.h"
#include "tokenizer/models.h"
#include "tokenizer/spec.h"

/* A single model's names, by age of the models that use them. */
static const char *const single_names[] = {"spiece.model", "tokenizer.model",
                                           "sentencepiece.bpe.model", "sentencepiece.model"};

/* ---- one model ----------------------------------------------------------------------- */

static qkv_status own_vocab(qkv_tokenizer *t)
{
    const qkv__vocab *pieces = &t->spm->pieces;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < pieces->count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(pieces, (int32_t)i, &len);
        status = qkv__vocab_add(&t->vocab, text, len, (int32_t)i);
    }
    return status;
}

/* Pieces' ids by their texts in t->vocab; those it lacks are unknown. */
static qkv_status map_pieces(qkv_tokenizer *t)
{
    const qkv__vocab *pieces = &t->spm->pieces;
    int32_t unk = qkv__vocab_find(&t->vocab, "<unk>", 5);
    t->piece_ids = qkv_malloc(t->ctx, (pieces->count + 1) * sizeof *t->piece_ids);
    if (!t->piece_ids)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < pieces->count; i++) {
        size_t len;
        const char *text = qkv__vocab_text(pieces, (int32_t)i, &len);
        int32_t id = qkv__vocab_find(&t->vocab, text, len);
        t->piece_ids[i] = id < 0 || (int32_t)i == t->spm->unk ? unk : id;
    }
    return QKV_OK;
}

/* t->spm is set; t->vocab is too, or gets the model's own ids. */
static qkv_status spm_files_set_up(qkv_tokenizer *t)
{
    bool mapped = t->vocab.count > 0;
    qkv_status status = mapped ? map_pieces(t) : own_vocab(t);
    if (!status)
        status = qkv__normalizer_add_spm(&t->normalizer, t->ctx, t->spm);
    if (!status)
        status = qkv__decoder_add_spm(&t->decoder, t->ctx, t->spm);
    if (status)
        return status;
    return t->spm->kind == QKV__SPM_BPE ? qkv__spm_bpe_from_spm(t, t->spm, t->piece_ids)
                                        : qkv__unigram_from_spm(t, t->spm, t->piece_ids);
}

qkv_status qkv__tokenizer_of_spm(qkv_tokenizer **out, qkv__spm *m)
{
    qkv_tokenizer *t = qkv__tokenizer_new(m->ctx);
    static const struct {
        qkv_token_role role;
        const char *text;
    } roles[] = {{QKV_TOKEN_EOS, "</s>"}, {QKV_TOKEN_BOS, "<s>"}, {QKV_TOKEN_PAD, "<pad>"}};
    *out = NULL;
    if (!t) {
        qkv__spm_destroy(m);
        return QKV_E_MEMORY;
    }
    t->spm = m;
    qkv_status status = spm_files_set_up(t);
    if (!status)
        status = qkv__templates_default(&t->templates, t->ctx);
    if (status) {
        qkv_tokenizer_destroy(t);
        return status;
    }
    t->special[QKV_TOKEN_UNK] = m->unk;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        t->special[roles[i].role] = qkv_tokenizer_id(t, roles[i].text, strlen(roles[i].text));
    *out = t;
    return QKV_OK;
}

static qkv_status read_spm(qkv__spm **out, qkv_context *ctx, const char *path)
{
    char *data = NULL;
    size_t size = 0;
    *out = NULL;
    qkv_status status = qkv_file_read(ctx, path, (size_t)1 << 30, &data, &size);
    if (!status)
        status = qkv__spm_parse(out, ctx, path, data, size);
    qkv_free(ctx, data);
    return status;
}

qkv_status qkv_tokenizer_load_sentencepiece(qkv_tokenizer **out, qkv_context *ctx,
                                            const char *file)
{
    qkv__spm *m;
    *out = NULL;
    qkv_status status = read_spm(&m, ctx, file);
    return status ? status : qkv__tokenizer_of_spm(out, m);
}

qkv_status qkv__load_spm(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof single_names / sizeof *single_names && !status && !*out; i++) {
        const qkv_path path = qkv_path_in(dir, single_names[i]);
        if (qkv_file_exists(path.text))
            status = qkv_tokenizer_load_sentencepiece(out, ctx, path.text);
    }
    return status;
}

/* ---- Marian -------------------------------------------------------------------------- */

/* The special tokens as they are matched in text. */
static qkv_status spm_files_add_specials(qkv_tokenizer *t, const char *name)
{
    static const struct {
        qkv_token_role role;
        const char *text;
    } specials[] = {{QKV_TOKEN_EOS, "</s>"}, {QKV_TOKEN_UNK, "<unk>"}, {QKV_TOKEN_PAD, "<pad>"}};
    qkv__json list = {.ctx = t->ctx, .file = name, .value = json_array()};
    bool fine = true;
    for (size_t i = 0; i < 3; i++) {
        const char *text = specials[i].text;
        int32_t id = qkv__vocab_find(&t->vocab, text, strlen(text));
        t->special[specials[i].role] = id;
        if (id >= 0 && json_array_append_new(list.value, qkv__spec_added(text, id)))
            fine = false;
    }
    qkv_status status = fine ? qkv__added_read(&t->added, &t->vocab, &t->normalizer, &list)
                             : QKV_E_MEMORY;
    qkv__json_free(&list);
    for (int i = 0; i < 2 && !status; i++)
        if (t->special[specials[i].role] < 0)
            status = qkv_fail(t->ctx, QKV_E_FORMAT, "%s: the token \"%s\" is missing", name,
                              specials[i].text);
    return status;
}

/* One direction; takes m. */
static qkv_status marian_half(qkv_tokenizer **out, qkv__spm *m, const qkv__json *vocab)
{
    qkv_tokenizer *t = qkv__tokenizer_new(m->ctx);
    *out = t;
    if (!t) {
        qkv__spm_destroy(m);
        return QKV_E_MEMORY;
    }
    t->spm = m;
    t->marian = true;
    qkv_status status = qkv__vocab_read(&t->vocab, vocab);
    if (!status)
        status = spm_files_add_specials(t, vocab->file);
    if (!status)
        status = spm_files_set_up(t);
    if (status)
        return status;
    return qkv__templates_suffix(&t->templates, t->ctx, t->special[QKV_TOKEN_EOS]);
}

qkv_status qkv__tokenizer_of_marian(qkv_tokenizer **out, qkv__spm *source, qkv__spm *target,
                                    const qkv__json *vocab)
{
    qkv_context *ctx = source->ctx;
    qkv_status status = marian_half(out, source, vocab);
    if (status)
        qkv__spm_destroy(target);
    else
        status = marian_half(&(*out)->target, target, vocab);
    if (status) {
        qkv_tokenizer_destroy(*out);
        *out = NULL;
    }
    (void)ctx;
    return status;
}

qkv_status qkv__load_marian(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    const qkv_path first = qkv_path_in(dir, "source.spm"), words = qkv_path_in(dir, "vocab.json");
    qkv__spm *source = NULL, *target = NULL;
    qkv__json document, vocab;
    if (!qkv_file_exists(first.text))
        return QKV_OK;
    qkv_status status = qkv__json_load(&document, ctx, words.text);
    if (!status)
        status = qkv__json_get_object(&document, NULL, &vocab);
    if (!status)
        status = read_spm(&source, ctx, first.text);
    if (!status)
        status = read_spm(&target, ctx, qkv_path_in(dir, "target.spm").text);
    if (status)
        qkv__spm_destroy(source);
    else
        status = qkv__tokenizer_of_marian(out, source, target, &vocab);
    qkv__json_free(&document);
    return status;
}
