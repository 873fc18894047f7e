/* partners.c - texts that belong together, as records of ids. */
#include "qkv/corpus.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"
#include "qkv/texts.h"

enum { SIDES = 2 };

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv_records_writer *w;
    size_t length;
    qkv_ids ids[SIDES];
    qkv_partners_count *count;
} job;

static qkv_status partners_fail_at(const job *j, const qkv_text_span *part, size_t number)
{
    char prefix[48];
    (void)snprintf(prefix, sizeof prefix, "line %zu", part->before + number);
    (void)qkv_fail_prefix(j->ctx, prefix);
    return qkv_fail_prefix(j->ctx, part->name ? part->name : "text");
}

/* The two lines that belong together, of a file each or of one. */
static qkv_status split_lines(const job *j, const qkv_text_span sides[SIDES],
                              const char *at[SIDES], qkv_line lines[SIDES], size_t number)
{
    for (int i = 0; i < SIDES && sides[i].data; i++)
        if (!qkv_next_line(&at[i], sides[i].data + sides[i].len, &lines[i]))
            return qkv_fail(j->ctx, QKV_E_FORMAT, "%s: line %zu is missing",
                            sides[i].name ? sides[i].name : "text", sides[i].before + number);
    if (sides[1].data)
        return QKV_OK;
    const qkv_text_pair pair = qkv_text_pair_of(lines[0].data, lines[0].len);
    if (!pair.second || memchr(pair.second, '\t', pair.second_len)) {
        (void)qkv_fail(j->ctx, QKV_E_FORMAT, "a text, a tab and the text that belongs to it "
                       "expected");
        return partners_fail_at(j, &sides[0], number);
    }
    lines[0] = (qkv_line){pair.text, pair.len};
    lines[1] = (qkv_line){pair.second, pair.second_len};
    return QKV_OK;
}

static bool is_blank(const qkv_line *l)
{
    for (size_t i = 0; i < l->len; i++)
        if (l->data[i] != ' ' && l->data[i] != '\t')
            return false;
    return true;
}

static qkv_status add_pair(job *j, const qkv_text_span sides[SIDES], const qkv_line lines[SIDES],
                           size_t number)
{
    qkv_status status = QKV_OK;
    bool cut = false;
    if (is_blank(&lines[0]) || is_blank(&lines[1])) {
        j->count->empty++;
        return QKV_OK;
    }
    for (int i = 0; i < SIDES && !status; i++) {
        size_t valid = qkv__utf8_valid(lines[i].data, lines[i].len);
        if (valid < lines[i].len)
            status = qkv_fail(j->ctx, QKV_E_FORMAT, "text in UTF-8 expected, found the byte 0x%02x",
                              (unsigned char)lines[i].data[valid]);
        if (status)
            return partners_fail_at(j, &sides[sides[1].data ? i : 0], number);
        const qkv_text_pair text = {.text = lines[i].data, .len = lines[i].len};
        size_t second;
        bool shorter = false;
        status = qkv_corpus_encode(j->tokenizer, j->ctx, &text, j->length, &j->ids[i], &second,
                                   &shorter);
        cut = cut || shorter;
        if (status)
            return partners_fail_at(j, &sides[sides[1].data ? i : 0], number);
    }
    j->count->pairs++;
    j->count->cut += cut;
    for (int i = 0; i < SIDES && !status; i++)
        status = qkv_records_add(j->w, j->ids[i].data, j->ids[i].count);
    return status;
}

qkv_status qkv_corpus_add_partners(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                   const qkv_text_span *a, const qkv_text_span *b, size_t length,
                                   qkv_partners_count *count)
{
    job j = {.ctx = ctx, .tokenizer = t, .w = w, .length = length, .count = count};
    const qkv_text_span sides[SIDES] = {*a, b ? *b : (qkv_text_span){0}};
    const char *at[SIDES] = {sides[0].data, sides[1].data};
    const char *end[SIDES] = {sides[0].data + sides[0].len,
                              b ? sides[1].data + sides[1].len : NULL};
    qkv_status status = QKV_OK;
    for (size_t number = 1; !status && (at[0] < end[0] || (b && at[1] < end[1])); number++) {
        qkv_line lines[SIDES];
        status = split_lines(&j, sides, at, lines, number);
        if (!status)
            status = add_pair(&j, sides, lines, number);
    }
    for (int i = 0; i < SIDES; i++)
        qkv_ids_free(&j.ids[i], ctx);
    return status;
}
