/* texts.c - text files in memory, held-out shares, lines. */
#include "text/texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

/* The file's text, without the mark that it is UTF-8 (a "BOM"), where it begins with one. */
static qkv_text_span texts_part_of(const qkv__map *m, const char *name)
{
    const char *text = (const char *)m->data;
    size_t mark = m->size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return (qkv_text_span){.data = text + mark, .len = m->size - mark, .name = name};
}

qkv_status qkv_texts_open(qkv_texts *x, qkv_context *ctx, const qkv_strings *paths)
{
    *x = (qkv_texts){.ctx = ctx};
    qkv__map *maps = x->maps = qkv_calloc(ctx, paths->count, sizeof *maps);
    x->spans = qkv_calloc(ctx, paths->count, sizeof *x->spans);
    qkv_status status = maps && x->spans ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < paths->count && !status; i++) {
        qkv__map *m = &maps[i];
        status = qkv__map_open(m, ctx, paths->items[i]);
        if (!status)
            x->spans[x->count] = texts_part_of(m, paths->items[i]);
        if (!status && x->spans[x->count].len == 0) {
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: the file is empty", paths->items[i]);
            qkv__map_close(m);
        }
        x->count += !status;
    }
    if (status)
        qkv_texts_close(x);
    return status;
}

qkv_status qkv_texts_open_one(qkv_texts *x, qkv_context *ctx, const char *path)
{
    const qkv_strings one = {.items = &path, .count = 1};
    return qkv_texts_open(x, ctx, &one);
}

void qkv_texts_close(qkv_texts *x)
{
    qkv__map *maps = x->maps;
    for (size_t i = 0; i < x->count; i++)
        qkv__map_close(&maps[i]);
    qkv_free(x->ctx, x->maps);
    qkv_free(x->ctx, x->spans);
    *x = (qkv_texts){0};
}

qkv_status qkv__held_out(qkv_context *ctx, const char *text, size_t total, const char *unit,
                         size_t *count)
{
    char *end;
    double n = strtod(text, &end);
    bool percent = strcmp(end, "%") == 0;
    if (end == text || (*end && !percent) || !(n >= 0) || (percent && n >= 100))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                         "--valid-last: %s or a share below 100%% expected, %s found", unit, text);
    if (percent)
        n = (double)total - floor((double)total * (1 - n / 100));
    if (n >= (double)total)
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                         "--valid-last: %.0f %s to hold out, there are only %zu", n, unit, total);
    *count = (size_t)n;
    return QKV_OK;
}

bool qkv_next_line(const char **at, const char *end, qkv_line *line)
{
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    const char *next = stop ? stop + 1 : end;
    if (!stop)
        stop = end;
    if (stop > *at && stop[-1] == '\r')
        stop--;
    *line = (qkv_line){*at, (size_t)(stop - *at)};
    *at = next;
    return true;
}

size_t qkv__count_lines(const qkv_text_span *part)
{
    const char *at = part->data;
    qkv_line line;
    size_t n = 0;
    while (qkv_next_line(&at, part->data + part->len, &line))
        n++;
    return n;
}

/* ---- held-out ends --------------------------------------------------------------------------- */

static size_t units_of(const qkv_text_span *part, bool lines)
{
    return lines ? qkv__count_lines(part) : part->len;
}

/* What follows so many units; no character is cut. */
static const char *behind(const qkv_text_span *part, size_t units, bool lines)
{
    const char *at = part->data, *end = at + part->len;
    qkv_line line;
    if (!lines)
        for (at += units; at < end && ((unsigned char)*at & 0xC0) == 0x80;)
            at++;
    for (; lines && units; units--)
        (void)qkv_next_line(&at, end, &line);
    return at;
}

/* Moves the last units, fewer than there are, to x->held, in order: whole parts and the end of
 * one. */
static void move_end(qkv__text_split *x, size_t units, bool lines)
{
    qkv_text_span *parts = x->data.spans;
    size_t i = x->train_count, here = 0;
    while (i > 0 && (here = units_of(&parts[i - 1], lines)) <= units) {
        units -= here;
        i--;
    }
    if (i > 0 && units > 0) {
        qkv_text_span *part = &parts[i - 1];
        const char *at = behind(part, here - units, lines), *end = part->data + part->len;
        if (at < end)
            x->held[x->held_count++] = (qkv_text_span){
                at, (size_t)(end - at), part->name, lines ? part->before + here - units : 0};
        part->len = (size_t)(at - part->data);
    }
    for (size_t k = i; k < x->train_count; k++)
        x->held[x->held_count++] = parts[k];
    x->train_count = i;
}

qkv_status qkv__text_split_open(qkv__text_split *x, qkv_context *ctx, const qkv_strings *data,
                                const char *valid, const char *last, bool lines)
{
    size_t total = 0, units;
    qkv_status status = qkv_texts_open(&x->data, ctx, data);
    if (status)
        return status;
    x->train_count = x->data.count;
    x->held = qkv_calloc(ctx, x->train_count, sizeof *x->held);
    if (!x->held)
        return QKV_E_MEMORY;
    if (valid) {
        status = qkv_texts_open_one(&x->valid_file, ctx, valid);
        if (!status)
            x->held[x->held_count++] = x->valid_file.spans[0];
        return status;
    }
    for (size_t i = 0; i < x->train_count; i++)
        total += units_of(&x->data.spans[i], lines);
    status = qkv__held_out(ctx, last, total, lines ? "lines" : "bytes", &units);
    if (!status)
        move_end(x, units, lines);
    return status;
}

void qkv__text_split_close(qkv__text_split *x)
{
    if (x->data.ctx)
        qkv_free(x->data.ctx, x->held);
    qkv_texts_close(&x->data);
    qkv_texts_close(&x->valid_file);
    *x = (qkv__text_split){0};
}

/* ---- records --------------------------------------------------------------------------------- */

qkv_status qkv__records_open_of(qkv_records **out, qkv_context *ctx, const char *path,
                                size_t fields, const qkv_tokenizer *tokenizer)
{
    qkv_status status = qkv_records_open(out, ctx, path);
    if (status)
        return status;
    size_t vocab = qkv_tokenizer_vocab_size(tokenizer);
    if (qkv_records_fields(*out) != fields)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: records of %zu fields expected, found %zu", path,
                          fields, qkv_records_fields(*out));
    for (size_t f = 0; f < fields && f < 2 && !status; f++) {
        int64_t max = qkv_records_max(*out, f);
        if (max >= (int64_t)vocab)
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: tokens below the vocabulary's %zu expected, "
                              "found %lld", path, vocab, (long long)max);
    }
    if (!status)
        return QKV_OK;
    qkv_records_close(*out);
    *out = NULL;
    return status;
}
