/* chat.h - conversations as text: the template that a model directory has for them.
 * Layer: text
 *
 * A conversation is JSON: {"messages": [{"role": "user", "content": "Hi"}, ..]}. Other keys of the
 * object are variables of the template: "tools", "documents", "enable_thinking". A template is
 * Jinja; docs/chat.md lists what of it is understood. The rest is refused by name and line, and so
 * is a template that takes too much time or memory. */
#ifndef QKV_CHAT_H
#define QKV_CHAT_H

#include <qkv/records.h>
#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

typedef struct qkv_chat_template qkv_chat_template;

/* Opens the template of a model directory: chat_template.jinja, chat_template.json, or
 * "chat_template" of tokenizer_config.json, which may be a list of templates with names ("default";
 * "tool_use" where there are tools). Special tokens, from tokenizer_config.json or
 * special_tokens_map.json, are its variables: bos_token, eos_token and the others. On failure *out
 * is NULL: QKV_E_IO if the directory has none, QKV_E_FORMAT. */
qkv_status qkv_chat_template_open(qkv_chat_template **out, qkv_context *ctx, const char *dir);

/* Reads a template from a file with Jinja; or, if there is no file of that name, takes one of the
 * library's: "chatml". dir (may be NULL): has the special tokens. */
qkv_status qkv_chat_template_load(qkv_chat_template **out, qkv_context *ctx, const char *file,
                                  const char *dir);
void qkv_chat_template_close(qkv_chat_template *t); /* NULL is allowed */

/* Writes the template to dir/chat_template.jinja, atomically. */
qkv_status qkv_chat_template_save(const qkv_chat_template *t, const char *dir);

/* Stretches of a text that the assistant says: the first byte of each and the one after its last,
 * in order. Initialise with {0}. */
typedef struct {
    size_t *ends; /* (2 count) */
    size_t count, capacity;
} qkv_chat_spans;
void qkv_chat_spans_free(qkv_chat_spans *spans, qkv_context *ctx);

/* Appends the text of a conversation (JSON, length bytes), as transformers' apply_chat_template
 * makes it: without keys of messages that are null. generation_prompt: followed by what begins an
 * answer. spans (may be NULL) receives what the assistant says: what the template marks with
 * {% generation %}, else what an assistant's message and the end of its turn add to the text of the
 * messages before it. name stands for the conversation in messages. QKV_E_FORMAT: no conversation,
 * or the template refuses it; spans: the text of earlier messages depends on later ones. */
qkv_status qkv_chat_text(const qkv_chat_template *t, const char *name, const char *conversation,
                         size_t length, bool generation_prompt, qkv_text *out,
                         qkv_chat_spans *spans);

/* Appends the ids of such a text, to which no special tokens are added: the template has them.
 * Special tokens spelled out in messages become ids too, as in transformers. marks (may be NULL)
 * receives 1 for each id that has a byte of a span, else 0; before the call it has as many entries
 * as ids. */
qkv_status qkv_chat_encode(qkv_context *ctx, qkv_tokenizer *tokenizer, const qkv_text *text,
                           const qkv_chat_spans *spans, qkv_ids *ids, qkv_ids *marks);

/* ---- to learn from --------------------------------------------------------------------------- */

/* What became of the lines; qkv_chat_add_records adds to it. */
typedef struct {
    size_t conversations; /* records added */
    size_t cut;           /* of these: had more than `length` ids and were truncated */
    size_t left_out;      /* without an id of an answer among the first `length` */
    size_t tokens, answers; /* ids of all, and of the assistant */
} qkv_chat_count;

/* Appends the conversations of a text, one in JSON on each line, to records of 2 fields: the ids,
 * at most `length`, and for each 1 where the assistant says it, else 0. Blank lines are skipped. A
 * line that is no conversation, that the template refuses, or whose answers are not known is an
 * error whose message names file and line. */
qkv_status qkv_chat_add_records(qkv_records_writer *w, const qkv_chat_template *t,
                                qkv_tokenizer *tokenizer, const qkv_text_span *part, size_t length,
                                qkv_chat_count *count);

/* Appends the texts of the conversations, one after another: for a vocabulary. */
qkv_status qkv_chat_add_texts(const qkv_chat_template *t, const qkv_text_span *part,
                              qkv_text *out);

QKV_END_DECLS
#endif
