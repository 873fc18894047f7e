/* bpe.c - the model "BPE": a piece's bytes or characters, joined by merges. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/models.h"

typedef struct {
    int32_t byte_id[256]; /* -1: the vocabulary lacks the byte */
    int32_t last_id[256]; /* with end_of_word_suffix, where there is one: of a word's last byte */
    qkv__merges merges;
    int32_t unk; /* -1: none */
    bool fuse_unk, byte_fallback, ignore_merges;
} bpe;

/* ---- a piece's symbols --------------------------------------------------------------- */

static qkv_status add_unknown(qkv_tokenizer *t, const char *s, size_t len, bool after_unknown,
                              qkv_ids *ids)
{
    const bpe *b = t->model;
    if (b->unk < 0)
        return qkv__tokenizer_unknown(t, s, len);
    if (after_unknown && b->fuse_unk)
        return QKV_OK;
    return qkv__ids_push(t->ctx, ids, b->unk) ? QKV_OK : QKV_E_MEMORY;
}

/* The token of the symbol (n bytes) of a piece, as its last one or another; -1: none. */
static int32_t symbol_id(qkv_tokenizer *t, const char *symbol, size_t n, bool last)
{
    const bpe *b = t->model;
    qkv_str with;
    if (t->splitter.byte_level)
        return (last ? b->last_id : b->byte_id)[(unsigned char)*symbol];
    if (!last || !t->word_end)
        return qkv__vocab_find(&t->vocab, symbol, n);
    qkv_str_init(&with, t->ctx);
    qkv_str_add(&with, symbol, n);
    qkv_str_puts(&with, t->word_end);
    int32_t id = with.failed ? -1 : qkv__vocab_find(&t->vocab, with.data, with.len);
    qkv_str_free(&with);
    return id;
}

/* Appends one id for each byte, or for each character where the model is not byte-level. */
static qkv_status add_symbols(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *ids)
{
    const bpe *b = t->model;
    bool unknown = false;
    if (!qkv__ids_reserve(t->ctx, ids, len))
        return QKV_E_MEMORY;
    for (size_t i = 0; i < len;) {
        int32_t cp;
        size_t n = t->splitter.byte_level ? 1 : qkv__utf8_next(piece + i, len - i, &cp);
        int32_t id = symbol_id(t, piece + i, n, i + n == len);
        if (id >= 0) {
            ids->data[ids->count++] = id;
            unknown = false;
        } else if (b->byte_fallback &&
                   qkv__fallback_put(ids, t->ctx, &t->vocab, NULL, piece + i, n)) {
            unknown = false;
        } else {
            qkv_status status = add_unknown(t, piece + i, n, unknown, ids);
            if (status)
                return status;
            unknown = true;
        }
        i += n;
    }
    return QKV_OK;
}

/* The piece's own token, where merges do not matter to a word that is one; -1: none. */
static int32_t whole(qkv_tokenizer *t, const char *piece, size_t len)
{
    qkv_str chars;
    if (!t->splitter.byte_level)
        return qkv__vocab_find(&t->vocab, piece, len);
    qkv_str_init(&chars, t->ctx);
    qkv__bytes_to_chars(&chars, piece, len);
    int32_t id = chars.failed ? -1 : qkv__vocab_find(&t->vocab, chars.data, chars.len);
    qkv_str_free(&chars);
    return id;
}

static qkv_status bpe_encode(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out)
{
    bpe *b = t->model;
    size_t before = out->count;
    int32_t id = b->ignore_merges ? whole(t, piece, len) : -1;
    if (id >= 0)
        return qkv__ids_push(t->ctx, out, id) ? QKV_OK : QKV_E_MEMORY;
    if (len > INT32_MAX)
        return qkv_fail(t->ctx, QKV_E_UNSUPPORTED,
                        "a word of %zu bytes: at most %d can be encoded", len, INT32_MAX);
    qkv_status status = add_symbols(t, piece, len, out);
    size_t count = out->count - before;
    b->merges.drop = t->sampling.amount;
    b->merges.rng = &t->sampling.rng;
    if (!status && count > 0)
        status = qkv__merges_join(&b->merges, t->ctx, out->data + before, &count);
    out->count = before + count;
    return status;
}

/* ---- reading and writing ------------------------------------------------------------- */

static qkv_status bpe_create(qkv_tokenizer *t)
{
    bpe *b = qkv_malloc(t->ctx, sizeof *b);
    if (!b)
        return QKV_E_MEMORY;
    *b = (bpe){.unk = -1};
    t->kind = &qkv__model_bpe;
    t->model = b;
    return QKV_OK;
}

/* The tokens of bytes, within a word and at its end. */
static qkv_status find_bytes(qkv_tokenizer *t)
{
    bpe *b = t->model;
    qkv_str s;
    qkv_str_init(&s, t->ctx);
    for (int i = 0; i < 256 && !s.failed; i++) {
        char c[4];
        size_t n = qkv__utf8_put(c, qkv__byte_char((uint8_t)i));
        b->byte_id[i] = qkv__vocab_find(&t->vocab, c, n);
        qkv_str_clear(&s);
        qkv_str_add(&s, c, n);
        qkv_str_puts(&s, t->word_end ? t->word_end : "");
        b->last_id[i] = s.failed ? -1 : qkv__vocab_find(&t->vocab, s.data, s.len);
    }
    bool failed = s.failed;
    qkv_str_free(&s);
    return failed ? QKV_E_MEMORY : QKV_OK;
}

/* Bytes of a token that a message shows. */
static int bpe_shown(size_t len)
{
    return len < 60 ? (int)len : 60;
}

/* where: "line 7", "model.merges.6" */
static qkv_status add_merge(qkv_tokenizer *t, const char *file, const char *where,
                            const char *left, size_t left_len, const char *right,
                            size_t right_len)
{
    bpe *b = t->model;
    qkv_str joined;
    int32_t pair[2] = {qkv__vocab_find(&t->vocab, left, left_len),
                       qkv__vocab_find(&t->vocab, right, right_len)};
    for (int i = 0; i < 2; i++)
        if (pair[i] < 0)
            return qkv_fail(t->ctx, QKV_E_FORMAT,
                            "%s: %s: merge of \"%.*s\", which is not in the vocabulary", file,
                            where, bpe_shown(i ? right_len : left_len), i ? right : left);
    qkv_str_init(&joined, t->ctx);
    qkv_str_add(&joined, left, left_len);
    qkv_str_add(&joined, right, right_len);
    int32_t made = joined.failed ? -1 : qkv__vocab_find(&t->vocab, joined.data, joined.len);
    qkv_status status = joined.failed ? QKV_E_MEMORY : QKV_OK;
    if (!status && made < 0)
        status = qkv_fail(t->ctx, QKV_E_FORMAT,
                          "%s: %s: merge gives \"%.60s\", which is not in the vocabulary", file,
                          where, joined.data);
    qkv_str_free(&joined);
    if (status)
        return status;
    return qkv__merges_add(&b->merges, t->ctx, pair[0], pair[1], made);
}

/* Element i of "merges": "left right", or ["left", "right"]. */
static qkv_status read_merge(qkv_tokenizer *t, const qkv__json *list, size_t i)
{
    qkv__json at, none;
    const char *left = NULL, *right = NULL, *space = NULL;
    qkv__json_item(list, i, &at);
    if (json_is_array(at.value) && qkv__json_count(&at) == 2) {
        left = json_string_value(json_array_get(at.value, 0));
        right = json_string_value(json_array_get(at.value, 1));
    } else if (json_is_string(at.value)) {
        left = json_string_value(at.value);
        space = strchr(left, ' ');
        right = space ? space + 1 : NULL;
    } else {
        return qkv__json_get_array(&at, NULL, &none) ? QKV_E_FORMAT
               : qkv__json_fail(&at, NULL, "expected two tokens, found %zu", qkv__json_count(&at));
    }
    if (!left || !right || (space && strchr(right, ' ')))
        return qkv__json_fail(&at, NULL, "expected two tokens");
    return add_merge(t, at.file, at.path, left,
                              space ? (size_t)(space - left) : strlen(left), right, strlen(right));
}

static qkv_status read_merges(qkv_tokenizer *t, const qkv__json *at)
{
    qkv__json merges;
    qkv_status status = qkv__json_get_array(at, "merges", &merges);
    size_t count = status ? 0 : qkv__json_count(&merges);
    for (size_t i = 0; !status && i < count; i++)
        status = read_merge(t, &merges, i);
    return status;
}

/* "#version: 0.2", then a merge a line. */
static qkv_status bpe_read_lines(qkv_tokenizer *t, const qkv__bpe_files *files)
{
    const char *p = files->merges, *end = p + files->merges_len;
    qkv_status status = QKV_OK;
    for (size_t line = 1; p < end && !status; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *next = stop ? stop + 1 : end;
        size_t len = (size_t)((stop ? stop : end) - p);
        char where[40];
        if (len && p[len - 1] == '\r')
            len--;
        const char *space = memchr(p, ' ', len);
        bool comment = line == 1 && len > 8 && memcmp(p, "#version", 8) == 0;
        (void)snprintf(where, sizeof where, "line %zu", line);
        if (len && !comment) {
            size_t first = space ? (size_t)(space - p) : len, second = space ? len - first - 1 : 0;
            if (!space || memchr(space + 1, ' ', second))
                return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: %s: expected two tokens",
                                files->merges_file, where);
            status = add_merge(t, files->merges_file, where, p, first, space + 1, second);
        }
        p = next;
    }
    return status;
}

static qkv_status read_unknown(qkv_tokenizer *t, const qkv__json *at)
{
    bpe *b = t->model;
    const char *unk = NULL;
    qkv_status status = qkv__json_opt_string(at, "unk_token", &unk);
    if (status || !unk)
        return status;
    b->unk = qkv__vocab_find(&t->vocab, unk, strlen(unk));
    if (b->unk < 0)
        return qkv__json_fail(at, "unk_token", "\"%.60s\" is not in the vocabulary", unk);
    return QKV_OK;
}

/* What a word's tokens have besides the word's characters. */
static qkv_status read_affixes(qkv_tokenizer *t, const qkv__json *at)
{
    const char *prefix = "", *suffix = "";
    bool bytes = false;
    qkv_status status = qkv__json_opt_string(at, "continuing_subword_prefix", &prefix);
    if (!status)
        status = qkv__json_opt_string(at, "end_of_word_suffix", &suffix);
    if (!status)
        status = qkv__json_opt_bool(at, "byte_fallback", &bytes);
    if (status)
        return status;
    if (*prefix)
        return qkv__json_fail(at, "continuing_subword_prefix", "\"%.40s\" is not supported",
                              prefix);
    if (*suffix && bytes)
        return qkv__json_fail(at, "end_of_word_suffix", "\"%.40s\" is not supported beside "
                              "byte_fallback", suffix);
    t->word_end = *suffix ? suffix : NULL;
    return QKV_OK;
}

static qkv_status bpe_read(qkv_tokenizer *t, const qkv__json *at)
{
    double dropout = 0;
    qkv_status status = bpe_create(t);
    bpe *b = t->model;
    if (!status)
        status = read_affixes(t, at);
    if (!status)
        status = find_bytes(t);
    if (!status)
        status = qkv__json_opt_real(at, "dropout", 0, 0, &dropout);
    if (!status)
        status = qkv__json_opt_bool(at, "fuse_unk", &b->fuse_unk);
    if (!status)
        status = qkv__json_opt_bool(at, "byte_fallback", &b->byte_fallback);
    if (!status)
        status = qkv__json_opt_bool(at, "ignore_merges", &b->ignore_merges);
    if (!status)
        status = read_unknown(t, at);
    if (!status && t->files)
        status = bpe_read_lines(t, t->files);
    else if (!status)
        status = read_merges(t, at);
    return status ? status : qkv__merges_index(&b->merges, t->ctx);
}

/* Merges as "left right", which every version reads, unless a token holds a space. */
static void bpe_write(const qkv_tokenizer *t, qkv_json_writer *w)
{
    const bpe *b = t->model;
    qkv_str line;
    qkv_str_init(&line, t->ctx);
    qkv_json_begin_array(w, "merges");
    bool spaces = false;
    for (size_t id = 0; id < t->vocab.count && !spaces; id++)
        if (t->vocab.tokens[id].used)
            spaces = strchr(t->vocab.text + t->vocab.tokens[id].start, ' ') != NULL;
    for (size_t i = 0; i < b->merges.count; i++) {
        size_t left_len, right_len;
        const char *left = qkv__vocab_text(&t->vocab, b->merges.pairs[i][0], &left_len);
        const char *right = qkv__vocab_text(&t->vocab, b->merges.pairs[i][1], &right_len);
        if (spaces) {
            qkv_json_begin_array(w, NULL);
            qkv_json_put_bytes(w, NULL, left, left_len);
            qkv_json_put_bytes(w, NULL, right, right_len);
            qkv_json_end_array(w);
            continue;
        }
        qkv_str_clear(&line);
        qkv_str_add(&line, left, left_len);
        qkv_str_puts(&line, " ");
        qkv_str_add(&line, right, right_len);
        if (line.failed)
            w->text.failed = true;
        else
            qkv_json_put_bytes(w, NULL, line.data, line.len);
    }
    qkv_json_end_array(w);
    qkv_str_free(&line);
}

static void bpe_destroy(qkv_tokenizer *t)
{
    bpe *b = t->model;
    qkv__merges_free(&b->merges, t->ctx);
    qkv_free(t->ctx, b);
}

const qkv__model_kind qkv__model_bpe = {"BPE", true, false, 1, bpe_read, bpe_encode, bpe_write,
                                        bpe_destroy};

const qkv__merges *qkv__bpe_merges(const qkv_tokenizer *t)
{
    return &((const bpe *)t->model)->merges;
}
