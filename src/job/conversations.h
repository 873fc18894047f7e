/* conversations.h - conversations as the data of a run: a language model learns the answers. */
#ifndef QKV_SRC_JOB_CONVERSATIONS_H
#define QKV_SRC_JOB_CONVERSATIONS_H

#include "job/run.h"
#include "qkv/chat.h"
#include "text/texts.h"

/* Settings, and what is read with them; zeroed. */
typedef struct {
    qkv_strings files; /* none: the run has other data */
    const char *chat_template;
    qkv_chat_template *template;
    qkv_text train, valid; /* texts for a vocabulary */
} qkv__conversations;
extern const qkv_option_table qkv__conversations_table;

/* Opens the template: --chat-template's, or that of --init. */
qkv_status qkv__conversations_open(qkv__conversations *c, const qkv__run *r);
void qkv__conversations_close(qkv__conversations *c, qkv_context *ctx);
/* The texts of the conversations, as one span each. */
qkv_status qkv__conversations_texts(qkv__conversations *c, const qkv__text_split *x,
                                    qkv_text_span out[2]);
/* Writes records of at most `length` ids into the run's directory, and the template beside the
 * model. */
qkv_status qkv__conversations_write(qkv__conversations *c, qkv__run *r, const qkv__text_split *x,
                                    size_t length);
qkv_status qkv__conversations_reopen(qkv__run *r); /* of a run that goes on: its records */
qkv_status qkv__conversations_task(qkv__run *r, size_t length);

#endif
