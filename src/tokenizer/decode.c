/* decode.c - ids to text: whole texts, and streams. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/object.h"

/* Of what was decoded. */
typedef struct {
    bool begun;
    bool space; /* a word ended, whose space comes before the next token */
} decoded;

struct qkv_tokenizer_stream {
    const qkv_tokenizer *t;
    unsigned flags;
    decoded before;
    qkv_str token;   /* scratch */
    qkv_text pending; /* bytes that may yet become a character: at most 3 between calls */
};

/* ---- decoding ------------------------------------------------------------------------ */

/* The token's text without the end of a word, if the vocabulary marks it; whether it does. */
static bool cut_word_end(const qkv_tokenizer *t, const char *text, size_t *len)
{
    size_t n = t->word_end ? strlen(t->word_end) : 0;
    if (!n || *len < n || memcmp(text + *len - n, t->word_end, n) != 0)
        return false;
    *len -= n;
    return true;
}

/* Appends one token's bytes to out; token is scratch. before: of what came before. */
static qkv_status decode_one(const qkv_tokenizer *t, int32_t id, unsigned flags, decoded *before,
                             qkv_str *token, qkv_text *out)
{
    size_t len;
    const char *text = qkv_tokenizer_token(t, id, &len);
    const bool skips = flags & QKV_DECODE_SKIP_SPECIAL;
    if (skips && id >= 0 && (!text || qkv_tokenizer_is_special(t, id)))
        return QKV_OK;
    if (!text)
        return qkv_fail(t->ctx, QKV_E_ARGUMENT, "id %d is no token: the vocabulary has %zu ids",
                        (int)id, qkv_tokenizer_vocab_size(t));
    bool ends = cut_word_end(t, text, &len);
    qkv_str_clear(token);
    if (t->decoder.spaced && before->begun)
        qkv_str_puts(token, " ");
    qkv_str_add(token, text, len);
    if (token->failed)
        return QKV_E_MEMORY;
    if (qkv__decoder_run(&t->decoder, token, !before->begun))
        return QKV_E_MEMORY;
    before->begun = before->begun || !t->decoder.leading || token->len > 0;
    if (token->failed || (before->space && !qkv__text_add(t->ctx, out, " ", 1)) ||
        !qkv__text_add(t->ctx, out, token->data, token->len))
        return QKV_E_MEMORY;
    before->space = ends;
    return QKV_OK;
}

/* Appends bytes with U+FFFD for each longest stretch that begins a character and breaks off. */
static bool add_valid(qkv_context *ctx, qkv_text *out, const char *s, size_t len)
{
    bool ok = true;
    for (size_t i = 0; i < len && ok;) {
        int32_t cp;
        size_t n = qkv__utf8_next(s + i, len - i, &cp);
        if (cp >= 0) {
            ok = qkv__text_add(ctx, out, s + i, n);
        } else {
            while (i + n < len && n < 3 && qkv__utf8_unfinished(s + i, n + 1) == n + 1)
                n++;
            ok = qkv__text_add(ctx, out, "\xef\xbf\xbd", 3);
        }
        i += n;
    }
    return ok;
}

/* Moves bytes of pending to out, the last keep excepted. */
static qkv_status move(qkv_tokenizer_stream *s, size_t keep, qkv_text *out)
{
    size_t n = s->pending.len - keep;
    bool ok = n == 0 || (s->flags & QKV_DECODE_VALID
                             ? add_valid(s->t->ctx, out, s->pending.data, n)
                             : qkv__text_add(s->t->ctx, out, s->pending.data, n));
    if (!ok)
        return QKV_E_MEMORY;
    if (n)
        memmove(s->pending.data, s->pending.data + n, keep);
    s->pending.len = keep;
    return QKV_OK;
}

qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, const int32_t *ids, size_t count,
                                unsigned flags, qkv_text *out)
{
    qkv_str token;
    qkv_text bytes = {0}, *to = flags & QKV_DECODE_VALID ? &bytes : out;
    size_t before = out->len;
    decoded done = {0};
    qkv_str_init(&token, t->ctx);
    qkv_status status = qkv__text_add(t->ctx, to, "", 0) ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        status = decode_one(t, ids[i], flags, &done, &token, to);
    if (!status && (flags & QKV_DECODE_VALID) &&
        !(qkv__text_add(t->ctx, out, "", 0) && add_valid(t->ctx, out, bytes.data, bytes.len)))
        status = QKV_E_MEMORY;
    if (status && out->data) {
        out->len = before;
        out->data[before] = 0;
    }
    qkv_str_free(&token);
    qkv_text_free(&bytes, t->ctx);
    return status;
}

qkv_status qkv_tokenizer_stream_create(qkv_tokenizer_stream **out, const qkv_tokenizer *t,
                                       unsigned flags)
{
    *out = qkv_malloc(t->ctx, sizeof **out);
    if (!*out)
        return QKV_E_MEMORY;
    **out = (qkv_tokenizer_stream){.t = t, .flags = flags};
    qkv_str_init(&(*out)->token, t->ctx);
    return QKV_OK;
}

qkv_status qkv_tokenizer_stream_put(qkv_tokenizer_stream *s, int32_t id, qkv_text *out)
{
    qkv_status status = decode_one(s->t, id, s->flags, &s->before, &s->token, &s->pending);
    if (status || s->pending.len == 0)
        return status;
    return move(s, qkv__utf8_unfinished(s->pending.data, s->pending.len), out);
}

qkv_status qkv_tokenizer_stream_end(qkv_tokenizer_stream *s, qkv_text *out)
{
    s->before = (decoded){0};
    return move(s, 0, out);
}

void qkv_tokenizer_stream_destroy(qkv_tokenizer_stream *s)
{
    if (!s)
        return;
    qkv_str_free(&s->token);
    qkv_text_free(&s->pending, s->t->ctx);
    qkv_free(s->t->ctx, s);
}
