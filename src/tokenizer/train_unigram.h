/* train_unigram.h - pieces of a unigram model. */
#ifndef QKV_SRC_TOKENIZER_TRAIN_UNIGRAM_H
#define QKV_SRC_TOKENIZER_TRAIN_UNIGRAM_H

#include "base/vocab.h"

/* Wanted pieces at most, all of the alphabet among them, best first.
 * pieces: empty before; *scores (by piece) is freed with qkv_free. */
qkv_status qkv__train_unigram(qkv_context *ctx, const qkv__vocab *alphabet,
                              const qkv__vocab *words, const int64_t *counts, size_t wanted,
                              qkv__vocab *pieces, float **scores);

#endif
