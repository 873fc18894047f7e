/* shortlist.h - a shortlist's inside: what its files share. */
#ifndef QKV_SRC_TEXT_SHORTLIST_H
#define QKV_SRC_TEXT_SHORTLIST_H

#include "base/base.h"
#include "qkv/shortlist.h"

struct qkv_shortlist {
    qkv_context *ctx;
    size_t vocab, count;
    qkv_shortlist_entry *entries; /* (count) by source, the most probable first */
    size_t *begins;               /* (vocab + 1) each source token's */
    int32_t *ranked;              /* (vocab) all tokens, the most frequent first */
    qkv_ids always;               /* what no file can name */
};

/* Sorts entries by source and target, and returns one of a pair that occurs twice; NULL: none. */
const qkv_shortlist_entry *qkv__shortlist_twice(qkv_shortlist_entry *entries, size_t count);

/* Takes over entries, on failure too: sorted by source, each pair once, all in their ranges. */
qkv_status qkv__shortlist_make(qkv_shortlist **out, qkv_context *ctx, size_t vocab,
                               qkv_shortlist_entry *entries, size_t count);

#endif
