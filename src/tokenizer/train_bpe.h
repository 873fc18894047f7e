/* train_bpe.h - pairs of symbols joined into tokens. */
#ifndef QKV_SRC_TOKENIZER_TRAIN_BPE_H
#define QKV_SRC_TOKENIZER_TRAIN_BPE_H

#include "base/vocab.h"

typedef struct {
    bool bytes;         /* symbols are bytes; otherwise characters, of which tokens holds those
                           that count: others are left out */
    const char *prefix; /* of symbols that continue a word; "" for none */
    size_t vocab, min_count;
} qkv__bpe_training;

/* Joins pairs in the words (whose ids are 0, 1, ... and who came counts[id] times) until tokens,
 * which holds every byte or character, has vocab of them or no pair comes min_count times. merges
 * gets left, right, left, right, ... */
qkv_status qkv__train_bpe(qkv_context *ctx, qkv__vocab *tokens, const qkv__vocab *words,
                          const int64_t *counts, const qkv__bpe_training *how, qkv_ids *merges);

#endif
