/* gguf_words.c - WordPiece in GGUF files: "bert". A mark begins a word there, "##" continues one in
 * tokenizer.json. */
#include <string.h>

#include "tokenizer/gguf_kinds.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"
#include "tokenizer/words_file.h"

/* ---- reading --------------------------------------------------------------------------------- */

static qkv_status add_words(qkv__gguf_reading *f)
{
    static const char mark[] = QKV__SPACE_MARK;
    const size_t n = sizeof mark - 1;
    qkv_status status = QKV_OK;
    qkv_str word;
    qkv_str_init(&word, f->ctx);
    for (size_t id = 0; id < f->tokens->count && !status; id++) {
        size_t len;
        const char *text = qkv__gguf_text(f->tokens, id, &len);
        const int64_t type = qkv__gguf_type_of_token(f, id);
        const bool begins = len > n && memcmp(text, mark, n) == 0;
        const bool whole = type == QKV__GGUF_CONTROL || type == QKV__GGUF_UNKNOWN ||
                           (len > 1 && text[0] == '[' && text[len - 1] == ']');
        if (!len || qkv__gguf_is_filler(f, id, text, len))
            continue;
        qkv_str_clear(&word);
        if (!begins && !whole)
            qkv_str_puts(&word, "##");
        qkv_str_add(&word, text + (begins ? n : 0), len - (begins ? n : 0));
        status = word.failed ? QKV_E_MEMORY : qkv__gguf_add_token(f, id, word.data, word.len);
    }
    qkv_str_free(&word);
    return status;
}

qkv_status qkv__gguf_read_words(qkv_tokenizer **out, qkv__gguf_reading *f)
{
    qkv__bert_options o = {.lowercase = true, .ideographs = true, .accents = -1};
    const char *special[QKV_TOKEN_ROLES] = {NULL};
    bool accents = false;
    qkv_status status = qkv__gguf_read_roles(f);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, QKV__FIELD("normalizer.lowercase"), &o.lowercase);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, QKV__FIELD("normalizer.strip_accents"), &accents);
    if (!status && qkv__gguf_find(f->g, QKV__FIELD("normalizer.strip_accents")))
        o.accents = accents;
    if (!status)
        status = add_words(f);
    if (status)
        return status;
    if (f->roles[QKV_TOKEN_CLS] < 0)
        f->roles[QKV_TOKEN_CLS] = f->roles[QKV_TOKEN_BOS];
    f->roles[QKV_TOKEN_BOS] = f->roles[QKV_TOKEN_EOS] = -1;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        const char *usual = qkv__bert_names[i];
        if (f->roles[i] < 0 && usual)
            f->roles[i] = qkv__vocab_find(&f->vocab, usual, strlen(usual));
        special[i] = qkv__gguf_role_text(f, (qkv_token_role)i);
    }
    return qkv__tokenizer_build(out, qkv__gguf_path(f->g),
                                qkv__bert_spec(&o, false, special, f->roles), &f->vocab, NULL);
}

/* ---- writing --------------------------------------------------------------------------------- */

qkv_status qkv__gguf_write_words(qkv__gguf_writing *w)
{
    const json_t *n = json_object_get(w->t->spec.value, "normalizer");
    const json_t *p = json_object_get(w->t->spec.value, "pre_tokenizer");
    const json_t *model = json_object_get(w->t->spec.value, "model");
    const json_t *accents = json_object_get(n, "strip_accents");
    if (!qkv__spec_says(n, "type", "BertNormalizer") ||
        json_is_false(json_object_get(n, "clean_text")) ||
        json_is_false(json_object_get(n, "handle_chinese_chars")))
        return qkv__gguf_refuse(w, "normalizer");
    if (!qkv__spec_says(p, "type", "BertPreTokenizer"))
        return qkv__gguf_refuse(w, "pre_tokenizer");
    if (json_object_get(model, "continuing_subword_prefix") &&
        !qkv__spec_says(model, "continuing_subword_prefix", "##"))
        return qkv__gguf_refuse(w, "model.continuing_subword_prefix");
    qkv__gguf_put_tokens(w, "bert", "default", true);
    qkv__gguf_put_bool(w->f, QKV__FIELD("normalizer.lowercase"),
                       !json_is_false(json_object_get(n, "lowercase")));
    if (json_is_boolean(accents))
        qkv__gguf_put_bool(w->f, QKV__FIELD("normalizer.strip_accents"), json_is_true(accents));
    return QKV_OK;
}
