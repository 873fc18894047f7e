/* gguf_read.c - what all kinds of tokenizers read of a GGUF file, and parts of tokenizer.json that
 * are made of it. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/gguf_kinds.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"

enum { MOST_TOKEN = 65535 }; /* bytes */

static const char *const role_fields[QKV_TOKEN_ROLES] = {
    [QKV_TOKEN_EOS] = QKV__FIELD("eos_token_id"),
    [QKV_TOKEN_BOS] = QKV__FIELD("bos_token_id"),
    [QKV_TOKEN_PAD] = QKV__FIELD("padding_token_id"),
    [QKV_TOKEN_UNK] = QKV__FIELD("unknown_token_id"),
    [QKV_TOKEN_CLS] = QKV__FIELD("cls_token_id"),
    [QKV_TOKEN_SEP] = QKV__FIELD("seperator_token_id"), /* as ggml spells it */
    [QKV_TOKEN_MASK] = QKV__FIELD("mask_token_id")};
static const struct {
    const char *field;
    size_t member;
} added[] = {{QKV__FIELD("add_bos_token"), offsetof(qkv__gguf_reading, add_bos)},
             {QKV__FIELD("add_eos_token"), offsetof(qkv__gguf_reading, add_eos)},
             {QKV__FIELD("add_sep_token"), offsetof(qkv__gguf_reading, add_sep)}};

size_t qkv__gguf_filler(char out[QKV__GGUF_FILLER], size_t id)
{
    return (size_t)snprintf(out, QKV__GGUF_FILLER, "[PAD%zu]", id);
}

int64_t qkv__gguf_type_of_token(const qkv__gguf_reading *f, size_t id)
{
    return f->types ? qkv__gguf_int(f->types, id) : QKV__GGUF_NORMAL;
}

bool qkv__gguf_is_filler(const qkv__gguf_reading *f, size_t id, const char *text, size_t len)
{
    char filler[QKV__GGUF_FILLER];
    return qkv__gguf_type_of_token(f, id) == QKV__GGUF_UNUSED &&
           qkv__gguf_filler(filler, id) == len && memcmp(filler, text, len) == 0;
}

/* ---- reading the fields ---------------------------------------------------------------------- */

static qkv_status check_length(const qkv__gguf_reading *f, const qkv__gguf_field *list,
                               const char *key)
{
    if (list && list->count < f->tokens->count)
        return qkv__gguf_fail(f->g, key, "expected %zu values, one for each token, found %zu",
                              f->tokens->count, list->count);
    return QKV_OK;
}

qkv_status qkv__gguf_read_lists(qkv__gguf_reading *f)
{
    qkv_status status = qkv__gguf_opt_strings(f->g, QKV__FIELD("tokens"), &f->tokens);
    if (!status && !f->tokens)
        return qkv__gguf_fail(f->g, QKV__FIELD("tokens"), "is missing");
    if (!status)
        status = qkv__gguf_opt_numbers(f->g, QKV__FIELD("token_type"), &f->types);
    if (!status)
        status = check_length(f, f->types, QKV__FIELD("token_type"));
    if (!status)
        status = qkv__gguf_opt_numbers(f->g, QKV__FIELD("scores"), &f->scores);
    if (!status)
        status = check_length(f, f->scores, QKV__FIELD("scores"));
    if (!status)
        status = qkv__gguf_opt_strings(f->g, QKV__FIELD("merges"), &f->merges);
    if (!status && f->tokens->count > QKV_TOKENIZER_ID_LIMIT)
        return qkv__gguf_fail(f->g, QKV__FIELD("tokens"), "expected at most %d, found %zu",
                              QKV_TOKENIZER_ID_LIMIT, f->tokens->count);
    return status;
}

static qkv_status read_role(qkv__gguf_reading *f, qkv_token_role role)
{
    int64_t id = -1;
    size_t len = 0;
    qkv_status status = qkv__gguf_opt_int(f->g, role_fields[role], 0,
                                          (int64_t)f->tokens->count - 1, &id);
    if (status || id < 0)
        return status;
    const char *text = qkv__gguf_text(f->tokens, (size_t)id, &len);
    if (!len || qkv__gguf_is_filler(f, (size_t)id, text, len))
        return qkv__gguf_fail(f->g, role_fields[role], "token %lld has no text", (long long)id);
    f->roles[role] = (int32_t)id;
    return QKV_OK;
}

qkv_status qkv__gguf_read_roles(qkv__gguf_reading *f)
{
    qkv_status status = QKV_OK;
    for (int role = 0; role < QKV_TOKEN_ROLES && !status; role++)
        status = read_role(f, (qkv_token_role)role);
    for (size_t i = 0; i < sizeof added / sizeof *added && !status; i++)
        status = qkv__gguf_opt_bool(f->g, added[i].field,
                                    (bool *)(void *)((char *)f + added[i].member));
    f->add_bos = f->add_bos && f->roles[QKV_TOKEN_BOS] >= 0;
    f->add_eos = f->add_eos && f->roles[QKV_TOKEN_EOS] >= 0;
    return status;
}

qkv_status qkv__gguf_add_token(qkv__gguf_reading *f, size_t id, const char *text, size_t len)
{
    const int32_t old = qkv__vocab_find(&f->vocab, text, len);
    if (qkv__utf8_valid(text, len) < len || memchr(text, 0, len))
        return qkv__gguf_fail(f->g, QKV__FIELD("tokens"), "token %zu is not text in UTF-8", id);
    if (len > MOST_TOKEN)
        return qkv__gguf_fail(f->g, QKV__FIELD("tokens"), "token %zu: expected at most %d bytes, "
                              "found %zu", id, MOST_TOKEN, len);
    if (old >= 0)
        return qkv__gguf_fail(f->g, QKV__FIELD("tokens"), "tokens %d and %zu are both \"%.*s\"",
                              old, id, len < 60 ? (int)len : 60, text);
    return qkv__vocab_add(&f->vocab, text, len, (int32_t)id);
}

qkv_status qkv__gguf_add_tokens(qkv__gguf_reading *f)
{
    qkv_status status = QKV_OK;
    for (size_t id = 0; id < f->tokens->count && !status; id++) {
        size_t len;
        const char *text = qkv__gguf_text(f->tokens, id, &len);
        if (len && !qkv__gguf_is_filler(f, id, text, len))
            status = qkv__gguf_add_token(f, id, text, len);
    }
    return status;
}

/* ---- parts of tokenizer.json ----------------------------------------------------------------- */

json_t *qkv__gguf_added_tokens(const qkv__gguf_reading *f)
{
    json_t *list = json_array();
    bool fine = list != NULL;
    for (size_t id = 0; id < f->tokens->count && fine; id++) {
        const int64_t type = qkv__gguf_type_of_token(f, id);
        size_t len;
        const char *text = qkv__vocab_text(&f->vocab, (int32_t)id, &len);
        if (!text || type < QKV__GGUF_UNKNOWN || type > QKV__GGUF_USER)
            continue;
        json_t *token = qkv__spec_added(text, (int32_t)id);
        if (type == QKV__GGUF_USER && json_object_set_new(token, "special", json_false()))
            fine = false;
        fine = json_array_append_new(list, token) == 0 && fine;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

const char *qkv__gguf_role_text(const qkv__gguf_reading *f, qkv_token_role role)
{
    size_t len;
    return f->roles[role] < 0 ? NULL : qkv__vocab_text(&f->vocab, f->roles[role], &len);
}

static bool append_special(json_t *list, const qkv__gguf_reading *f, qkv_token_role role, int text)
{
    return json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id",
                                                 qkv__gguf_role_text(f, role), "type_id",
                                                 text)) == 0;
}

/* bos A eos, of which either may lack. */
static bool append_text(json_t *list, const qkv__gguf_reading *f, int text)
{
    return (!f->add_bos || append_special(list, f, QKV_TOKEN_BOS, text)) &&
           json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id",
                                                 text ? "B" : "A", "type_id", text)) == 0 &&
           (!f->add_eos || append_special(list, f, QKV_TOKEN_EOS, text));
}

static bool name_token(json_t *tokens, const qkv__gguf_reading *f, qkv_token_role role)
{
    const char *text = qkv__gguf_role_text(f, role);
    return json_object_set_new(tokens, text,
                               json_pack("{s:s, s:[i], s:[s]}", "id", text, "ids",
                                         (int)f->roles[role], "tokens", text)) == 0;
}

json_t *qkv__gguf_processor(const qkv__gguf_reading *f)
{
    const char *bos = qkv__gguf_role_text(f, QKV_TOKEN_BOS);
    const char *eos = qkv__gguf_role_text(f, QKV_TOKEN_EOS);
    if (!f->add_bos && !f->add_eos)
        return json_null();
    if (f->add_bos && f->add_eos && f->add_sep)
        return json_pack("{s:s, s:[s, i], s:[s, i], s:b, s:b}", "type", "RobertaProcessing", "sep",
                         eos, (int)f->roles[QKV_TOKEN_EOS], "cls", bos,
                         (int)f->roles[QKV_TOKEN_BOS], "trim_offsets", true, "add_prefix_space",
                         false);
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    const bool fine = single && pair && tokens && append_text(single, f, 0) &&
                      append_text(pair, f, 0) && append_text(pair, f, 1) &&
                      (!f->add_bos || name_token(tokens, f, QKV_TOKEN_BOS)) &&
                      (!f->add_eos || name_token(tokens, f, QKV_TOKEN_EOS));
    json_t *whole = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single",
                              single, "pair", pair, "special_tokens", tokens);
    if (fine)
        return whole;
    json_decref(whole);
    return NULL;
}

json_t *qkv__gguf_bpe_model(const char *unk, bool fallback, bool ignore_merges)
{
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout",
                     "unk_token", unk ? json_string(unk) : json_null(),
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", fallback,
                     "byte_fallback", fallback, "ignore_merges", ignore_merges);
}
