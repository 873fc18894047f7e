/* charsmap.h - SentencePiece's rules for characters. */
#ifndef QKV_SRC_TOKENIZER_CHARSMAP_H
#define QKV_SRC_TOKENIZER_CHARSMAP_H

#include "base/base.h"

typedef struct {
    char *blob; /* trie size, trie, replacements; NULL: no rules */
    size_t len, units;
} qkv__charsmap;

/* Takes a copy of the blob (len 0: no rules); name stands for the file in messages. */
qkv_status qkv__charsmap_init(qkv__charsmap *m, qkv_context *ctx, const char *name,
                              const char *blob, size_t len);
void qkv__charsmap_free(qkv__charsmap *m, qkv_context *ctx);
/* Bytes of the longest (or shortest) rule that s begins with, and what replaces them; 0: none. */
size_t qkv__charsmap_find(const qkv__charsmap *m, const char *s, size_t len, bool shortest,
                          const char **replacement);

#endif
