/* words_file.c - BERT's tokenizer files: vocab.txt, and what stands beside it in
 * tokenizer_config.json. */
#include "tokenizer/words_file.h"

#include <string.h>

#include "base/utf8.h"
#include "io/file.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"

/* BERT's names; NULL: it has no such token. */
const char *const qkv__bert_names[QKV_TOKEN_ROLES] = {
    [QKV_TOKEN_PAD] = "[PAD]", [QKV_TOKEN_UNK] = "[UNK]",   [QKV_TOKEN_CLS] = "[CLS]",
    [QKV_TOKEN_SEP] = "[SEP]", [QKV_TOKEN_MASK] = "[MASK]",
};

/* ---- the parts ----------------------------------------------------------------------- */

static json_t *normalizer(const qkv__bert_options *o)
{
    json_t *accents = o->accents < 0 ? json_null() : json_boolean(o->accents);
    return json_pack("{s:s, s:b, s:b, s:o, s:b}", "type", "BertNormalizer", "clean_text", true,
                     "handle_chinese_chars", o->ideographs, "strip_accents", accents, "lowercase",
                     o->lowercase);
}

/* Those with an id each, once. */
static json_t *added_tokens(const char *const special[QKV_TOKEN_ROLES],
                            const int32_t ids[QKV_TOKEN_ROLES])
{
    json_t *added = json_array();
    bool fine = true;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        bool seen = !special[i];
        for (size_t k = 0; k < i && !seen; k++)
            seen = special[k] && ids[k] == ids[i];
        if (!seen && json_array_append_new(added, qkv__spec_added(special[i], ids[i])))
            fine = false;
    }
    if (fine)
        return added;
    json_decref(added);
    return NULL;
}

json_t *qkv__bert_spec(const qkv__bert_options *o, bool ends,
                       const char *const special[QKV_TOKEN_ROLES],
                       const int32_t ids[QKV_TOKEN_ROLES])
{
    qkv_token_role end = ends ? QKV_TOKEN_EOS : QKV_TOKEN_SEP;
    const char *begin = ends ? NULL : special[QKV_TOKEN_CLS], *unk = special[QKV_TOKEN_UNK];
    json_t *processor = special[end] && (begin || ends)
                            ? qkv__spec_template(begin, ids[QKV_TOKEN_CLS], special[end], ids[end])
                            : json_null();
    json_t *decoder = json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", "##", "cleanup",
                                true);
    json_t *model = json_pack("{s:s, s:s, s:s, s:i}", "type", "WordPiece", "unk_token",
                              unk ? unk : qkv__bert_names[QKV_TOKEN_UNK],
                              "continuing_subword_prefix", "##", "max_input_chars_per_word", 100);
    return qkv__spec(added_tokens(special, ids), normalizer(o),
                     json_pack("{s:s}", "type", "BertPreTokenizer"), processor, decoder, model);
}

void qkv__put_bert_config(const qkv_tokenizer *t, qkv_json_writer *w)
{
    const json_t *n = json_object_get(t->spec.value, "normalizer");
    const json_t *accents = json_object_get(n, "strip_accents");
    const char *type = json_string_value(json_object_get(n, "type"));
    if (!type || strcmp(type, "BertNormalizer") != 0) {
        qkv_json_put_string(w, "tokenizer_class", "PreTrainedTokenizerFast");
        return;
    }
    qkv_json_put_bool(w, "do_lower_case", !json_is_false(json_object_get(n, "lowercase")));
    if (json_is_boolean(accents))
        qkv_json_put_bool(w, "strip_accents", json_is_true(accents));
    else
        qkv_json_put_null(w, "strip_accents");
    qkv_json_put_bool(w, "tokenize_chinese_chars",
                      !json_is_false(json_object_get(n, "handle_chinese_chars")));
    qkv_json_put_string(w, "tokenizer_class", "BertTokenizer");
}

int32_t qkv__bert_role(const qkv_tokenizer *t, qkv_token_role role)
{
    const char *name = qkv__bert_names[role];
    return name ? qkv_tokenizer_id(t, name, strlen(name)) : -1;
}

/* ---- vocab.txt ----------------------------------------------------------------------- */

/* A token a line; ids are line numbers from 0. */
static qkv_status words_file_read_lines(qkv__vocab *v, const char *path, const char *text,
                                        size_t len)
{
    const char *end = text + len;
    qkv_status status = QKV_OK;
    for (const char *p = text; p < end && !status;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        if (stop > p && stop[-1] == '\r')
            stop--;
        size_t n = (size_t)(stop - p);
        int32_t old = qkv__vocab_find(v, p, n);
        if (qkv__utf8_valid(p, n) < n || memchr(p, 0, n))
            return qkv_fail(v->ctx, QKV_E_FORMAT, "%s: line %zu is not text in UTF-8", path,
                            v->count + 1);
        if (old >= 0)
            return qkv_fail(v->ctx, QKV_E_FORMAT,
                            "%s: line %zu: the token \"%.*s\" stands in line %d already", path,
                            v->count + 1, n < 60 ? (int)n : 60, p, (int)old + 1);
        if (v->count == QKV_TOKENIZER_ID_LIMIT)
            return qkv_fail(v->ctx, QKV_E_UNSUPPORTED, "%s: more than %d tokens", path,
                            QKV_TOKENIZER_ID_LIMIT);
        status = qkv__vocab_add(v, p, n, (int32_t)v->count);
        p = next;
    }
    if (!status && v->count == 0)
        status = qkv_fail(v->ctx, QKV_E_FORMAT, "%s: there is no token in it", path);
    return status;
}

static qkv_status read_config(qkv__bert_options *o, const char *names[QKV_TOKEN_ROLES],
                              const qkv__json *at)
{
    bool accents = false;
    qkv_status status = qkv__json_opt_bool(at, "do_lower_case", &o->lowercase);
    if (!status)
        status = qkv__json_opt_bool(at, "tokenize_chinese_chars", &o->ideographs);
    if (!status && qkv__json_has(at, "strip_accents")) {
        status = qkv__json_get_bool(at, "strip_accents", &accents);
        o->accents = accents;
    }
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        const json_t *value = json_object_get(at->value, qkv__role_keys[i]);
        const char *text = json_string_value(json_is_object(value)
                                                 ? json_object_get(value, "content") : value);
        names[i] = text ? text : names[i];
    }
    return status;
}

static qkv_status words_file_build(qkv_tokenizer **out, const qkv__vocab *v, const char *path,
                                   const qkv__bert_options *o, const char *const *names)
{
    const char *special[QKV_TOKEN_ROLES] = {NULL};
    int32_t ids[QKV_TOKEN_ROLES];
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        ids[i] = names[i] ? qkv__vocab_find(v, names[i], strlen(names[i])) : -1;
        special[i] = ids[i] >= 0 ? names[i] : NULL;
    }
    return qkv__tokenizer_build(out, path, qkv__bert_spec(o, false, special, ids), v, NULL);
}

qkv_status qkv__load_vocab_txt(qkv_tokenizer **out, qkv_context *ctx, const char *path,
                               const qkv__json *config)
{
    qkv__bert_options o = {.lowercase = true, .ideographs = true, .accents = -1};
    const char *names[QKV_TOKEN_ROLES];
    char *text = NULL;
    size_t len = 0;
    qkv__vocab v;
    *out = NULL;
    memcpy(names, qkv__bert_names, sizeof names);
    qkv__vocab_init(&v, ctx);
    qkv_status status = config ? read_config(&o, names, config) : QKV_OK;
    if (!status)
        status = qkv_file_read(ctx, path, (size_t)1 << 28, &text, &len);
    if (!status)
        status = words_file_read_lines(&v, path, text, len);
    if (!status)
        status = words_file_build(out, &v, path, &o, names);
    qkv_free(ctx, text);
    qkv__vocab_free(&v);
    return status;
}
