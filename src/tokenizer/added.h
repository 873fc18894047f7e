/* added.h - tokens matched in the text before anything else. */
#ifndef QKV_SRC_TOKENIZER_ADDED_H
#define QKV_SRC_TOKENIZER_ADDED_H

#include "tokenizer/normalize.h"

typedef struct {
    int32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
} qkv__added_token;

typedef struct {
    qkv__vocab names;   /* added tokens alone */
    qkv__vocab keys[2]; /* what is looked for in the text as it is, and in the normalized one */
    qkv__added_token *list;
    size_t count, capacity;
    uint16_t *lengths; /* lengths that occur, longest first */
    size_t length_count;
    bool first[256]; /* first bytes that occur */
} qkv__added;

void qkv__added_init(qkv__added *a, qkv_context *ctx);
void qkv__added_free(qkv__added *a);
qkv_status qkv__added_read(qkv__added *a, const qkv__vocab *vocab, const qkv__normalizer *n,
                           const qkv__json *array);
const qkv__added_token *qkv__added_find(const qkv__added *a, int32_t id);

typedef struct {
    size_t start, end; /* what the token takes, stripped space included */
    int32_t id;
} qkv__match;

/* The next token at or after from, of those whose normalized flag is as told; skip_special:
 * special ones do not count. False: no more. floor: end of the match before. */
bool qkv__added_next(const qkv__added *a, const char *text, size_t len, size_t from,
                     size_t floor, bool normalized, bool skip_special, qkv__match *out);

#endif
