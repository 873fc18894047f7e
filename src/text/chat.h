/* chat.h - conversations as JSON in memory. */
#ifndef QKV_SRC_TEXT_CHAT_H
#define QKV_SRC_TEXT_CHAT_H

#include <jansson.h>

#include "base/base.h"
#include "qkv/chat.h"

/* qkv_chat_text of an object that was read. */
qkv_status qkv__chat_render(const qkv_chat_template *t, const char *name, const json_t *talk,
                            bool generation_prompt, qkv_text *out, qkv_chat_spans *spans);

/* The text that ends an answer, without white space at its end; "" if there is none. */
qkv_status qkv__chat_end(const qkv_chat_template *t, qkv_text *out);

/* The conversation of a line of JSON: an object with "messages", each an object with a "role". */
qkv_status qkv__chat_parse(json_t **out, qkv_context *ctx, const char *name, const char *text,
                           size_t length);
const json_t *qkv__chat_messages(const json_t *talk);

/* The conversations of files (qkv_chat_add_records) as the file `path`, or, NULL, in memory. Notes
 * say how many were truncated or left out. On failure *out is NULL; QKV_E_FORMAT: none has an
 * answer within `length` ids. */
qkv_status qkv__chat_records(qkv_records **out, const qkv_chat_template *t,
                             qkv_tokenizer *tokenizer, const qkv_text_span *parts, size_t count,
                             size_t length, const char *path);

#endif
