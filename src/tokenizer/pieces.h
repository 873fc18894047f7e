/* pieces.h - ids of pieces seen before. */
#ifndef QKV_SRC_TOKENIZER_PIECES_H
#define QKV_SRC_TOKENIZER_PIECES_H

#include "base/base.h"

enum { QKV__PIECE_KEPT = 64 }; /* bytes; longer pieces are not kept */

typedef struct {
    struct qkv__kept *slots; /* hash table */
    size_t slot_count, used;
    qkv_text keys;
    qkv_ids ids;
} qkv__pieces;

/* NULL: not there. */
const int32_t *qkv__pieces_find(const qkv__pieces *p, const char *piece, size_t len,
                                size_t *count);
/* The piece is not there yet. */
qkv_status qkv__pieces_keep(qkv__pieces *p, qkv_context *ctx, const char *piece, size_t len,
                            const int32_t *ids, size_t count);
void qkv__pieces_free(qkv__pieces *p, qkv_context *ctx);

#endif
