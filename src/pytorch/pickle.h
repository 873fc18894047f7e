/* pickle.h - Python's pickles (protocols 2 to 5) as a tree of plain values.
 *
 * A pickle is a program for a stack machine that may ask for any class or function of Python by
 * name and call it. This machine builds containers, numbers and texts itself; every name goes to
 * the host, which knows a few and refuses the rest before anything else is done. */
#ifndef QKV_SRC_PYTORCH_PICKLE_H
#define QKV_SRC_PYTORCH_PICKLE_H

#include "base/base.h"

typedef enum {
    QKV__VALUE_NONE,
    QKV__VALUE_BOOL,
    QKV__VALUE_INT,
    QKV__VALUE_LONG, /* an integer of more than 64 bits: its bytes, as text */
    QKV__VALUE_TEXT,
    QKV__VALUE_OTHER, /* of no interest to a host: reals, bytes */
    QKV__VALUE_TUPLE,
    QKV__VALUE_LIST,
    QKV__VALUE_SET,
    QKV__VALUE_DICT,  /* items: key, value, .. */
    QKV__VALUE_GLOBAL, /* what the host made of a name, */
    QKV__VALUE_OBJECT, /* of a call or of a persistent id */
    QKV__VALUE_UNKNOWN /* a name that the host lets stand for nothing, and what comes of it */
} qkv__value_kind;

typedef struct qkv__value qkv__value;
struct qkv__value {
    qkv__value_kind kind;
    int what; /* the host's own kind of object */
    union {
        int64_t integer; /* BOOL: 0 or 1 */
        struct { const char *data; size_t length; } text; /* in the pickle, no 0 behind it */
        struct { qkv__value **items; size_t count, room; } list; /* TUPLE to DICT */
        const void *object;
    } as;
};

const char *qkv__value_name(const qkv__value *v); /* "a text", for messages */

/* The value of a dict for a key; NULL if absent. */
const qkv__value *qkv__value_find(const qkv__value *dict, const char *key);

/* Every function fills *out, which is an OTHER before. */
typedef struct {
    void *user;
    qkv_status (*global)(void *user, const char *module, const char *name, qkv__value *out);
    qkv_status (*call)(void *user, const qkv__value *callable, const qkv__value *args,
                       qkv__value *out); /* callable: a GLOBAL; args: a TUPLE */
    qkv_status (*persistent)(void *user, const qkv__value *id, qkv__value *out);
} qkv__pickle_host;

/* The pickle that begins at *at; *at moves behind it. Values live in the arena, their texts in
 * the pickle. They may be shared, and may hold themselves. path is for messages. */
qkv_status qkv__pickle_read(qkv__value **out, qkv_context *ctx, qkv__arena *arena,
                            const char *path, const uint8_t **at, const uint8_t *end,
                            const qkv__pickle_host *host);

/* The text with what is not plain ASCII as '?', cut when longer; for messages. */
void qkv__pickle_plain(char *out, size_t size, const char *text, size_t length);

#endif
