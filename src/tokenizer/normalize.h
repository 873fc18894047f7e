/* normalize.h - normalizers. */
#ifndef QKV_SRC_TOKENIZER_NORMALIZE_H
#define QKV_SRC_TOKENIZER_NORMALIZE_H

#include "io/json.h"
#include "tokenizer/spm.h"

typedef struct qkv__normal_step qkv__normal_step;
typedef struct {
    qkv__normal_step *steps;
    size_t count, capacity;
} qkv__normalizer;

qkv_status qkv__normalizer_read(qkv__normalizer *n, const qkv__json *at);
qkv_status qkv__normalizer_add_spm(qkv__normalizer *n, qkv_context *ctx, const qkv__spm *spm);
void qkv__normalizer_free(qkv__normalizer *n, qkv_context *ctx);
/* out: empty before. */
qkv_status qkv__normalize(const qkv__normalizer *n, qkv_context *ctx, const char *text, size_t len,
                          qkv_str *out);

#endif
