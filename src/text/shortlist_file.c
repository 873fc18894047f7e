/* shortlist_file.c - shortlists in Marian's text format: lines of a target token, a source token
 * and a probability, separated by blanks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "qkv/texts.h"
#include "text/shortlist.h"

static const char BLANKS[] = " \t\n\v\f\r"; /* isspace of C, which Marian reads by */
static const char EMPTY_WORD[] = "NULL";
enum { FIELDS = 3, NUMBER_BYTES = 64 };

static bool is_empty_word(const char *token, size_t len)
{
    return len == sizeof EMPTY_WORD - 1 && memcmp(token, EMPTY_WORD, len) == 0;
}

/* Can a token stand in a file? */
static bool has_name(const char *token, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!token[i] || strchr(BLANKS, token[i]))
            return false;
    return len && !is_empty_word(token, len);
}

/* ---- writing -------------------------------------------------------------------------------- */

qkv_status qkv_shortlist_save(const qkv_shortlist *s, const qkv_tokenizer *t, const char *path)
{
    qkv__writer *w = NULL;
    qkv_str line;
    qkv_str_init(&line, s->ctx);
    qkv_status status = qkv__writer_open(&w, s->ctx, path);
    for (size_t i = 0; i < s->count && !status; i++) {
        const qkv_shortlist_entry *e = &s->entries[i];
        size_t source_len, target_len;
        const char *source = qkv_tokenizer_token(t, e->source, &source_len);
        const char *target = qkv_tokenizer_token(t, e->target, &target_len);
        if (!source || !target || !has_name(source, source_len) || !has_name(target, target_len))
            continue;
        qkv_str_clear(&line);
        qkv_str_printf(&line, "%s %s %.6g\n", target, source, (double)e->probability);
        status = line.failed ? QKV_E_MEMORY : qkv__writer_put(w, line.data, line.len);
    }
    qkv_str_free(&line);
    if (!status)
        return qkv__writer_close(w);
    qkv__writer_abandon(w);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    const qkv_tokenizer *t;
    size_t vocab;
    const char *path;
    size_t line; /* from 1 */
    qkv_shortlist_entry *entries;
    size_t count, capacity;
    size_t unknown, lines; /* lines with tokens that are not known; with tokens at all */
} reader;

/* Splits a line at its blanks; the number of fields, FIELDS + 1 for more. */
static size_t split_fields(const qkv_line *line, qkv_line fields[FIELDS])
{
    size_t n = 0, at = 0;
    while (at < line->len) {
        size_t begin = at;
        while (at < line->len && (!line->data[at] || !strchr(BLANKS, line->data[at])))
            at++;
        if (at > begin && n == FIELDS)
            return FIELDS + 1;
        if (at > begin)
            fields[n++] = (qkv_line){line->data + begin, at - begin};
        at += at < line->len;
    }
    return n;
}

static qkv_status read_probability(const reader *r, const qkv_line *field, float *out)
{
    char text[NUMBER_BYTES], *end = text;
    double value = -1;
    if (field->len < sizeof text) {
        memcpy(text, field->data, field->len);
        text[field->len] = 0;
        value = strtod(text, &end);
    }
    if (field->len >= sizeof text || end != text + field->len || !(value >= 0 && value <= 1))
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s, line %zu: field 3, the probability: a number "
                        "from 0 to 1 expected, found \"%.*s\"", r->path, r->line,
                        field->len < 40 ? (int)field->len : 40, field->data);
    *out = (float)value;
    return QKV_OK;
}

/* The id of a token that the model has, or -1. */
static int32_t find_token(const reader *r, const qkv_line *field)
{
    int32_t id = qkv_tokenizer_id(r->t, field->data, field->len);
    return id >= 0 && (size_t)id < r->vocab ? id : -1;
}

static qkv_status read_pair(reader *r, const qkv_line *line)
{
    qkv_line f[FIELDS];
    float p = 0;
    size_t n = split_fields(line, f);
    if (n == 0)
        return QKV_OK;
    if (n != FIELDS)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s, line %zu: 3 fields expected, a target token, a "
                        "source token and a probability, found %s%zu", r->path, r->line,
                        n > FIELDS ? "more than " : "", n > FIELDS ? (size_t)FIELDS : n);
    qkv_status status = read_probability(r, &f[2], &p);
    if (status)
        return status;
    if (is_empty_word(f[0].data, f[0].len) || is_empty_word(f[1].data, f[1].len))
        return QKV_OK;
    qkv_shortlist_entry e = {find_token(r, &f[1]), find_token(r, &f[0]), p};
    r->lines++;
    r->unknown += e.source < 0 || e.target < 0;
    if (e.source < 0 || e.target < 0 || !(p > 0)) /* 0: no translation */
        return QKV_OK;
    if (!qkv__grow(r->ctx, &r->entries, &r->capacity, r->count + 1, sizeof *r->entries))
        return QKV_E_MEMORY;
    r->entries[r->count++] = e;
    return QKV_OK;
}

static qkv_status read_lines(reader *r)
{
    qkv_texts text;
    qkv_status status = qkv_texts_open_one(&text, r->ctx, r->path);
    if (status)
        return status;
    const char *at = text.spans[0].data, *end = at + text.spans[0].len;
    for (qkv_line line; !status && qkv_next_line(&at, end, &line);) {
        r->line++;
        status = read_pair(r, &line);
    }
    qkv_texts_close(&text);
    if (status || r->unknown < r->lines)
        return status;
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: a shortlist of the model's tokens expected, found "
                    "%zu lines, none with two tokens that it has", r->path, r->lines);
}

static qkv_status refuse_twice(const reader *r, const qkv_shortlist_entry *e)
{
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: target token \"%s\" with source token \"%s\": one "
                    "line expected, found two", r->path, qkv_tokenizer_token(r->t, e->target, NULL),
                    qkv_tokenizer_token(r->t, e->source, NULL));
}

/* What no file can name is in every list. */
static qkv_status add_unnamed(qkv_shortlist *s, const qkv_tokenizer *t)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->vocab && !status; i++) {
        size_t len;
        const char *token = qkv_tokenizer_token(t, (int32_t)i, &len);
        if (token && !has_name(token, len))
            status = qkv_ids_add(&s->always, s->ctx, (int32_t)i);
    }
    return status;
}

qkv_status qkv_shortlist_load(qkv_shortlist **out, qkv_context *ctx, const qkv_tokenizer *t,
                              size_t vocab, const char *path)
{
    reader r = {.ctx = ctx, .t = t, .vocab = vocab, .path = path};
    *out = NULL;
    qkv_status status = read_lines(&r);
    const qkv_shortlist_entry *twice = status ? NULL : qkv__shortlist_twice(r.entries, r.count);
    if (twice)
        status = refuse_twice(&r, twice);
    if (status) {
        qkv_free(ctx, r.entries);
        return status;
    }
    status = qkv__shortlist_make(out, ctx, vocab, r.entries, r.count);
    if (!status)
        status = add_unnamed(*out, t);
    if (!status && r.unknown)
        qkv__note(ctx, "%s: %zu of %zu lines have tokens that the model does not have: they are "
                  "skipped", path, r.unknown, r.lines);
    if (status) {
        qkv_shortlist_destroy(*out);
        *out = NULL;
    }
    return status;
}
