/* train.h - training: what its files share. */
#ifndef QKV_SRC_TOKENIZER_TRAIN_H
#define QKV_SRC_TOKENIZER_TRAIN_H

#include "tokenizer/tokenizer.h"

/* ---- tokenizer_train_bpe.c ----------------------------------------------------------- */

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

/* ---- tokenizer_train.c ----------------------------------------------------------------- */

struct qkv_tokenizer_trainer {
    qkv_context *ctx;
    qkv_tokenizer_options options; /* special: copies */
    uint8_t *seen;                 /* CHAR: a bit per code point */
    qkv_tokenizer *cutter;         /* WORDPIECE: makes words of texts */
    qkv__spm *spm;                 /* UNIGRAM, SENTENCEPIECE_BPE: becomes the model */
    qkv__vocab words;              /* all but CHAR: distinct pieces, ids in order of coming */
    int64_t *counts;               /* by word */
    size_t count_cap;
    size_t text_bytes;
};

/* Adds to v the characters of the words in order of code points: of rare ones so many are left
 * out that the rest is still options.coverage of the text. */
qkv_status qkv__train_alphabet(const qkv_tokenizer_trainer *tr, qkv__vocab *v);

/* One more of a word. */
qkv_status qkv__train_count_word(qkv_tokenizer_trainer *tr, const char *word, size_t len);

/* tokenizer_train_spm.c: rows of the table of kinds. */
qkv_status qkv__train_spm_prepare(qkv_tokenizer_trainer *tr);
qkv_status qkv__train_spm_count(qkv_tokenizer_trainer *tr, const char *text, size_t len);
qkv_status qkv__train_spm_bpe(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                              qkv_tokenizer **out);
qkv_status qkv__train_spm_unigram(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                  qkv_tokenizer **out);

/* tokenizer_train_unigram.c: wanted pieces at most, all of the alphabet among them, best first.
 * pieces: empty before; *scores (by piece) is freed with qkv_free. */
qkv_status qkv__train_unigram(qkv_context *ctx, const qkv__vocab *alphabet,
                              const qkv__vocab *words, const int64_t *counts, size_t wanted,
                              qkv__vocab *pieces, float **scores);

#endif
