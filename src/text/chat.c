/* chat.c - conversations as text, and where in it the assistant speaks. */
#include "text/chat.h"

#include <string.h>
#include <time.h>

#include "io/json.h"
#include "jinja/jinja.h"
#include "text/chat_template.h"

/* ---- conversations --------------------------------------------------------------------------- */

const json_t *qkv__chat_messages(const json_t *talk) { return json_object_get(talk, "messages"); }

static qkv_status check_messages(const qkv__json *talk)
{
    qkv__json messages, message;
    qkv_status status = qkv__json_get_array(talk, "messages", &messages);
    if (!status && !qkv__json_count(&messages))
        return qkv__json_fail(talk, "messages", "at least one message expected");
    for (size_t i = 0; !status && i < qkv__json_count(&messages); i++) {
        const char *role;
        qkv__json_item(&messages, i, &message);
        status = qkv__json_get_string(&message, "role", &role);
    }
    return status;
}

qkv_status qkv__chat_parse(json_t **out, qkv_context *ctx, const char *name, const char *text,
                           size_t length)
{
    qkv__json talk;
    *out = NULL;
    qkv_status status = qkv__json_parse(&talk, ctx, name, text, length);
    if (!status && (status = check_messages(&talk)) != QKV_OK)
        qkv__json_free(&talk);
    *out = status ? NULL : talk.value;
    return status;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* A message as templates see it: without what is null, and with what the model thought under all
 * names that are in use. NULL: out of memory. */
static json_t *plain_message(const json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *out = json_object(), *value, *thought = NULL;
    const char *key;
    int failed = out ? 0 : -1;
    json_object_foreach((json_t *)message, key, value)
        if (!json_is_null(value))
            failed |= json_object_set(out, key, value);
    for (size_t i = 0; i < 3 && !thought; i++)
        thought = json_object_get(out, names[i]);
    if (thought && !json_object_get(out, "thinking"))
        failed |= json_object_set(out, "thinking", thought);
    if (thought)
        failed |= json_object_set(out, "reasoning_content", thought);
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

/* NULL: out of memory. */
static json_t *variables_of(const qkv_chat_template *t, const json_t *talk, size_t count,
                            bool generation_prompt)
{
    const json_t *all = qkv__chat_messages(talk);
    json_t *out = json_object(), *messages = json_array(), *value;
    const char *key;
    int failed = json_object_set_new(out, "tools", json_null());
    failed |= json_object_set_new(out, "documents", json_null());
    failed |= json_object_update(out, t->tokens);
    json_object_foreach((json_t *)talk, key, value)
        failed |= json_object_set(out, key, value);
    for (size_t i = 0; i < count; i++)
        failed |= json_array_append_new(messages, plain_message(json_array_get(all, i)));
    failed |= json_object_set_new(out, "messages", messages);
    failed |= json_object_set_new(out, "add_generation_prompt", json_boolean(generation_prompt));
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

static const qkv__jinja *template_of(const qkv_chat_template *t, const json_t *talk)
{
    const json_t *tools = json_object_get(talk, "tools");
    return t->with_tools && tools && !json_is_null(tools) ? t->with_tools : t->jinja;
}

static qkv_status render(const qkv_chat_template *t, const char *name, const json_t *talk,
                         size_t count, bool generation_prompt, qkv_text *out,
                         qkv__jinja_spans *spans)
{
    json_t *variables = variables_of(t, talk, count, generation_prompt);
    if (!variables)
        return qkv_fail(t->ctx, QKV_E_MEMORY, "out of memory for a conversation");
    qkv_status status = qkv__jinja_render(template_of(t, talk), variables, (int64_t)time(NULL), out,
                                          spans);
    json_decref(variables);
    return status && name ? qkv_fail_prefix(t->ctx, name) : status;
}

/* ---- what the assistant says ----------------------------------------------------------------- */

static qkv_status add_span(qkv_context *ctx, qkv_chat_spans *spans, size_t from, size_t to)
{
    if (!qkv__grow(ctx, &spans->ends, &spans->capacity, 2 * spans->count + 2,
                   sizeof *spans->ends))
        return QKV_E_MEMORY;
    spans->ends[2 * spans->count] = from;
    spans->ends[2 * spans->count++ + 1] = to;
    return QKV_OK;
}

/* Appends the span of message i: what it adds to the text of those before it. */
static qkv_status find_span(const qkv_chat_template *t, const char *name, const json_t *talk,
                            size_t i, const char *all, size_t length, qkv_chat_spans *spans)
{
    qkv_text before = {0}, with = {0};
    qkv_status status = render(t, name, talk, i, true, &before, NULL);
    if (!status)
        status = render(t, name, talk, i + 1, false, &with, NULL);
    if (!status && (before.len > with.len || with.len > length ||
                    (before.len && memcmp(before.data, all, before.len) != 0) ||
                    (with.len && memcmp(with.data, all, with.len) != 0)))
        status = qkv_fail(t->ctx, QKV_E_FORMAT, "%s: the template writes the messages before the "
                          "answer in message %zu otherwise when others follow, so that what the "
                          "assistant says is not known; a template with {%% generation %%} "
                          "expected", name, i + 1);
    if (!status)
        status = add_span(t->ctx, spans, before.len, with.len);
    qkv_text_free(&before, t->ctx);
    qkv_text_free(&with, t->ctx);
    return status;
}

static qkv_status find_spans(const qkv_chat_template *t, const char *name, const json_t *talk,
                             const char *all, size_t length, qkv_chat_spans *spans)
{
    const json_t *messages = qkv__chat_messages(talk), *message;
    qkv_status status = QKV_OK;
    size_t i;
    json_array_foreach(messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!status && role && strcmp(role, "assistant") == 0)
            status = find_span(t, name, talk, i, all, length, spans);
    }
    return status;
}

qkv_status qkv__chat_render(const qkv_chat_template *t, const char *name, const json_t *talk,
                            bool generation_prompt, qkv_text *out, qkv_chat_spans *spans)
{
    qkv__jinja_spans marked = {0};
    size_t begin = out->len, count = json_array_size(qkv__chat_messages(talk));
    bool marks = spans && qkv__jinja_marks(template_of(t, talk));
    qkv_status status = render(t, name, talk, count, generation_prompt, out,
                               marks ? &marked : NULL);
    for (size_t i = 0; i < marked.count && !status; i++)
        status = add_span(t->ctx, spans, begin + marked.ends[2 * i],
                          begin + marked.ends[2 * i + 1]);
    qkv_free(t->ctx, marked.ends);
    if (status || !spans || marks)
        return status;
    size_t first = spans->count;
    status = find_spans(t, name, talk, out->data ? out->data + begin : "", out->len - begin, spans);
    for (size_t i = 2 * first; i < 2 * spans->count; i++)
        spans->ends[i] += begin;
    return status;
}

qkv_status qkv_chat_text(const qkv_chat_template *t, const char *name, const char *conversation,
                         size_t length, bool generation_prompt, qkv_text *out,
                         qkv_chat_spans *spans)
{
    json_t *talk;
    qkv_status status = qkv__chat_parse(&talk, t->ctx, name, conversation, length);
    if (status)
        return status;
    status = qkv__chat_render(t, name, talk, generation_prompt, out, spans);
    json_decref(talk);
    return status;
}

qkv_status qkv__chat_end(const qkv_chat_template *t, qkv_text *out)
{
    static const char said[] = "qkv";
    qkv_text text = {0};
    json_t *talk = json_pack("{s:[{s:s,s:s},{s:s,s:s}]}", "messages", "role", "user", "content",
                             "u", "role", "assistant", "content", said);
    qkv_status status = talk ? render(t, NULL, talk, 2, false, &text, NULL)
                             : qkv_fail(t->ctx, QKV_E_MEMORY, "out of memory for a conversation");
    json_decref(talk);
    for (size_t i = text.len; !status && i >= sizeof said; i--) {
        const char *at = text.data + i - (sizeof said - 1);
        if (memcmp(at, said, sizeof said - 1) != 0)
            continue;
        size_t end = text.len;
        while (end > i && strchr(" \n\r\t", text.data[end - 1]))
            end--;
        if (!qkv__text_add(t->ctx, out, text.data + i, end - i))
            status = QKV_E_MEMORY;
        break;
    }
    qkv_text_free(&text, t->ctx);
    return status;
}

void qkv_chat_spans_free(qkv_chat_spans *spans, qkv_context *ctx)
{
    qkv_free(ctx, spans->ends);
    *spans = (qkv_chat_spans){0};
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Where the text of each id ends, alone or after those before it; the last is the length of all. */
static qkv_status id_ends(qkv_tokenizer *tokenizer, const int32_t *ids, size_t count, bool alone,
                          size_t *ends, qkv_context *ctx)
{
    qkv_tokenizer_stream *stream = NULL;
    qkv_text text = {0};
    qkv_status status = alone ? QKV_OK : qkv_tokenizer_stream_create(&stream, tokenizer, 0);
    for (size_t i = 0; i < count && !status; i++) {
        status = alone ? qkv_tokenizer_decode(tokenizer, ids + i, 1, 0, &text)
                       : qkv_tokenizer_stream_put(stream, ids[i], &text);
        ends[i] = text.len;
    }
    qkv_tokenizer_stream_destroy(stream);
    qkv_text_free(&text, ctx);
    return status;
}

static qkv_status mark_ids(qkv_context *ctx, const size_t *ends, size_t count,
                           const qkv_chat_spans *spans, qkv_ids *marks)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0, at = 0, span = 0; i < count && !status; at = ends[i++]) {
        while (span < spans->count && spans->ends[2 * span + 1] <= at)
            span++;
        status = qkv_ids_add(marks, ctx, span < spans->count && spans->ends[2 * span] < ends[i]);
    }
    return status;
}

/* Where ids do not say which bytes they are of, because the text was changed before it was cut:
 * each stretch is encoded by itself. */
static qkv_status encode_stretches(qkv_tokenizer *tokenizer, qkv_context *ctx, const qkv_text *text,
                                   const qkv_chat_spans *spans, qkv_ids *ids, qkv_ids *marks)
{
    qkv_status status = QKV_OK;
    for (size_t k = 0, at = 0; k <= 2 * spans->count && !status; k++) {
        size_t end = k < 2 * spans->count ? spans->ends[k] : text->len;
        if (end > at)
            status = qkv_tokenizer_encode(tokenizer, text->data + at, end - at, 0, ids);
        while (!status && marks->count < ids->count)
            status = qkv_ids_add(marks, ctx, k % 2 == 1);
        at = end > at ? end : at;
    }
    return status;
}

qkv_status qkv_chat_encode(qkv_context *ctx, qkv_tokenizer *tokenizer, const qkv_text *text,
                           const qkv_chat_spans *spans, qkv_ids *ids, qkv_ids *marks)
{
    size_t first = ids->count;
    qkv_status status = qkv_tokenizer_encode(tokenizer, text->data ? text->data : "", text->len, 0,
                                             ids);
    size_t count = ids->count - first;
    if (status || !marks || !count)
        return status;
    size_t *ends = qkv_calloc(ctx, count, sizeof *ends);
    if (!ends)
        return QKV_E_MEMORY;
    bool found = false;
    for (int alone = 1; alone >= 0 && !status && !found; alone--) {
        status = id_ends(tokenizer, ids->data + first, count, alone, ends, ctx);
        found = !status && ends[count - 1] == text->len;
    }
    if (found) {
        status = mark_ids(ctx, ends, count, spans, marks);
    } else if (!status) {
        ids->count = first;
        status = encode_stretches(tokenizer, ctx, text, spans, ids, marks);
    }
    qkv_free(ctx, ends);
    return status;
}
