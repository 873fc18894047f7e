/* object.c - a tokenizer made and destroyed, and what is known about its tokens. */
#include "tokenizer/object.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *const qkv__role_keys[QKV_TOKEN_ROLES] = {
#define ROLE_KEY(name, key) key,
    QKV_TOKEN_LIST(ROLE_KEY)
#undef ROLE_KEY
};

qkv_tokenizer *qkv__tokenizer_new(qkv_context *ctx)
{
    qkv_tokenizer *t = qkv_calloc(ctx, 1, sizeof *t);
    if (!t)
        return NULL;
    t->ctx = ctx;
    qkv__vocab_init(&t->vocab, ctx);
    qkv__added_init(&t->added, ctx);
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        t->special[i] = -1;
    return t;
}

qkv_status qkv__tokenizer_unknown(qkv_tokenizer *t, const char *at, size_t len)
{
    char place[48] = "";
    int32_t cp;
    size_t n = qkv__utf8_next(at, len, &cp);
    if (t->text && at >= t->text && at < t->text + t->text_len)
        (void)snprintf(place, sizeof place, " at byte %zu", (size_t)(at - t->text));
    if (cp < 0)
        return qkv_fail(t->ctx, QKV_E_FORMAT, "byte 0x%02x%s of the text is not UTF-8",
                         (unsigned)(unsigned char)*at, place);
    if (n < len)
        return qkv_fail(t->ctx, QKV_E_FORMAT, "\"%.*s\"%s of the text is not in the vocabulary",
                         len < 60 ? (int)len : 60, at, place);
    return qkv_fail(t->ctx, QKV_E_FORMAT,
                     "the character \"%.*s\" (U+%04X)%s of the text is none of the %zu that the "
                     "tokenizer knows",
                     (int)n, at, (unsigned)cp, place, t->vocab.used);
}

void qkv_tokenizer_destroy(qkv_tokenizer *t)
{
    if (!t)
        return;
    if (t->model)
        t->kind->destroy(t);
    qkv__pieces_free(&t->pieces, t->ctx);
    qkv__json_free(&t->spec);
    qkv__json_free(&t->config);
    qkv__vocab_free(&t->vocab);
    qkv__added_free(&t->added);
    qkv__splitter_free(&t->splitter, t->ctx);
    qkv__normalizer_free(&t->normalizer, t->ctx);
    qkv__decoder_free(&t->decoder, t->ctx);
    qkv__templates_free(&t->templates, t->ctx);
    qkv__spm_destroy(t->spm);
    qkv_free(t->ctx, t->piece_ids);
    qkv_tokenizer_destroy(t->target);
    qkv_free(t->ctx, t);
}

size_t qkv_tokenizer_vocab_size(const qkv_tokenizer *t)
{
    return t->vocab.count > t->added.names.count ? t->vocab.count : t->added.names.count;
}

const char *qkv_tokenizer_token(const qkv_tokenizer *t, int32_t id, size_t *len)
{
    size_t unused;
    const char *text = qkv__vocab_text(&t->added.names, id, len ? len : &unused);
    return text ? text : qkv__vocab_text(&t->vocab, id, len ? len : &unused);
}

int32_t qkv_tokenizer_id(const qkv_tokenizer *t, const char *token, size_t len)
{
    int32_t id = qkv__vocab_find(&t->added.names, token, len);
    return id >= 0 ? id : qkv__vocab_find(&t->vocab, token, len);
}

int32_t qkv_tokenizer_special(const qkv_tokenizer *t, qkv_token_role role)
{
    return (unsigned)role < QKV_TOKEN_ROLES ? t->special[role] : -1;
}

bool qkv_tokenizer_is_special(const qkv_tokenizer *t, int32_t id)
{
    const qkv__added_token *token = qkv__added_find(&t->added, id);
    return token && token->special;
}

const char *qkv_tokenizer_model(const qkv_tokenizer *t)
{
    return t->kind->name;
}
