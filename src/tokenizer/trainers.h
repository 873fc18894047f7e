/* trainers.h - what the files of training share. Words and their characters: train_words.c. */
#ifndef QKV_SRC_TOKENIZER_TRAINERS_H
#define QKV_SRC_TOKENIZER_TRAINERS_H

#include <jansson.h>

#include "base/vocab.h"
#include "qkv/tokenizer.h"
#include "tokenizer/spm.h"

struct qkv_tokenizer_trainer {
    qkv_context *ctx;
    qkv_tokenizer_options options; /* special: copies */
    uint8_t *seen;                 /* a bit per code point; NULL: not counted */
    qkv_tokenizer *cutter;         /* makes words of texts; NULL: the kind does */
    qkv__spm *spm;                 /* of SentencePiece kinds: becomes the model */
    qkv__vocab words;              /* distinct pieces, ids in order of coming */
    int64_t *counts;               /* by word */
    size_t count_cap;
    size_t text_bytes;
};

/* A kind of tokenizer, as training knows it: qkv__trainer_NAME. */
typedef struct {
    size_t least;     /* tokens that a vocabulary must have room for; 0: it is as large as it is */
    bool own_special; /* its special tokens are its own; others are refused */
    bool exact;       /* what was not counted cannot be encoded, unless there is an unknown token */
    void (*defaults)(qkv_tokenizer_options *o);       /* NULL: those of all */
    qkv_status (*prepare)(qkv_tokenizer_trainer *tr); /* NULL: nothing */
    qkv_status (*count)(qkv_tokenizer_trainer *tr, const char *text, size_t len);
    qkv_status (*finish)(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                         qkv_tokenizer **out);
} qkv__trainer_kind;

const qkv__trainer_kind *qkv__trainer_kind_of(qkv_tokenizer_kind kind);

/* Adds a token with the next id, unless there is one of that text. */
qkv_status qkv__train_add(qkv__vocab *v, const char *text, size_t len);

/* Adds to v the characters of the words in order of code points: of rare ones so many are left
 * out that the rest is still options.coverage of the text. */
qkv_status qkv__train_alphabet(const qkv_tokenizer_trainer *tr, qkv__vocab *v);

/* One more of a word. */
qkv_status qkv__train_count_word(qkv_tokenizer_trainer *tr, const char *word, size_t len);

/* Makes the tokenizer that a specification describes but for its vocabulary and merges (left,
 * right, left, ..; NULL: none). It goes through its own file format: one way in for all. Takes
 * spec, which is NULL after a failure. */
qkv_status qkv__train_build(const qkv_tokenizer_trainer *tr, json_t *spec, const qkv__vocab *v,
                            const qkv_ids *merges, qkv_tokenizer **out);

/* Counts the pieces that tr->cutter makes of each line. */
qkv_status qkv__train_count_lines(qkv_tokenizer_trainer *tr, const char *text, size_t len);

/* ---- pairs of symbols joined into tokens: train_bpe.c ---------------------------------------- */

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

/* ---- pieces of a unigram model: train_unigram.c ---------------------------------------------- */

/* Wanted pieces at most, all of the alphabet among them, best first.
 * pieces: empty before; *scores (by piece) is freed with qkv_free. */
qkv_status qkv__train_unigram(qkv_context *ctx, const qkv__vocab *alphabet,
                              const qkv__vocab *words, const int64_t *counts, size_t wanted,
                              qkv__vocab *pieces, float **scores);

#endif
