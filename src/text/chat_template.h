/* chat_template.h - a template with its directory's special tokens. */
#ifndef QKV_SRC_TEXT_CHAT_TEMPLATE_H
#define QKV_SRC_TEXT_CHAT_TEMPLATE_H

#include <jansson.h>

#include "jinja/jinja.h"
#include "qkv/chat.h"

struct qkv_chat_template {
    qkv_context *ctx;
    char *source;           /* (length) of jinja */
    size_t length;
    qkv__jinja *jinja;
    qkv__jinja *with_tools; /* where a conversation has tools; NULL: jinja too */
    json_t *tokens;         /* an object: "bos_token": "<s>", .. */
};

#endif
