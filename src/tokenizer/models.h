/* models.h - the models, a row each, and what is asked of one alone. */
#ifndef QKV_SRC_TOKENIZER_MODELS_H
#define QKV_SRC_TOKENIZER_MODELS_H

#include "tokenizer/merges.h"
#include "tokenizer/object.h"

extern const qkv__model_kind qkv__model_bpe, qkv__model_words, qkv__model_wordpiece,
    qkv__model_unigram, qkv__model_spm_bpe;

const qkv__merges *qkv__bpe_merges(const qkv_tokenizer *t);

/* t's model from a SentencePiece model, which t owns.
 * to_id: a piece's id in t->vocab; NULL: the same. */
qkv_status qkv__unigram_from_spm(qkv_tokenizer *t, const qkv__spm *m, const int32_t *to_id);
qkv_status qkv__spm_bpe_from_spm(qkv_tokenizer *t, const qkv__spm *m, const int32_t *to_id);
typedef struct qkv__unigram qkv__unigram;
int32_t qkv__unigram_piece(const qkv__unigram *u, const char *s, size_t len); /* -1: none */
double qkv__unigram_score(const qkv__unigram *u, int32_t piece);

#endif
