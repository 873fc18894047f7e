/* gguf_write.c - a tokenizer as the fields of a GGUF file. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/gguf.h"
#include "tokenizer/models.h"
#include "tokenizer/spm.h"

#define FIELD(name) "tokenizer.ggml." name

typedef struct {
    const qkv_tokenizer *t;
    qkv__gguf_fields *f;
    const qkv__gguf_tokenizer_options *o;
    float *scores; /* (count) or NULL */
    int *types;    /* (count) */
} writing;

static qkv_status gguf_refuse(const writing *w, const char *part)
{
    return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s/tokenizer.json: %s: a GGUF file has no place "
                    "for this one", w->o->dir, part);
}

static bool gguf_is_type(const json_t *at, const char *type)
{
    const char *found = json_string_value(json_object_get(at, "type"));
    return found && strcmp(found, type) == 0;
}

static bool says(const json_t *at, const char *key, const char *value)
{
    const char *found = json_string_value(json_object_get(at, key));
    return found && strcmp(found, value) == 0;
}

/* ---- around a text --------------------------------------------------------------------------- */

/* At most bos (or CLS) before it and eos (or SEP) behind. */
static qkv_status put_template(const writing *w)
{
    const qkv_tokenizer *t = w->t;
    const qkv__template *x = &t->templates.single;
    bool before = false, behind = false, text = false;
    for (size_t i = 0; i < x->count; i++) {
        const int32_t id = x->items[i].id;
        bool *side = text ? &behind : &before;
        const qkv_token_role roles[] = {text ? QKV_TOKEN_EOS : QKV_TOKEN_BOS,
                                        text ? QKV_TOKEN_SEP : QKV_TOKEN_CLS};
        if (id == QKV__TEXT_A) {
            text = true;
            continue;
        }
        if (*side || (id != t->special[roles[0]] && id != t->special[roles[1]]))
            return gguf_refuse(w, "post_processor");
        *side = true;
    }
    if (t->kind == &qkv__model_wordpiece)
        return before && behind ? QKV_OK : gguf_refuse(w, "post_processor");
    qkv__gguf_put_bool(w->f, FIELD("add_bos_token"), before);
    qkv__gguf_put_bool(w->f, FIELD("add_eos_token"), behind);
    return QKV_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* What a GGUF file does not have, and llama.cpp does without. */
static void note_stripping(const writing *w)
{
    const qkv__added *a = &w->t->added;
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].lstrip || a->list[i].rstrip || a->list[i].single_word)
            qkv__note(w->o->ctx, "lstrip, rstrip and single_word of the token \"%s\" have no place "
                      "in a GGUF file", qkv_tokenizer_token(w->t, a->list[i].id, NULL));
}

static qkv_status take_types(writing *w)
{
    const size_t count = qkv_tokenizer_vocab_size(w->t);
    if (count > w->o->count)
        return qkv_fail(w->o->ctx, QKV_E_FORMAT, "%s: the tokenizer has %zu tokens, the model %zu",
                        w->o->dir, count, w->o->count);
    w->types = qkv_calloc(w->o->ctx, w->o->count + 1, sizeof *w->types);
    if (!w->types)
        return QKV_E_MEMORY;
    for (size_t id = 0; id < w->o->count; id++) {
        const qkv__added_token *a = qkv__added_find(&w->t->added, (int32_t)id);
        const bool is = qkv_tokenizer_token(w->t, (int32_t)id, NULL) != NULL;
        w->types[id] = !is          ? QKV__GGUF_UNUSED
                       : !a         ? QKV__GGUF_NORMAL
                       : a->special ? QKV__GGUF_CONTROL
                                    : QKV__GGUF_USER;
    }
    note_stripping(w);
    return QKV_OK;
}

static void put_token(const writing *w, size_t id, bool words)
{
    char filler[QKV__GGUF_FILLER];
    size_t len;
    const char *text = qkv_tokenizer_token(w->t, (int32_t)id, &len);
    if (!text) {
        len = qkv__gguf_filler(filler, id);
        text = filler;
    }
    if (!words || w->types[id] != QKV__GGUF_NORMAL) {
        qkv__gguf_item_string(w->f, text, len);
        return;
    }
    qkv_str marked; /* "##" continues a word here, a mark begins one there */
    qkv_str_init(&marked, w->o->ctx);
    const bool inside = len > 2 && memcmp(text, "##", 2) == 0;
    qkv_str_puts(&marked, inside ? "" : QKV__SPACE_MARK);
    qkv_str_add(&marked, text + (inside ? 2 : 0), len - (inside ? 2 : 0));
    if (marked.failed)
        w->f->bytes.failed = true;
    else
        qkv__gguf_item_string(w->f, marked.data, marked.len);
    qkv_str_free(&marked);
}

static void put_tokens(const writing *w, bool words)
{
    qkv__gguf_put_array(w->f, FIELD("tokens"), QKV__GGUF_STRING, w->o->count);
    for (size_t id = 0; id < w->o->count; id++)
        put_token(w, id, words);
    if (w->scores) {
        qkv__gguf_put_array(w->f, FIELD("scores"), QKV__GGUF_F32, w->o->count);
        for (size_t id = 0; id < w->o->count; id++)
            qkv__gguf_item_f32(w->f, w->scores[id]);
    }
    qkv__gguf_put_array(w->f, FIELD("token_type"), QKV__GGUF_I32, w->o->count);
    for (size_t id = 0; id < w->o->count; id++)
        qkv__gguf_item_i32(w->f, w->types[id]);
}

/* ---- byte-level BPE -------------------------------------------------------------------------- */

static void gguf_put_merges(const writing *w)
{
    const qkv__merges *m = qkv__bpe_merges(w->t);
    qkv_str merge;
    qkv_str_init(&merge, w->o->ctx);
    qkv__gguf_put_array(w->f, FIELD("merges"), QKV__GGUF_STRING, m->count);
    for (size_t i = 0; i < m->count; i++) {
        qkv_str_clear(&merge);
        for (int side = 0; side < 2; side++) {
            size_t len;
            const char *text = qkv__vocab_text(&w->t->vocab, m->pairs[i][side], &len);
            qkv_str_puts(&merge, side ? " " : "");
            qkv_str_add(&merge, text, len);
        }
        if (merge.failed)
            w->f->bytes.failed = true;
        else
            qkv__gguf_item_string(w->f, merge.data, merge.len);
    }
    qkv_str_free(&merge);
}

static qkv_status write_gpt2(writing *w)
{
    const qkv__gguf_pre *pre = qkv__gguf_pre_of(w->t);
    if (w->t->word_end)
        return gguf_refuse(w, "model.end_of_word_suffix");
    if (!pre)
        return gguf_refuse(w, "pre_tokenizer, with normalizer and model.ignore_merges");
    qkv__gguf_put_string(w->f, FIELD("model"), "gpt2");
    qkv__gguf_put_string(w->f, FIELD("pre"), pre->name);
    put_tokens(w, false);
    gguf_put_merges(w);
    return QKV_OK;
}

/* ---- SentencePiece's BPE --------------------------------------------------------------------- */

static bool is_mark_replaced(const json_t *at)
{
    return gguf_is_type(at, "Replace") && says(at, "content", QKV__SPACE_MARK) &&
           says(json_object_get(at, "pattern"), "String", " ");
}

/* Whether a mark is put before a text; false: the parts are others. */
static bool find_prefix(const qkv_tokenizer *t, bool *prefix)
{
    const json_t *n = json_object_get(t->spec.value, "normalizer");
    const json_t *p = json_object_get(t->spec.value, "pre_tokenizer");
    const json_t *list = json_object_get(n, "normalizers");
    const bool no_n = !n || json_is_null(n), no_p = !p || json_is_null(p);
    if (no_n && gguf_is_type(p, "Metaspace")) {
        *prefix = !says(p, "prepend_scheme", "never");
        return says(p, "replacement", QKV__SPACE_MARK) &&
               json_is_false(json_object_get(p, "split"));
    }
    *prefix = gguf_is_type(n, "Sequence");
    if (!no_p || !*prefix)
        return no_p && is_mark_replaced(n);
    const json_t *first = json_array_get(list, 0);
    return json_array_size(list) == 2 && gguf_is_type(first, "Prepend") &&
           says(first, "prepend", QKV__SPACE_MARK) && is_mark_replaced(json_array_get(list, 1));
}

/* Pairs of tokens that make this one. */
static size_t count_splits(const writing *w, size_t id)
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
static qkv_status score_merges(writing *w)
{
    static const char part[] = "model.merges, which are not those of SentencePiece's scores";
    const qkv__merges *m = qkv__bpe_merges(w->t);
    size_t splits = 0, made = 0;
    w->scores = qkv_calloc(w->o->ctx, w->o->count + 1, sizeof *w->scores);
    if (!w->scores)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < m->count; i++) {
        if (i && m->made[i] == m->made[i - 1])
            continue;
        if (w->scores[m->made[i]] < 0)
            return gguf_refuse(w, part);
        w->scores[m->made[i]] = -(float)++made;
    }
    for (size_t id = 0; id < w->o->count; id++) {
        splits += count_splits(w, id);
        if (w->scores[id] == 0 && w->types[id] == QKV__GGUF_NORMAL)
            w->scores[id] = -(float)(made + 1);
    }
    return splits == m->count ? QKV_OK : gguf_refuse(w, part);
}

/* llama.cpp has the bytes of unknown characters only. */
static qkv_status mark_bytes(writing *w)
{
    for (int byte = 0; byte < 256; byte++) {
        const int32_t id = qkv__fallback_find(&w->t->vocab, (char)byte);
        if (id < 0)
            return gguf_refuse(w, "model.vocab, which lacks tokens of bytes");
        w->types[id] = QKV__GGUF_BYTE;
    }
    if (w->t->special[QKV_TOKEN_UNK] >= 0)
        w->types[w->t->special[QKV_TOKEN_UNK]] = QKV__GGUF_UNKNOWN;
    return QKV_OK;
}

static void put_spm(const writing *w, bool prefix)
{
    qkv__gguf_put_string(w->f, FIELD("model"), "llama");
    qkv__gguf_put_string(w->f, FIELD("pre"), "default");
    put_tokens(w, false);
    qkv__gguf_put_bool(w->f, FIELD("add_space_prefix"), prefix);
}

static qkv_status write_fallback(writing *w)
{
    const json_t *model = json_object_get(w->t->spec.value, "model");
    bool prefix = false;
    if (!json_is_true(json_object_get(model, "byte_fallback")))
        return gguf_refuse(w, "model.byte_fallback");
    if (!find_prefix(w->t, &prefix))
        return gguf_refuse(w, "normalizer with pre_tokenizer");
    qkv_status status = mark_bytes(w);
    if (!status)
        status = score_merges(w);
    if (!status)
        put_spm(w, prefix);
    return status;
}

/* Of a SentencePiece model, which has the scores. */
static qkv_status write_spm(writing *w)
{
    const qkv__spm *m = w->t->spm;
    if (w->t->marian || m->kind != QKV__SPM_BPE || !m->byte_fallback || m->trim || m->suffix ||
        !m->escape || m->map.blob)
        return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s: a SentencePiece model: expected BPE "
                        "with byte_fallback and without normalisation, as llama.cpp has it",
                        w->o->dir);
    w->scores = qkv_calloc(w->o->ctx, w->o->count + 1, sizeof *w->scores);
    if (!w->scores)
        return QKV_E_MEMORY;
    for (size_t id = 0; id < m->pieces.count; id++) {
        w->scores[id] = m->info[id].score;
        w->types[id] = m->info[id].type;
    }
    put_spm(w, m->prefix);
    return QKV_OK;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

static qkv_status write_words(writing *w)
{
    const json_t *n = json_object_get(w->t->spec.value, "normalizer");
    const json_t *p = json_object_get(w->t->spec.value, "pre_tokenizer");
    const json_t *model = json_object_get(w->t->spec.value, "model");
    const json_t *accents = json_object_get(n, "strip_accents");
    if (!gguf_is_type(n, "BertNormalizer") || json_is_false(json_object_get(n, "clean_text")) ||
        json_is_false(json_object_get(n, "handle_chinese_chars")))
        return gguf_refuse(w, "normalizer");
    if (!gguf_is_type(p, "BertPreTokenizer"))
        return gguf_refuse(w, "pre_tokenizer");
    if (json_object_get(model, "continuing_subword_prefix") &&
        !says(model, "continuing_subword_prefix", "##"))
        return gguf_refuse(w, "model.continuing_subword_prefix");
    qkv__gguf_put_string(w->f, FIELD("model"), "bert");
    qkv__gguf_put_string(w->f, FIELD("pre"), "default");
    put_tokens(w, true);
    qkv__gguf_put_bool(w->f, FIELD("normalizer.lowercase"),
                       !json_is_false(json_object_get(n, "lowercase")));
    if (json_is_boolean(accents))
        qkv__gguf_put_bool(w->f, FIELD("normalizer.strip_accents"), json_is_true(accents));
    return QKV_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static qkv_status write_kind(writing *w)
{
    const qkv_tokenizer *t = w->t;
    if (t->spm)
        return write_spm(w);
    if (t->kind == &qkv__model_wordpiece)
        return write_words(w);
    if (t->kind == &qkv__model_bpe)
        return t->splitter.byte_level ? write_gpt2(w) : write_fallback(w);
    return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s/tokenizer.json: a GGUF file has no place for "
                    "a %s tokenizer", w->o->dir, t->kind->name);
}

qkv_status qkv__tokenizer_to_gguf(const qkv_tokenizer *t, qkv__gguf_fields *f,
                                  const qkv__gguf_tokenizer_options *o)
{
    writing w = {.t = t, .f = f, .o = o};
    if (!t) {
        qkv__gguf_put_string(f, FIELD("model"), "none");
        return QKV_OK;
    }
    qkv_status status = take_types(&w);
    if (!status)
        status = write_kind(&w);
    if (!status)
        status = put_template(&w);
    if (!status)
        qkv__gguf_put_template(f, o->ctx, o->chat_template,
                               json_object_get(t->config.value, "chat_template"));
    qkv_free(o->ctx, w.scores);
    qkv_free(o->ctx, w.types);
    return status;
}
