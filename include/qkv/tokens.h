/* tokens.h - a text as a mapped file of token ids, and the windows of it that training reads.
 * Layer: text */
#ifndef QKV_TOKENS_H
#define QKV_TOKENS_H

#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

typedef struct qkv_tokens qkv_tokens;

/* Encodes the parts one after another, with the tokenizer's end-of-text token (if it has one)
 * between them, into a file of ids at path or, with path NULL, in memory, and opens it. The file is
 * a safetensors file with the tensor `tokens` (count), U16 when the vocabulary allows, else I32.
 * Works piece by piece, so that text larger than memory only has to be mapped. progress may be
 * NULL; it gets the bytes done and returns false to stop (QKV_E_CANCELLED). On failure *out is
 * NULL and no file is left behind. */
qkv_status qkv_tokens_pack(qkv_tokens **out, qkv_context *ctx, qkv_tokenizer *tokenizer,
                           const qkv_text_span *parts, size_t count, const char *path,
                           bool (*progress)(void *user, size_t done), void *user);

/* On failure *out is NULL and the context names the file. */
qkv_status qkv_tokens_open(qkv_tokens **out, qkv_context *ctx, const char *path);
void qkv_tokens_close(qkv_tokens *t); /* NULL is allowed */

size_t qkv_tokens_count(const qkv_tokens *t);
size_t qkv_tokens_bytes(const qkv_tokens *t); /* of text that they stand for */

/* Ids from .. from+n-1, which must exist. */
void qkv_tokens_read(const qkv_tokens *t, size_t from, size_t n, int32_t *ids);

/* The largest id in the file, read once: to be checked against a model's vocabulary. Ids below
 * 0 count as INT32_MAX; -1: there are none. */
int32_t qkv_tokens_max(const qkv_tokens *t);

/* Windows of T tokens in a shuffled order that is a function of (seed, sample) alone: every
 * epoch visits all windows once, cut from another random offset. Writes ids (T) and the ids that
 * follow each, targets (T). There must be more than T tokens. */
void qkv_tokens_window(const qkv_tokens *t, uint64_t seed, uint64_t sample, size_t T, int32_t *ids,
                       int32_t *targets);
size_t qkv_tokens_windows(const qkv_tokens *t, size_t T); /* in an epoch */

QKV_END_DECLS
#endif
