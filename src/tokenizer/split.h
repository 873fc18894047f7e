/* split.h - pre-tokenizers. */
#ifndef QKV_SRC_TOKENIZER_SPLIT_H
#define QKV_SRC_TOKENIZER_SPLIT_H

#include "io/json.h"

typedef struct {
    qkv_status (*piece)(void *user, const char *piece, size_t len);
    void *user;
} qkv__sink;

/* Bytes of the first piece of a text (len > 0). */
typedef size_t qkv__scan_fn(const char *s, size_t len);
size_t qkv__scan_gpt2(const char *s, size_t len);
size_t qkv__scan_char(const char *s, size_t len);

typedef struct qkv__stage qkv__stage;
typedef struct {
    qkv__stage *stages;
    size_t count, capacity;
    bool byte_level; /* pieces are bytes of GPT-2's alphabet */
    bool asks_first; /* a piece that begins the text is cut otherwise than the rest */
} qkv__splitter;

qkv_status qkv__splitter_read(qkv__splitter *s, const qkv__json *at);
void qkv__splitter_free(qkv__splitter *s, qkv_context *ctx);
/* Gives the pieces of a text, in order, to the sink. first: as many of its bytes come from the
 * first character of what is encoded; a piece that begins among them begins the text. */
qkv_status qkv__split(const qkv__splitter *s, qkv_context *ctx, const char *text, size_t len,
                      size_t first, const qkv__sink *sink);
/* The scanner of a splitter that has one alone; else NULL. */
qkv__scan_fn *qkv__splitter_scan(const qkv__splitter *s);

#endif
