/* train_words.h - what trainers count: words and their characters. */
#ifndef QKV_SRC_TOKENIZER_TRAIN_WORDS_H
#define QKV_SRC_TOKENIZER_TRAIN_WORDS_H

#include "base/vocab.h"
#include "qkv/tokenizer.h"
#include "tokenizer/spm.h"

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

#endif
