/* template.h - post-processors: the tokens put around a text or a pair of texts. */
#ifndef QKV_SRC_TOKENIZER_TEMPLATE_H
#define QKV_SRC_TOKENIZER_TEMPLATE_H

#include "base/vocab.h"
#include "io/json.h"

enum { QKV__TEXT_A = -1, QKV__TEXT_B = -2 };

typedef struct {
    struct qkv__template_item {
        int32_t id; /* or QKV__TEXT_* */
        int32_t type;
    } *items;
    size_t count, capacity;
} qkv__template;

typedef struct {
    qkv__template single, pair;
} qkv__templates;

/* tokens: those that a template may name. */
qkv_status qkv__templates_read(qkv__templates *x, qkv_context *ctx,
                               const qkv__vocab *const tokens[2], const qkv__json *at);
/* The texts alone, where nothing was read. */
qkv_status qkv__templates_default(qkv__templates *x, qkv_context *ctx);
/* One token behind all. */
qkv_status qkv__templates_suffix(qkv__templates *x, qkv_context *ctx, int32_t id);
void qkv__templates_free(qkv__templates *x, qkv_context *ctx);

#endif
