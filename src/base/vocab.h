/* vocab.h - texts by id and ids by text. */
#ifndef QKV_SRC_BASE_VOCAB_H
#define QKV_SRC_BASE_VOCAB_H

#include "base/base.h"

typedef struct {
    qkv_context *ctx;
    char *text; /* texts one after another, each followed by a 0 */
    size_t text_len, text_cap;
    struct qkv__token {
        size_t start;
        uint32_t len;
        bool used; /* false: no token has this id */
    } *tokens;     /* by id */
    size_t count;  /* 1 + greatest id */
    size_t token_cap;
    size_t used;   /* tokens there are */
    uint32_t *slots; /* hash table of id + 1; 0: free; a power of two of them */
    size_t slot_count;
} qkv__vocab;

void qkv__vocab_init(qkv__vocab *v, qkv_context *ctx);
void qkv__vocab_free(qkv__vocab *v);
/* The caller knows that neither text nor id is taken and that 0 <= id < the limit. */
qkv_status qkv__vocab_add(qkv__vocab *v, const char *text, size_t len, int32_t id);
int32_t qkv__vocab_find(const qkv__vocab *v, const char *text, size_t len); /* -1: none */
const char *qkv__vocab_text(const qkv__vocab *v, int32_t id, size_t *len);  /* NULL: none */

#endif
