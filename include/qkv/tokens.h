/* tokens.h - a memory-mapped file of token ids, and windows of it for training.
 * Layer: text */
#ifndef QKV_TOKENS_H
#define QKV_TOKENS_H

#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

typedef struct qkv_tokens qkv_tokens;

/* Encodes the text spans one after another, separated by the tokenizer's eos id if it has one, into
 * a file, and opens it. path NULL: in memory. The file is a safetensors file with the tensor
 * `tokens` (count), U16 if the vocabulary allows, else I32. Encodes in pieces, so a mapped text may
 * be larger than memory. progress (may be NULL) receives the bytes done and returns false to cancel
 * (QKV_E_CANCELLED). On failure *out is NULL and no file remains. */
qkv_status qkv_tokens_pack(qkv_tokens **out, qkv_context *ctx, qkv_tokenizer *tokenizer,
                           const qkv_text_span *parts, size_t count, const char *path,
                           bool (*progress)(void *user, size_t done), void *user);

/* On failure *out is NULL and the message names the file. */
qkv_status qkv_tokens_open(qkv_tokens **out, qkv_context *ctx, const char *path);
void qkv_tokens_close(qkv_tokens *t); /* NULL is allowed */

size_t qkv_tokens_count(const qkv_tokens *t);
size_t qkv_tokens_bytes(const qkv_tokens *t); /* bytes of the encoded text */

/* Copies ids from .. from+n-1, which must exist. */
void qkv_tokens_read(const qkv_tokens *t, size_t from, size_t n, int32_t *ids);

/* The largest id, to check against a model's vocabulary; found once. Ids < 0 count as INT32_MAX.
 * -1: no ids. */
int32_t qkv_tokens_max(const qkv_tokens *t);

/* Fills ids (T) and targets (T), the ids that follow each, with window number `sample`. The order
 * is shuffled, a function of (seed, sample). Each epoch visits all windows once, from a new random
 * offset. There must be more than T tokens. */
void qkv_tokens_window(const qkv_tokens *t, uint64_t seed, uint64_t sample, size_t T, int32_t *ids,
                       int32_t *targets);
size_t qkv_tokens_windows(const qkv_tokens *t, size_t T); /* number of windows per epoch */

QKV_END_DECLS
#endif
