/* gguf_unigram.c - the unigram model in GGUF files: "t5". llama.cpp normalises a text as
 * SentencePiece does, and never takes a text apart into bytes. */
#include <math.h>
#include <string.h>

#include "base/base64.h"
#include "tokenizer/gguf_kinds.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* The least score of a token that texts are made of. */
static qkv_status least_score(const qkv__gguf_reading *f, double *out)
{
    *out = 0;
    for (size_t id = 0; id < f->tokens->count; id++) {
        const double score = qkv__gguf_real(f->scores, id);
        if (!isfinite(score))
            return qkv__gguf_fail(f->g, QKV__FIELD("scores"), "score %zu is not finite", id);
        if (qkv__gguf_type_of_token(f, id) == QKV__GGUF_NORMAL && score < *out)
            *out = score;
    }
    return QKV_OK;
}

/* [[text, score], ..]: an id's place is its own, so that ids without a token have a filler. What is
 * unknown costs more than the least score, which other tokens must not lower. */
static json_t *unigram_vocab(const qkv__gguf_reading *f, double least)
{
    json_t *list = json_array();
    bool fine = list != NULL;
    for (size_t id = 0; id < f->tokens->count && fine; id++) {
        char filler[QKV__GGUF_FILLER];
        size_t len;
        const char *text = qkv__vocab_text(&f->vocab, (int32_t)id, &len);
        const double score = text ? fmax(qkv__gguf_real(f->scores, id), least) : least;
        if (!text)
            (void)qkv__gguf_filler(filler, id);
        fine = json_array_append_new(list, json_pack("[s, f]", text ? text : filler, score)) == 0;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

/* The rules for characters, in base64; none: *out is empty. */
static qkv_status read_rules(const qkv__gguf_reading *f, qkv_str *out)
{
    const qkv__gguf_field *rules;
    qkv_status status = qkv__gguf_opt_numbers(f->g, QKV__FIELD("precompiled_charsmap"), &rules);
    if (status || !rules)
        return status;
    if (rules->kind != QKV__GGUF_U8 && rules->kind != QKV__GGUF_I8)
        return qkv__gguf_fail(f->g, QKV__FIELD("precompiled_charsmap"), "expected bytes");
    qkv__base64_put(out, rules->data, rules->count);
    return out->failed ? QKV_E_MEMORY : QKV_OK;
}

static qkv_status read_unigram_fields(qkv__gguf_reading *f, qkv__gguf_marks *marks, double *least)
{
    if (!f->scores)
        return qkv__gguf_fail(f->g, QKV__FIELD("scores"), "is missing");
    f->add_eos = true;
    qkv_status status = qkv__gguf_read_roles(f);
    if (!status && f->roles[QKV_TOKEN_UNK] < 0)
        return qkv__gguf_fail(f->g, QKV__FIELD("unknown_token_id"), "is missing");
    if (!status)
        status = qkv__gguf_opt_bool(f->g, QKV__FIELD("add_space_prefix"), &marks->prefix);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, QKV__FIELD("remove_extra_whitespaces"), &marks->trim);
    if (!status)
        status = qkv__gguf_add_tokens(f);
    return status ? status : least_score(f, least);
}

qkv_status qkv__gguf_read_unigram(qkv_tokenizer **out, qkv__gguf_reading *f)
{
    qkv__gguf_marks marks = {0};
    double least = 0;
    qkv_str rules;
    qkv_str_init(&rules, f->ctx);
    qkv_status status = read_unigram_fields(f, &marks, &least);
    if (!status)
        status = read_rules(f, &rules);
    marks.rules = rules.len ? rules.data : NULL;
    json_t *spec = NULL;
    if (!status)
        spec = qkv__spec(qkv__gguf_added_tokens(f), qkv__gguf_marks_normalizer(&marks),
                         json_null(), qkv__gguf_processor(f),
                         qkv__gguf_marks_decoder(&marks, false),
                         json_pack("{s:s, s:i, s:b, s:o}", "type", "Unigram", "unk_id",
                                   (int)f->roles[QKV_TOKEN_UNK], "byte_fallback", false, "vocab",
                                   unigram_vocab(f, least)));
    qkv_str_free(&rules);
    return status ? status
                  : qkv__tokenizer_from_spec(out, f->ctx, qkv__gguf_path(f->g), spec, NULL);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_marks(const qkv__gguf_writing *w, bool prefix, bool trim, const void *rules,
                      size_t bytes)
{
    qkv__gguf_put_tokens(w, "t5", "default", false);
    qkv__gguf_put_bool(w->f, QKV__FIELD("add_space_prefix"), prefix);
    qkv__gguf_put_bool(w->f, QKV__FIELD("remove_extra_whitespaces"), trim);
    if (bytes)
        qkv__gguf_put_bytes(w->f, QKV__FIELD("precompiled_charsmap"), rules, bytes);
}

/* Piece i of a SentencePiece model; false: it has no id of its own. */
static bool write_piece(qkv__gguf_writing *w, size_t i)
{
    const qkv__spm *m = w->t->spm;
    const bool unknown = (int32_t)i == m->unk;
    const int32_t id = w->t->piece_ids ? w->t->piece_ids[i] : (int32_t)i;
    size_t len, at;
    const char *text = qkv__vocab_text(&m->pieces, (int32_t)i, &at);
    const char *own = qkv__vocab_text(&w->t->vocab, id, &len);
    const int type = m->info[i].type;
    if (type == QKV__PIECE_CONTROL && w->t->piece_ids)
        return true; /* which vocab.json may lack */
    if (!own || (!unknown && (len != at || memcmp(own, text, len) != 0)))
        return false;
    w->scores[id] = m->info[i].score;
    w->types[id] = -type; /* taken */
    return true;
}

/* Of a SentencePiece model. Of Marian's the source's, whose pieces must be all that there are. */
static qkv_status write_unigram_model(qkv__gguf_writing *w)
{
    const qkv__spm *m = w->t->spm;
    bool fine = true;
    if (m->byte_fallback || m->suffix || !m->escape)
        return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s: a unigram model with byte_fallback, "
                        "marks behind words or without marks: llama.cpp has none", w->o->dir);
    for (size_t i = 0; i < m->pieces.count && fine; i++)
        fine = write_piece(w, i);
    for (size_t id = 0; id < w->o->count && fine; id++) {
        fine = w->types[id] != QKV__GGUF_NORMAL;
        w->types[id] = w->types[id] < 0 ? -w->types[id] : w->types[id];
    }
    if (!fine)
        return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s: vocab.json and source.spm do not have "
                        "the same tokens: a GGUF file has one list", w->o->dir);
    put_marks(w, m->prefix, m->trim, m->map.blob, m->map.len);
    return QKV_OK;
}

/* Whether a token has a mark that does not begin it, so that cutting texts before marks matters. */
static bool has_mark_inside(const qkv_tokenizer *t)
{
    const size_t n = strlen(QKV__SPACE_MARK);
    for (size_t id = 0; id < t->vocab.count; id++) {
        size_t len;
        const char *text = qkv__vocab_text(&t->vocab, (int32_t)id, &len);
        if (text && len > n && strstr(text + 1, QKV__SPACE_MARK))
            return true;
    }
    return false;
}

static qkv_status write_unigram_json(qkv__gguf_writing *w)
{
    const json_t *model = json_object_get(w->t->spec.value, "model");
    const json_t *unk = json_object_get(model, "unk_id");
    qkv__gguf_marks marks;
    qkv_str rules;
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return qkv__gguf_refuse(w, "model.byte_fallback");
    if (!json_is_integer(unk))
        return qkv__gguf_refuse(w, "model without unk_id");
    if (!qkv__gguf_marks_of(&marks, w->t) || (marks.splits && has_mark_inside(w->t)))
        return qkv__gguf_refuse(w, "normalizer with pre_tokenizer");
    for (size_t id = 0; id < w->t->vocab.count; id++)
        w->scores[id] = (float)qkv__unigram_score(w->t->model, (int32_t)id);
    w->types[json_integer_value(unk)] = QKV__GGUF_UNKNOWN;
    qkv_str_init(&rules, w->o->ctx);
    const bool fine = !marks.rules || qkv__base64_take(&rules, marks.rules);
    if (fine)
        put_marks(w, marks.prefix, marks.trim, rules.data, rules.len);
    qkv_str_free(&rules);
    return fine ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv__gguf_write_unigram(qkv__gguf_writing *w)
{
    if (qkv__gguf_new_scores(w))
        return QKV_E_MEMORY;
    return w->t->spm ? write_unigram_model(w) : write_unigram_json(w);
}
