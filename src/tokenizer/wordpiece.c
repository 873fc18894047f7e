/* wordpiece.c - the model "WordPiece": of a word the longest token that begins it,
 * then the longest continuation, and so on; a word that does not come out is unknown whole. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/models.h"

typedef struct {
    char *prefix; /* of tokens that continue a word */
    size_t prefix_len;
    size_t longest;   /* bytes of the longest token */
    size_t max_chars; /* longer words are unknown */
    int32_t unk;      /* -1: none */
    qkv_str word;    /* scratch */
} wordpiece;

static qkv_status wordpiece_read(qkv_tokenizer *t, const qkv__json *at)
{
    const char *unk = "[UNK]", *prefix = "##";
    int64_t max_chars = 100;
    wordpiece *w = qkv_calloc(t->ctx, 1, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    t->kind = &qkv__model_wordpiece;
    t->model = w;
    qkv_str_init(&w->word, t->ctx);
    qkv_status status = qkv__json_opt_string(at, "unk_token", &unk);
    if (!status)
        status = qkv__json_opt_string(at, "continuing_subword_prefix", &prefix);
    if (!status)
        status = qkv__json_opt_int(at, "max_input_chars_per_word", 0, INT32_MAX, &max_chars);
    if (status)
        return status;
    w->unk = qkv__vocab_find(&t->vocab, unk, strlen(unk));
    w->max_chars = (size_t)max_chars;
    w->prefix = qkv_strdup(t->ctx, prefix);
    w->prefix_len = strlen(prefix);
    for (size_t i = 0; i < t->vocab.count; i++)
        if (t->vocab.tokens[i].used && t->vocab.tokens[i].len > w->longest)
            w->longest = t->vocab.tokens[i].len;
    return w->prefix ? QKV_OK : QKV_E_MEMORY;
}

/* The longest token that the text from s begins with; *len is what it takes. -1: none. */
static int32_t longest_token(qkv_tokenizer *t, const char *s, size_t *len, bool inside)
{
    wordpiece *w = t->model;
    size_t before = inside ? w->prefix_len : 0;
    size_t n = *len < w->longest ? *len : w->longest;
    qkv_str_clear(&w->word);
    qkv_str_add(&w->word, w->prefix, before);
    qkv_str_add(&w->word, s, n);
    for (; n > 0 && !w->word.failed; n--) {
        if (n < *len && ((unsigned char)s[n] & 0xc0) == 0x80)
            continue; /* within a character */
        int32_t id = qkv__vocab_find(&t->vocab, w->word.data, before + n);
        if (id >= 0) {
            *len = n;
            return id;
        }
    }
    return -1;
}

static qkv_status wordpiece_encode(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out)
{
    wordpiece *w = t->model;
    size_t before = out->count, chars = 0;
    int32_t cp;
    for (size_t i = 0; i < len && chars <= w->max_chars; chars++)
        i += qkv__utf8_next(piece + i, len - i, &cp);
    bool known = chars <= w->max_chars;
    for (size_t at = 0; at < len && known;) {
        size_t n = len - at;
        int32_t id = longest_token(t, piece + at, &n, at > 0);
        known = id >= 0;
        if (known && !qkv__ids_push(t->ctx, out, id))
            return QKV_E_MEMORY;
        at += n;
    }
    if (w->word.failed) {
        qkv_str_free(&w->word); /* the next word begins anew */
        return QKV_E_MEMORY;
    }
    if (known)
        return QKV_OK;
    out->count = before;
    if (w->unk < 0)
        return qkv__tokenizer_unknown(t, piece, len);
    return qkv__ids_push(t->ctx, out, w->unk) ? QKV_OK : QKV_E_MEMORY;
}

static void wordpiece_destroy(qkv_tokenizer *t)
{
    wordpiece *w = t->model;
    qkv_str_free(&w->word);
    qkv_free(t->ctx, w->prefix);
    qkv_free(t->ctx, w);
}

const qkv__model_kind qkv__model_wordpiece = {"WordPiece", true, false, 0, wordpiece_read,
                                               wordpiece_encode,      NULL, wordpiece_destroy};
