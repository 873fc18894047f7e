/* train_spm.h - rows of the table of kinds: SentencePiece models. */
#ifndef QKV_SRC_TOKENIZER_TRAIN_SPM_H
#define QKV_SRC_TOKENIZER_TRAIN_SPM_H

#include "tokenizer/train_words.h"

qkv_status qkv__train_spm_prepare(qkv_tokenizer_trainer *tr);
qkv_status qkv__train_spm_count(qkv_tokenizer_trainer *tr, const char *text, size_t len);
qkv_status qkv__train_spm_bpe(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                              qkv_tokenizer **out);
qkv_status qkv__train_spm_unigram(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                                  qkv_tokenizer **out);

#endif
