/* masking.h - which words are hidden from a model that learns to guess them. */
#ifndef QKV_SRC_TASK_MASKING_H
#define QKV_SRC_TASK_MASKING_H

#include "base/base.h"
#include "qkv/tokenizer.h"

typedef struct {
    uint64_t seed;
    double share;   /* of the tokens that may be hidden */
    int32_t mask;   /* [MASK] */
    size_t vocab;   /* ids that stand in for hidden ones are below it */
    bool *special;  /* (vocab): never hidden; owned */
} qkv__masking;

/* Can so large a share of a task's words be dropped, with this tokenizer (or NULL)? */
qkv_status qkv__masking_check_drop(qkv_context *ctx, double drop, const qkv_tokenizer *tokenizer);

/* Fills in what the tokenizer says, for ids below vocab; it may be destroyed afterwards. On failure
 * nothing is left to free: QKV_E_ARGUMENT for a tokenizer without a mask token. */
qkv_status qkv__masking_init(qkv__masking *m, qkv_context *ctx, const qkv_tokenizer *tokenizer,
                             size_t vocab, double share, uint64_t seed);
void qkv__masking_free(qkv__masking *m, qkv_context *ctx);

/* Hides some of a sample's ids (n), each with probability `share`: 80 % of them become [MASK], 10 %
 * any id at all, 10 % stay. Returns how many; where they are goes to rows, counted from `first`
 * on, and what was there to targets (n of room each). What happens to an id depends on (seed,
 * sample, its place) alone. (Devlin et al. 2019, 3.1; drawn anew for each epoch as in RoBERTa, Liu
 * et al. 2019.) */
size_t qkv__masking_hide(const qkv__masking *m, uint64_t sample, int32_t *ids, size_t n,
                         size_t first, int32_t *rows, int32_t *targets);

/* Replaces each id that is not special by [MASK] with probability `share`. */
void qkv__masking_drop(const qkv__masking *m, uint64_t sample, int32_t *ids, size_t n);

#endif
