/* chat.c - a conversation with a language model, answer by answer. */
#include "qkv/pipeline_chat.h"

#include <string.h>

#include "io/json.h"
#include "pipeline/options.h"
#include "pipeline/pipeline.h"
#include "pipeline/prompts.h"
#include "text/chat.h"

#define FIELD(member) .offset = offsetof(qkv_chat_options, member)
static const qkv_option rows[] = {
    {.flag = "system", .key = "system", .type = QKV_OPT_STRING, FIELD(system), .value = "TEXT",
     .help = "what the model is told before the conversation"},
    {.flag = "chat-template", .key = "chat_template", .type = QKV_OPT_STRING, FIELD(chat_template),
     .value = "FILE", .help = "file with a template, or chatml; else DIR has one"},
    {.flag = "variables", .key = "variables", .type = QKV_OPT_STRING, FIELD(variables),
     .value = "JSON", .help = "object of variables for the template: {\"enable_thinking\": false}"},
    {.flag = "tokens", .key = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 1e9, FIELD(tokens),
     .initial = "512", .help = "tokens of an answer at most"},
    QKV__SAMPLING_ROWS,
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "of the tokens drawn"},
};
QKV__OPTIONS(qkv_chat, "Conversation")

struct qkv_chat {
    qkv_context *ctx;
    qkv_pipeline *p;
    qkv_chat_options o;
    char *system;
    qkv_chat_template *template;
    qkv_generator *generator;
    json_t *variables, *talk; /* objects; talk: with "messages" */
    qkv_text end;             /* that ends an answer; empty: a token does */
    int32_t stop[QKV_LM_EOS_IDS + 1];
    size_t stops, answers;    /* ids that end an answer; answers so far */
    /* The answer that is being made. */
    qkv_tokenizer_stream *stream;
    qkv_text text;            /* of it */
    size_t told;              /* bytes of text that fn has heard of */
    qkv_ids ids;
    qkv_chat_fn *fn;
    void *user;
    bool ended, interrupted;
    qkv_status status;
};

static qkv_status chat_no_memory(const qkv_chat *c)
{
    return qkv_fail(c->ctx, QKV_E_MEMORY, "out of memory for a conversation");
}

/* ---- messages -------------------------------------------------------------------------------- */

static json_t *talk_messages(const json_t *talk) { return json_object_get(talk, "messages"); }

static qkv_status add_message(qkv_chat *c, json_t *talk, const char *role, const char *text,
                              size_t len)
{
    json_t *content = json_stringn(text, len);
    if (!content)
        return qkv_fail(c->ctx, QKV_E_ARGUMENT, "a message of valid UTF-8 expected");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    return json_array_append_new(talk_messages(talk), message) ? chat_no_memory(c) : QKV_OK;
}

static const char *speaker_of(const json_t *messages, size_t i)
{
    return json_string_value(json_object_get(json_array_get(messages, i), "role"));
}

static bool talk_has_role(const json_t *messages, size_t i, const char *role)
{
    const char *found = speaker_of(messages, i);
    return found && strcmp(found, role) == 0;
}

/* Removes the oldest turn: from the first message that is not the system's up to the next of the
 * user. Returns the number of messages; 0: the last of the user is all there is. */
static size_t remove_oldest(json_t *messages)
{
    size_t first = 0, next, count = json_array_size(messages);
    while (first < count && talk_has_role(messages, first, "system"))
        first++;
    for (next = first + 1; next < count && !talk_has_role(messages, next, "user");)
        next++;
    if (next >= count)
        return 0;
    for (size_t i = first; i < next; i++)
        (void)json_array_remove(messages, first);
    return next - first;
}

/* The ids of the conversation. Where there is no room for an answer, the oldest turns are removed
 * until a quarter is free, so that the next answers begin with the tokens of this one. */
static qkv_status chat_prompt(qkv_chat *c, qkv_ids *ids)
{
    size_t positions = qkv_lm_positions(c->p->model), removed = 0;
    size_t room = c->o.tokens < positions / 4 ? c->o.tokens : positions / 4 + 1;
    const size_t most = positions - room;
    for (size_t wanted = most;; wanted = most - most / 4) {
        qkv_text text = {0};
        ids->count = 0;
        qkv_status status = qkv__chat_render(c->template, c->p->dir, c->talk, true, &text, NULL);
        if (!status)
            status = qkv_chat_encode(c->ctx, c->p->tokenizer, &text, NULL, ids, NULL);
        qkv_text_free(&text, c->ctx);
        if (status)
            return status;
        if (ids->count <= wanted)
            break;
        size_t more = remove_oldest(talk_messages(c->talk));
        if (!more && ids->count <= most)
            break;
        if (!more)
            return qkv_fail(c->ctx, QKV_E_ARGUMENT, "the message has %zu tokens with what the "
                            "template adds: at most %zu expected, the positions of %s less %zu for "
                            "an answer", ids->count, most, c->p->dir, room);
        removed += more;
    }
    if (removed)
        qkv__note(c->ctx, "the conversation no longer fits: its oldest %zu messages are left out",
                  removed);
    return QKV_OK;
}

/* ---- an answer ------------------------------------------------------------------------------- */

/* Bytes at the end of the text that may be the beginning of what ends an answer. */
static size_t chat_held_back(const qkv_chat *c)
{
    size_t n = c->end.len ? c->end.len - 1 : 0;
    if (n > c->text.len)
        n = c->text.len;
    while (n && memcmp(c->text.data + c->text.len - n, c->end.data, n) != 0)
        n--;
    return n;
}

/* Cuts the text where what ends an answer begins in it; `from`: it is not before. */
static bool chat_cut(qkv_chat *c, size_t from)
{
    for (size_t i = from; c->end.len && i + c->end.len <= c->text.len; i++)
        if (memcmp(c->text.data + i, c->end.data, c->end.len) == 0) {
            c->text.len = i;
            return true;
        }
    return false;
}

static bool chat_tell(qkv_chat *c, size_t upto)
{
    const qkv_chat_piece piece = {.kind = QKV_CHAT_TEXT, .text = c->text.data + c->told,
                                  .len = upto > c->told ? upto - c->told : 0};
    if (!piece.len)
        return true;
    c->told = upto;
    c->interrupted = !c->fn(c->user, &piece);
    return !c->interrupted;
}

static bool chat_on_token(void *user, int32_t id, const qkv_real *probabilities,
                          const qkv_real *model, size_t V)
{
    qkv_chat *c = user;
    (void)probabilities;
    (void)model;
    (void)V;
    size_t before = c->text.len, overlap = c->end.len < before ? c->end.len : before;
    c->status = qkv_ids_add(&c->ids, c->ctx, id);
    if (!c->status)
        c->status = qkv_tokenizer_stream_put(c->stream, id, &c->text);
    if (c->status)
        return false;
    c->ended = chat_cut(c, before - overlap);
    return chat_tell(c, c->text.len - (c->ended ? 0 : chat_held_back(c))) && !c->ended;
}

static qkv_status chat_generate(qkv_chat *c, const qkv_ids *prompt)
{
    size_t positions = qkv_lm_positions(c->p->model), left = positions - prompt->count;
    qkv_generate_options o = {.tokens = c->o.tokens < left ? c->o.tokens : left, .stop = c->stop,
                              .stops = c->stops, .seed = c->o.seed, .index = c->answers,
                              .sampling = c->o.sampling};
    if (c->o.greedy)
        o.sampling.temperature = 0;
    qkv_status status = qkv_generator_run(c->generator, prompt->data, prompt->count, &o,
                                          chat_on_token, c, NULL);
    status = c->status ? c->status : status;
    bool whole = c->ended || c->interrupted || c->ids.count < o.tokens;
    if (!status && !c->ended)
        status = qkv_tokenizer_stream_end(c->stream, &c->text);
    if (status)
        return status;
    if (!c->interrupted)
        (void)chat_tell(c, c->text.len);
    const qkv_chat_piece end = {
        .kind = QKV_CHAT_END, .text = c->text.data ? c->text.data : "", .len = c->text.len,
        .reason = c->interrupted ? QKV_CHAT_INTERRUPTED
                  : whole ? QKV_CHAT_STOPPED : QKV_CHAT_LENGTH,
        .prompt = prompt->count, .reused = qkv_generator_reused(c->generator), .ids = &c->ids};
    (void)c->fn(c->user, &end);
    return QKV_OK;
}

/* Answers the conversation. */
static qkv_status chat_run(qkv_chat *c, qkv_chat_fn *fn, void *user)
{
    qkv_ids prompt = {0};
    c->fn = fn;
    c->user = user;
    c->text.len = c->told = c->ids.count = 0;
    c->ended = c->interrupted = false;
    c->status = QKV_OK;
    qkv_tokenizer_stream_destroy(c->stream);
    qkv_status status = qkv_tokenizer_stream_create(&c->stream, c->p->tokenizer,
                                                    QKV_DECODE_SKIP_SPECIAL | QKV_DECODE_VALID);
    if (!status)
        status = chat_prompt(c, &prompt);
    if (!status)
        status = chat_generate(c, &prompt);
    if (!status)
        status = add_message(c, c->talk, "assistant", c->text.data ? c->text.data : "",
                             c->text.len);
    c->answers += !status;
    qkv_ids_free(&prompt, c->ctx);
    return status;
}

/* Runs with another conversation in place of c->talk, which a failure leaves as it was. */
static qkv_status chat_run_with(qkv_chat *c, json_t *talk, qkv_chat_fn *fn, void *user)
{
    json_t *before = c->talk;
    c->talk = talk;
    qkv_status status = chat_run(c, fn, user);
    if (status)
        c->talk = before;
    json_decref(status ? talk : before);
    return status;
}

qkv_status qkv_chat_say(qkv_chat *c, const char *text, qkv_chat_fn *fn, void *user)
{
    json_t *talk = json_deep_copy(c->talk);
    if (!talk)
        return chat_no_memory(c);
    qkv_status status = add_message(c, talk, "user", text, strlen(text));
    if (!status)
        return chat_run_with(c, talk, fn, user);
    json_decref(talk);
    return status;
}

/* ---- conversations from elsewhere ------------------------------------------------------------ */

/* A conversation with the system's message alone. */
static qkv_status chat_begin(qkv_chat *c, json_t **out)
{
    json_t *talk = json_deep_copy(c->variables);
    qkv_status status = QKV_OK;
    if (json_object_set_new(talk, "messages", json_array()))
        status = chat_no_memory(c);
    else if (c->system)
        status = add_message(c, talk, "system", c->system, strlen(c->system));
    if (status)
        json_decref(talk);
    *out = status ? NULL : talk;
    return status;
}

/* The conversation in JSON, after the system's message if it has none. */
static qkv_status chat_read(qkv_chat *c, const char *name, const char *text, size_t length,
                            json_t **out)
{
    json_t *given, *talk = NULL;
    *out = NULL;
    qkv_status status = qkv__chat_parse(&given, c->ctx, name, text, length);
    if (status)
        return status;
    status = chat_begin(c, &talk);
    json_t *messages = talk_messages(talk), *others = talk_messages(given);
    if (talk_has_role(others, 0, "system"))
        (void)json_array_clear(messages);
    if (!status && (json_array_extend(messages, others) ||
                    json_object_set(given, "messages", messages) ||
                    json_object_update(talk, given)))
        status = chat_no_memory(c);
    if (status)
        json_decref(talk);
    json_decref(given);
    *out = status ? NULL : talk;
    return status;
}

qkv_status qkv_chat_answer(qkv_chat *c, const char *name, const char *conversation, size_t length,
                           qkv_chat_fn *fn, void *user)
{
    json_t *talk;
    qkv_status status = chat_read(c, name, conversation, length, &talk);
    if (status)
        return status;
    status = chat_run_with(c, talk, fn, user);
    return status ? qkv_fail_prefix(c->ctx, name) : QKV_OK;
}

qkv_status qkv_chat_show(qkv_chat *c, const char *name, const char *conversation, size_t length,
                         qkv_text *out)
{
    json_t *talk;
    qkv_status status = chat_read(c, name, conversation, length, &talk);
    if (status)
        return status;
    const json_t *asked = json_object_get(talk, "add_generation_prompt");
    status = qkv__chat_render(c->template, name, talk, !asked || json_is_true(asked), out, NULL);
    json_decref(talk);
    return status;
}

qkv_status qkv_chat_reset(qkv_chat *c)
{
    json_t *talk;
    qkv_status status = chat_begin(c, &talk);
    if (status)
        return status;
    json_decref(c->talk);
    c->talk = talk;
    return QKV_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* What ends an answer: eos ids, and what the template puts behind it, a special token or a text. */
static qkv_status chat_find_ends(qkv_chat *c)
{
    const qkv_pipeline_generate_options none = {0};
    qkv_ids ids = {0};
    c->stops = qkv__generate_settings(c->p, &none, c->stop).stops;
    qkv_status status = qkv__chat_end(c->template, &c->end);
    if (status == QKV_E_FORMAT) { /* a template that refuses two short messages */
        c->end.len = 0;
        return QKV_OK;
    }
    if (!status && c->end.len)
        status = qkv_tokenizer_encode(c->p->tokenizer, c->end.data, c->end.len, 0, &ids);
    if (!status && ids.count && qkv_tokenizer_is_special(c->p->tokenizer, ids.data[0])) {
        c->stop[c->stops++] = ids.data[0];
        c->end.len = 0;
    }
    qkv_ids_free(&ids, c->ctx);
    return status;
}

static qkv_status chat_read_variables(qkv_chat *c, const char *text)
{
    qkv__json variables = {0};
    qkv_status status = QKV_OK;
    if (text)
        status = qkv__json_parse(&variables, c->ctx, "variables", text, strlen(text));
    c->variables = text ? variables.value : json_object();
    if (!status && !json_is_object(c->variables))
        status = qkv_fail(c->ctx, QKV_E_ARGUMENT, "variables: a JSON object expected");
    return status;
}

static qkv_status chat_set_up(qkv_chat *c)
{
    const qkv_chat_options *o = &c->o;
    qkv_status status = o->chat_template
        ? qkv_chat_template_load(&c->template, c->ctx, o->chat_template, c->p->dir)
        : qkv_hub_load_chat_template(&c->template, c->ctx, c->p->dir);
    if (!status && o->system && !(c->system = qkv_strdup(c->ctx, o->system)))
        status = QKV_E_MEMORY;
    if (!status)
        status = chat_read_variables(c, o->variables);
    if (!status)
        status = qkv_generator_create(&c->generator, c->p->model);
    if (!status)
        status = chat_find_ends(c);
    return status ? status : qkv_chat_reset(c);
}

qkv_status qkv_chat_open(qkv_chat **out, qkv_pipeline *p, const qkv_chat_options *options)
{
    *out = NULL;
    if (!qkv_model_can(p->model, QKV_CAN_GENERATE))
        return qkv__pipeline_refuse(p, "continue text");
    qkv_status status = qkv__pipeline_text(p);
    if (status)
        return status;
    qkv_chat *c = qkv_calloc(p->ctx, 1, sizeof *c);
    if (!c)
        return QKV_E_MEMORY;
    c->ctx = p->ctx;
    c->p = p;
    c->o = options ? *options : qkv_chat_defaults();
    status = chat_set_up(c);
    if (status)
        qkv_chat_close(c);
    else
        *out = c;
    return status;
}

void qkv_chat_close(qkv_chat *c)
{
    if (!c)
        return;
    qkv_chat_template_close(c->template);
    qkv_generator_destroy(c->generator);
    qkv_tokenizer_stream_destroy(c->stream);
    json_decref(c->variables);
    json_decref(c->talk);
    qkv_text_free(&c->end, c->ctx);
    qkv_text_free(&c->text, c->ctx);
    qkv_ids_free(&c->ids, c->ctx);
    qkv_free(c->ctx, c->system);
    qkv_free(c->ctx, c);
}
