/* chat_corpus.c - files of conversations as records of ids. */
#include <stdio.h>
#include <string.h>

#include "text/chat.h"
#include "text/chat_template.h"
#include "qkv/texts.h"

enum { WHERE = 4096, FIELDS = 2 };

typedef struct {
    const qkv_chat_template *t;
    qkv_tokenizer *tokenizer;
    qkv_records_writer *w;
    size_t length;
    qkv_chat_count *count;
    qkv_text text;
    qkv_chat_spans spans;
    qkv_ids ids, marks;
} corpus;

static bool blank_line(const qkv_line *line)
{
    for (size_t i = 0; i < line->len; i++)
        if (!strchr(" \t\r", line->data[i]) || !line->data[i])
            return false;
    return true;
}

/* Calls fn with each conversation of the part. */
static qkv_status each_conversation(const qkv_chat_template *t, const qkv_text_span *part,
                                    qkv_status (*fn)(void *user, const char *where,
                                                     const json_t *talk),
                                    void *user)
{
    char where[WHERE];
    size_t number = part->before;
    qkv_line line;
    qkv_status status = QKV_OK;
    for (const char *at = part->data, *end = at + part->len;
         !status && qkv_next_line(&at, end, &line);) {
        json_t *talk;
        (void)snprintf(where, sizeof where, "%s: line %zu", part->name ? part->name : "the text",
                       ++number);
        if (blank_line(&line))
            continue;
        status = qkv__chat_parse(&talk, t->ctx, where, line.data, line.len);
        if (!status) {
            status = fn(user, where, talk);
            json_decref(talk);
        }
    }
    return status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static qkv_status add_text_of(void *user, const char *where, const json_t *talk)
{
    corpus *c = user;
    return qkv__chat_render(c->t, where, talk, false, &c->text, NULL);
}

qkv_status qkv_chat_add_texts(const qkv_chat_template *t, const qkv_text_span *part, qkv_text *out)
{
    corpus c = {.t = t, .text = *out};
    qkv_status status = each_conversation(t, part, add_text_of, &c);
    *out = c.text;
    return status;
}

/* ---- records --------------------------------------------------------------------------------- */

static size_t count_marks(const qkv_ids *marks, size_t n)
{
    size_t found = 0;
    for (size_t i = 1; i < n; i++) /* what comes first is never predicted */
        found += marks->data[i] != 0;
    return found;
}

static qkv_status chat_record_of(void *user, const char *where, const json_t *talk)
{
    corpus *c = user;
    qkv_context *ctx = c->t->ctx;
    c->text.len = c->spans.count = c->ids.count = c->marks.count = 0;
    qkv_status status = qkv__chat_render(c->t, where, talk, false, &c->text, &c->spans);
    if (!status && qkv_chat_encode(ctx, c->tokenizer, &c->text, &c->spans, &c->ids, &c->marks))
        status = qkv_fail_prefix(ctx, where);
    if (status)
        return status;
    size_t n = c->ids.count < c->length ? c->ids.count : c->length;
    size_t answers = count_marks(&c->marks, n);
    if (!answers) {
        c->count->left_out++;
        return QKV_OK;
    }
    c->count->conversations++;
    c->count->cut += n < c->ids.count;
    c->count->tokens += n;
    c->count->answers += answers;
    status = qkv_records_add(c->w, c->ids.data, n);
    return status ? status : qkv_records_add(c->w, c->marks.data, n);
}

qkv_status qkv_chat_add_records(qkv_records_writer *w, const qkv_chat_template *t,
                                qkv_tokenizer *tokenizer, const qkv_text_span *part, size_t length,
                                qkv_chat_count *count)
{
    corpus c = {.t = t, .tokenizer = tokenizer, .w = w, .length = length, .count = count};
    qkv_status status = each_conversation(t, part, chat_record_of, &c);
    qkv_text_free(&c.text, t->ctx);
    qkv_chat_spans_free(&c.spans, t->ctx);
    qkv_ids_free(&c.ids, t->ctx);
    qkv_ids_free(&c.marks, t->ctx);
    return status;
}

static void note_counts(qkv_context *ctx, const qkv_chat_count *n, size_t length)
{
    if (n->cut)
        qkv__note(ctx, "%zu of %zu conversations have more than %zu tokens and are truncated",
                  n->cut, n->conversations, length);
    if (n->left_out)
        qkv__note(ctx, "%zu conversations without an answer within the first %zu tokens are left "
                  "out", n->left_out, length);
}

qkv_status qkv__chat_records(qkv_records **out, const qkv_chat_template *t,
                             qkv_tokenizer *tokenizer, const qkv_text_span *parts, size_t count,
                             size_t length, const char *path)
{
    qkv_chat_count n = {0};
    qkv_records_writer *w = NULL;
    *out = NULL;
    qkv_status status = qkv_records_create(&w, t->ctx, path, FIELDS);
    for (size_t i = 0; i < count && !status; i++)
        status = qkv_chat_add_records(w, t, tokenizer, &parts[i], length, &n);
    if (!status && !n.conversations)
        status = qkv_fail(t->ctx, QKV_E_FORMAT, "%s: a conversation with an answer within the "
                          "first %zu tokens expected, found none", parts[0].name, length);
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    note_counts(t->ctx, &n, length);
    return qkv_records_finish(w, out);
}
