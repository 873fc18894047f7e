/* value.h - what a pickle holds, as a tree of plain values, and who knows its names. */
#ifndef QKV_SRC_PYTORCH_VALUE_H
#define QKV_SRC_PYTORCH_VALUE_H

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

#endif
