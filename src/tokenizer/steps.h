/* steps.h - decoder steps. */
#ifndef QKV_SRC_TOKENIZER_STEPS_H
#define QKV_SRC_TOKENIZER_STEPS_H

#include "io/json.h"
#include "tokenizer/spm.h"

typedef struct qkv__step qkv__step;
typedef struct {
    qkv__step *steps;
    size_t count, capacity;
    bool fused;  /* while reading: steps work on the whole text from here on */
    bool spaced; /* no decoder given: tokens are joined by spaces */
    bool leading; /* what comes first is what first gives text */
} qkv__decoder;

qkv_status qkv__decoder_read(qkv__decoder *d, const qkv__json *at);
qkv_status qkv__decoder_add_spm(qkv__decoder *d, qkv_context *ctx, const qkv__spm *spm);
void qkv__decoder_free(qkv__decoder *d, qkv_context *ctx);
/* Changes a token's text in place; first: nothing came before. */
qkv_status qkv__decoder_run(const qkv__decoder *d, qkv_str *token, bool first);

#endif
