/* gguf_spm.c - SentencePiece's BPE in GGUF files: "llama". A file has scores, tokenizer.json has
 * merges: all pairs that are a token, by its score. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/gguf_kinds.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    float score;
    int32_t token, left, right;
    uint32_t bytes; /* of the left part */
} scored;

/* The highest score first; of one token the longest left part. */
static int by_score_and_token(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->token != y->token)
        return x->token < y->token ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static qkv_status add_splits(qkv__gguf_reading *f, size_t id, scored **list, size_t *count,
                             size_t *capacity)
{
    size_t len;
    int32_t cp;
    const char *text = qkv__vocab_text(&f->vocab, (int32_t)id, &len);
    if (!text || qkv__gguf_type_of_token(f, id) != QKV__GGUF_NORMAL)
        return QKV_OK;
    for (size_t at = qkv__utf8_next(text, len, &cp); at < len;
         at += qkv__utf8_next(text + at, len - at, &cp)) {
        const int32_t left = qkv__vocab_find(&f->vocab, text, at);
        const int32_t right = qkv__vocab_find(&f->vocab, text + at, len - at);
        if (left < 0 || right < 0 || qkv__gguf_type_of_token(f, (size_t)left) != QKV__GGUF_NORMAL ||
            qkv__gguf_type_of_token(f, (size_t)right) != QKV__GGUF_NORMAL)
            continue;
        if (!qkv__grow(f->ctx, list, capacity, *count + 1, sizeof **list))
            return QKV_E_MEMORY;
        (*list)[(*count)++] = (scored){(float)qkv__gguf_real(f->scores, id), (int32_t)id, left,
                                       right, (uint32_t)at};
    }
    return QKV_OK;
}

static qkv_status make_merges(qkv__gguf_reading *f)
{
    scored *list = NULL;
    size_t count = 0, capacity = 0;
    qkv_status status = QKV_OK;
    for (size_t id = 0; id < f->tokens->count && !status; id++) {
        if (!isfinite(qkv__gguf_real(f->scores, id)))
            status = qkv__gguf_fail(f->g, QKV__FIELD("scores"), "score %zu is not finite", id);
        if (!status)
            status = add_splits(f, id, &list, &count, &capacity);
    }
    if (count)
        qsort(list, count, sizeof *list, by_score_and_token);
    for (size_t i = 0; i < count && !status; i++)
        if (!qkv__ids_push(f->ctx, &f->pairs, list[i].left) ||
            !qkv__ids_push(f->ctx, &f->pairs, list[i].right))
            status = QKV_E_MEMORY;
    qkv_free(f->ctx, list);
    return status;
}

/* What llama.cpp takes where the file does not say it. */
static void add_usual_roles(qkv__gguf_reading *f)
{
    static const struct {
        qkv_token_role role;
        int32_t id;
    } usual[] = {{QKV_TOKEN_UNK, 0}, {QKV_TOKEN_BOS, 1}, {QKV_TOKEN_EOS, 2}};
    size_t len;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (f->roles[usual[i].role] < 0 && qkv__vocab_text(&f->vocab, usual[i].id, &len))
            f->roles[usual[i].role] = usual[i].id;
}

qkv_status qkv__gguf_read_spm(qkv_tokenizer **out, qkv__gguf_reading *f)
{
    qkv__gguf_marks marks = {.prefix = true};
    if (!f->scores)
        return qkv__gguf_fail(f->g, QKV__FIELD("scores"), "is missing");
    f->add_bos = true;
    qkv_status status = qkv__gguf_add_tokens(f);
    if (!status) {
        add_usual_roles(f);
        status = qkv__gguf_read_roles(f);
    }
    if (!status)
        status = qkv__gguf_opt_bool(f->g, QKV__FIELD("add_space_prefix"), &marks.prefix);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, QKV__FIELD("remove_extra_whitespaces"), &marks.trim);
    if (!status && marks.trim)
        status = qkv__gguf_fail(f->g, QKV__FIELD("remove_extra_whitespaces"),
                                "true is not supported with this tokenizer.ggml.model");
    if (!status)
        status = make_merges(f);
    if (status)
        return status;
    json_t *model = qkv__gguf_bpe_model(qkv__gguf_role_text(f, QKV_TOKEN_UNK), true, false);
    json_t *spec = qkv__spec(qkv__gguf_added_tokens(f), qkv__gguf_marks_normalizer(&marks),
                             json_null(), qkv__gguf_processor(f),
                             qkv__gguf_marks_decoder(&marks, true), model);
    return qkv__tokenizer_build(out, qkv__gguf_path(f->g), spec, &f->vocab, &f->pairs);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Pairs of tokens that make this one. */
static size_t count_splits(const qkv__gguf_writing *w, size_t id)
{
    size_t len, count = 0;
    int32_t cp;
    const qkv__vocab *v = &w->t->vocab;
    const char *text = qkv__vocab_text(v, (int32_t)id, &len);
    if (!text || w->types[id] != QKV__GGUF_NORMAL)
        return 0;
    for (size_t at = qkv__utf8_next(text, len, &cp); at < len;
         at += qkv__utf8_next(text + at, len - at, &cp)) {
        const int32_t left = qkv__vocab_find(v, text, at);
        const int32_t right = qkv__vocab_find(v, text + at, len - at);
        count += left >= 0 && right >= 0 && w->types[left] == QKV__GGUF_NORMAL &&
                 w->types[right] == QKV__GGUF_NORMAL;
    }
    return count;
}

/* Scores that give these merges: by the order of what they make. There are such scores where all
 * pairs that make a token are merges, one token after another. */
static qkv_status score_merges(qkv__gguf_writing *w)
{
    static const char part[] = "model.merges, which are not those of SentencePiece's scores";
    const qkv__merges *m = qkv__bpe_merges(w->t);
    size_t splits = 0, made = 0;
    if (qkv__gguf_new_scores(w))
        return QKV_E_MEMORY;
    for (size_t i = 0; i < m->count; i++) {
        if (i && m->made[i] == m->made[i - 1])
            continue;
        if (w->scores[m->made[i]] < 0)
            return qkv__gguf_refuse(w, part);
        w->scores[m->made[i]] = -(float)++made;
    }
    for (size_t id = 0; id < w->o->count; id++) {
        splits += count_splits(w, id);
        if (w->scores[id] == 0 && w->types[id] == QKV__GGUF_NORMAL)
            w->scores[id] = -(float)(made + 1);
    }
    return splits == m->count ? QKV_OK : qkv__gguf_refuse(w, part);
}

/* llama.cpp has the bytes of unknown characters only. */
static qkv_status mark_bytes(qkv__gguf_writing *w)
{
    for (int byte = 0; byte < 256; byte++) {
        const int32_t id = qkv__fallback_find(&w->t->vocab, (char)byte);
        if (id < 0)
            return qkv__gguf_refuse(w, "model.vocab, which lacks tokens of bytes");
        w->types[id] = QKV__GGUF_BYTE;
    }
    if (w->t->special[QKV_TOKEN_UNK] >= 0)
        w->types[w->t->special[QKV_TOKEN_UNK]] = QKV__GGUF_UNKNOWN;
    return QKV_OK;
}

static void put_spm(const qkv__gguf_writing *w, bool prefix)
{
    qkv__gguf_put_tokens(w, "llama", "default", false);
    qkv__gguf_put_bool(w->f, QKV__FIELD("add_space_prefix"), prefix);
}

/* Of a SentencePiece model, which has the scores. */
static qkv_status write_model(qkv__gguf_writing *w)
{
    const qkv__spm *m = w->t->spm;
    if (w->t->marian || !m->byte_fallback || m->trim || m->suffix || !m->escape || m->map.blob)
        return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s: a SentencePiece model of BPE: expected "
                        "byte_fallback and no normalisation, as llama.cpp has it", w->o->dir);
    if (qkv__gguf_new_scores(w))
        return QKV_E_MEMORY;
    for (size_t id = 0; id < m->pieces.count; id++) {
        w->scores[id] = m->info[id].score;
        w->types[id] = m->info[id].type;
    }
    put_spm(w, m->prefix);
    return QKV_OK;
}

qkv_status qkv__gguf_write_spm(qkv__gguf_writing *w)
{
    const json_t *model = json_object_get(w->t->spec.value, "model");
    qkv__gguf_marks marks;
    if (w->t->spm)
        return write_model(w);
    if (!json_is_true(json_object_get(model, "byte_fallback")))
        return qkv__gguf_refuse(w, "model.byte_fallback");
    if (!qkv__gguf_marks_of(&marks, w->t) || marks.rules || marks.trim || marks.splits)
        return qkv__gguf_refuse(w, "normalizer with pre_tokenizer");
    qkv_status status = mark_bytes(w);
    if (!status)
        status = score_merges(w);
    if (!status)
        put_spm(w, marks.prefix);
    return status;
}
