/* pipeline_chat.h - a conversation with a language model.
 * Layer: pipeline
 *
 *     qkv_chat *c;
 *     if (!qkv_chat_open(&c, p, NULL))
 *         qkv_chat_say(c, "Hi", on_piece, NULL);
 *     qkv_chat_close(c);                                                                        */
#ifndef QKV_PIPELINE_CHAT_H
#define QKV_PIPELINE_CHAT_H

#include <qkv/chat.h>
#include <qkv/pipeline_text.h>

QKV_BEGIN_DECLS

typedef struct {
    const char *system;        /* first message, of the role "system"; NULL: none            NULL */
    const char *chat_template; /* file or name (qkv_chat_template_load); NULL: the directory's
                                  NULL */
    const char *variables;     /* JSON object of variables for the template; NULL: none      NULL */
    size_t tokens;             /* maximum tokens of an answer                                 512 */
    bool greedy;               /* always choose the most likely token                       false */
    qkv_sampling sampling;
    uint64_t seed;             /* with the number of the answer determines it                   0 */
} qkv_chat_options;
const qkv_option_table *qkv_chat_table(void);
qkv_chat_options qkv_chat_defaults(void);

/* A conversation: its messages so far, and the keys and values of their tokens, so that an answer
 * computes the tokens that are new. */
typedef struct qkv_chat qkv_chat;

/* p must outlive the conversation; options (NULL: the defaults) are copied. On failure *out is
 * NULL: QKV_E_UNSUPPORTED if the model does not generate, QKV_E_IO without a template. */
qkv_status qkv_chat_open(qkv_chat **out, qkv_pipeline *p, const qkv_chat_options *options);
void qkv_chat_close(qkv_chat *c); /* NULL is allowed */

typedef enum {
    QKV_CHAT_TEXT,   /* the next characters of the answer */
    QKV_CHAT_END     /* once: the model has ended it */
} qkv_chat_kind;

typedef enum {
    QKV_CHAT_STOPPED,    /* by an eos id, or by the text that ends an answer in the template */
    QKV_CHAT_LENGTH,     /* after options.tokens, or because the model has no more positions */
    QKV_CHAT_INTERRUPTED /* by the callback */
} qkv_chat_reason;

typedef struct {
    qkv_chat_kind kind;
    const char *text;  /* (len) TEXT: what comes next; END: the whole answer. Valid UTF-8, not
                          0-terminated */
    size_t len;
    qkv_chat_reason reason; /* END */
    size_t prompt;     /* END: tokens of the conversation before the answer */
    size_t reused;     /* END: of these, not computed again */
    const qkv_ids *ids; /* END: all that were made, without an eos id; those of the text that ends
                           an answer in the template among them */
} qkv_chat_piece;
/* Returns false to end the answer; what was said stays in the conversation. */
typedef bool qkv_chat_fn(void *user, const qkv_chat_piece *piece);

/* Adds the user's message and the model's answer, which fn hears of as it is made. Ends at an eos
 * id of the model, at the token or text that ends an answer in the template, or at
 * options.tokens. Where the conversation has more tokens than the model has positions, with room
 * for an answer, its oldest messages but the system's are removed up to the next of the user; a
 * note says so. QKV_E_ARGUMENT: the message alone has too many tokens. On failure the conversation
 * is as it was before. */
qkv_status qkv_chat_say(qkv_chat *c, const char *text, qkv_chat_fn *fn, void *user);

/* Replaces the conversation by one in JSON (chat.h; without a message of the system's,
 * options.system is put before it), and answers it. name stands for it in messages. */
qkv_status qkv_chat_answer(qkv_chat *c, const char *name, const char *conversation, size_t length,
                           qkv_chat_fn *fn, void *user);

/* Forgets all messages but the system's. */
qkv_status qkv_chat_reset(qkv_chat *c);

/* Appends the text that the model would continue, were it to answer the conversation (JSON). */
qkv_status qkv_chat_show(qkv_chat *c, const char *name, const char *conversation, size_t length,
                         qkv_text *out);

QKV_END_DECLS
#endif
