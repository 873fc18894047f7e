/* added.c - added tokens: found in the text before it is split, leftmost first and
 * the longest of those that begin there. */
#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "qkv/tokenizer.h"

void qkv__added_init(qkv__added *a, qkv_context *ctx)
{
    *a = (qkv__added){0};
    qkv__vocab_init(&a->names, ctx);
    qkv__vocab_init(&a->keys[0], ctx);
    qkv__vocab_init(&a->keys[1], ctx);
}

void qkv__added_free(qkv__added *a)
{
    qkv_context *ctx = a->names.ctx;
    qkv__vocab_free(&a->names);
    qkv__vocab_free(&a->keys[0]);
    qkv__vocab_free(&a->keys[1]);
    qkv_free(ctx, a->list);
    qkv_free(ctx, a->lengths);
    qkv__added_init(a, ctx);
}

/* Keeps a->lengths sorted, longest first. */
static qkv_status note_length(qkv__added *a, qkv_context *ctx, size_t len, size_t *capacity)
{
    size_t i = 0;
    while (i < a->length_count && a->lengths[i] > len)
        i++;
    if (i < a->length_count && a->lengths[i] == len)
        return QKV_OK;
    if (!qkv__grow(ctx, &a->lengths, capacity, a->length_count + 1, sizeof *a->lengths))
        return QKV_E_MEMORY;
    memmove(a->lengths + i + 1, a->lengths + i, (a->length_count - i) * sizeof *a->lengths);
    a->lengths[i] = (uint16_t)len;
    a->length_count++;
    return QKV_OK;
}

/* What is looked for: the token as it is, or as normalizing leaves it. Of two tokens that come
 * to the same the first one counts; one of which nothing is left is not looked for. */
static qkv_status add_key(qkv__added *a, qkv_context *ctx, const qkv__normalizer *n,
                          const char *text, qkv__added_token token, size_t *length_capacity)
{
    qkv__vocab *keys = &a->keys[token.normalized];
    qkv_str key;
    qkv_str_init(&key, ctx);
    qkv_status status = QKV_OK;
    if (token.normalized)
        status = qkv__normalize(n, ctx, text, strlen(text), &key);
    else
        qkv_str_puts(&key, text);
    if (!status && key.failed)
        status = QKV_E_MEMORY;
    if (!status && key.len && key.len <= UINT16_MAX &&
        qkv__vocab_find(keys, key.data, key.len) < 0) {
        a->first[(unsigned char)*key.data] = true;
        status = qkv__vocab_add(keys, key.data, key.len, token.id);
        if (!status)
            status = note_length(a, ctx, key.len, length_capacity);
    }
    qkv_str_free(&key);
    return status;
}

static qkv_status added_read_one(qkv__added *a, const qkv__vocab *vocab, const qkv__normalizer *n,
                                 const qkv__json *at, size_t *length_capacity)
{
    qkv__added_token token = {.normalized = true};
    const char *content = NULL;
    int64_t id = 0;
    qkv_status status = qkv__json_get_int(at, "id", 0, QKV_TOKENIZER_ID_LIMIT - 1, &id);
    if (!status)
        status = qkv__json_get_string(at, "content", &content);
    if (!status)
        status = qkv__json_opt_bool(at, "special", &token.special);
    if (!status)
        status = qkv__json_opt_bool(at, "lstrip", &token.lstrip);
    if (!status)
        status = qkv__json_opt_bool(at, "rstrip", &token.rstrip);
    if (!status)
        status = qkv__json_opt_bool(at, "single_word", &token.single_word);
    token.normalized = !token.special;
    if (!status)
        status = qkv__json_opt_bool(at, "normalized", &token.normalized);
    if (status)
        return status;
    token.id = (int32_t)id;
    size_t len = strlen(content), old_len;
    if (len == 0 || len > UINT16_MAX)
        return qkv__json_fail(at, "content", "expected 1 to %d bytes, found %zu", UINT16_MAX, len);
    int32_t model_id = qkv__vocab_find(vocab, content, len);
    const char *old = qkv__vocab_text(vocab, token.id, &old_len);
    if (model_id >= 0 && model_id != token.id)
        return qkv__json_fail(at, "id", "token \"%.60s\" has id %d in the vocabulary, %d here",
                              content, (int)model_id, (int)token.id);
    if (model_id < 0 && old)
        return qkv__json_fail(at, "id", "tokens \"%.60s\" and \"%.60s\" both have id %d", old,
                              content, (int)token.id);
    if (qkv__vocab_find(&a->names, content, len) >= 0)
        return qkv__json_fail(at, "content", "token \"%.60s\" is given twice", content);
    if (qkv__vocab_text(&a->names, token.id, &old_len))
        return qkv__json_fail(at, "id", "two added tokens have id %d", (int)token.id);
    if (!qkv__grow(at->ctx, &a->list, &a->capacity, a->count + 1, sizeof *a->list))
        return QKV_E_MEMORY;
    a->list[a->count++] = token;
    status = qkv__vocab_add(&a->names, content, len, token.id);
    return status ? status : add_key(a, at->ctx, n, content, token, length_capacity);
}

static int by_id(const void *x, const void *y)
{
    const qkv__added_token *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

qkv_status qkv__added_read(qkv__added *a, const qkv__vocab *vocab, const qkv__normalizer *n,
                           const qkv__json *array)
{
    size_t count = qkv__json_count(array), length_capacity = 0;
    for (size_t i = 0; i < count; i++) {
        qkv__json item;
        int64_t id = 0;
        qkv__json_item(array, i, &item);
        qkv_status status = qkv__json_get_int(&item, "id", 0, QKV_TOKENIZER_ID_LIMIT - 1, &id);
        /* As for the vocabulary: a small file cannot ask for much memory. */
        if (!status && (size_t)id > 2 * (vocab->count + count) + 1024)
            status = qkv__json_fail(&item, "id", "%lld, but only %zu tokens are given",
                                    (long long)id, vocab->used + count);
        if (!status)
            status = added_read_one(a, vocab, n, &item, &length_capacity);
        if (status)
            return status;
    }
    if (a->count)
        qsort(a->list, a->count, sizeof *a->list, by_id);
    return QKV_OK;
}

const qkv__added_token *qkv__added_find(const qkv__added *a, int32_t id)
{
    const qkv__added_token key = {.id = id};
    return a->count ? bsearch(&key, a->list, a->count, sizeof *a->list, by_id) : NULL;
}

/* The longest token that begins at s. */
static const qkv__added_token *longest(const qkv__added *a, const char *s, size_t len,
                                       bool normalized, size_t *token_len)
{
    for (size_t i = 0; i < a->length_count; i++) {
        if (a->lengths[i] > len)
            continue;
        int32_t id = qkv__vocab_find(&a->keys[normalized], s, a->lengths[i]);
        if (id < 0)
            continue;
        *token_len = a->lengths[i];
        return qkv__added_find(a, id);
    }
    return NULL;
}

static bool stands_alone(const char *text, size_t len, size_t start, size_t end)
{
    int32_t cp;
    if (start > 0) {
        (void)qkv__utf8_before(text, start, &cp);
        if (qkv__is_word(cp))
            return false;
    }
    if (end < len) {
        (void)qkv__utf8_next(text + end, len - end, &cp);
        if (qkv__is_word(cp))
            return false;
    }
    return true;
}

static void added_strip(const qkv__added_token *token, const char *text, size_t len, size_t floor,
                        qkv__match *m)
{
    int32_t cp;
    while (token->lstrip && m->start > floor) {
        size_t start = qkv__utf8_before(text, m->start, &cp);
        if (qkv__class_of(cp) != QKV__SPACE)
            break;
        m->start = start;
    }
    while (token->rstrip && m->end < len) {
        size_t n = qkv__utf8_next(text + m->end, len - m->end, &cp);
        if (qkv__class_of(cp) != QKV__SPACE)
            break;
        m->end += n;
    }
}

bool qkv__added_next(const qkv__added *a, const char *text, size_t len, size_t from,
                     size_t floor, bool normalized, bool skip_special, qkv__match *out)
{
    size_t token_len;
    for (size_t at = from; at < len && a->count;) {
        if (!a->first[(unsigned char)text[at]]) {
            at++;
            continue;
        }
        const qkv__added_token *token = longest(a, text + at, len - at, normalized, &token_len);
        if (!token) {
            at++;
            continue;
        }
        bool counts = !(skip_special && token->special);
        if (counts && token->single_word)
            counts = stands_alone(text, len, at, at + token_len);
        if (counts) {
            *out = (qkv__match){at, at + token_len, token->id};
            added_strip(token, text, len, floor, out);
            return true;
        }
        at += token_len; /* a match that does not count is passed over whole */
    }
    return false;
}
