/* vocabulary.h - settings of jobs that need a vocabulary, and its making. */
#ifndef QKV_SRC_JOB_VOCABULARY_H
#define QKV_SRC_JOB_VOCABULARY_H

#include "qkv/vocabulary.h"

extern const qkv_option_table qkv__vocabulary_table;

/* Special tokens that vocabularies of BERTs and of translators must have. */
enum {
    QKV__BERT_ROLES = 1 << QKV_TOKEN_PAD | 1 << QKV_TOKEN_UNK | 1 << QKV_TOKEN_CLS |
                      1 << QKV_TOKEN_SEP | 1 << QKV_TOKEN_MASK
};
enum { QKV__TRANSLATE_ROLES = 1 << QKV_TOKEN_EOS | 1 << QKV_TOKEN_PAD | 1 << QKV_TOKEN_UNK };

/* Learns from `train`; characters must all be known, so those of `valid` are added. roles: bits
 * (1 << qkv_token_role) of special tokens that there must be; EOS among them ends every text, and
 * there are no others then. options: from which v was filled. A failure begins with the part's
 * name. */
qkv_status qkv__vocabulary_train(qkv_context *ctx, const qkv_vocabulary *v,
                                 const qkv_options *options, unsigned roles,
                                 const qkv_text_span *train, size_t train_count,
                                 const qkv_text_span *valid, size_t valid_count,
                                 qkv_tokenizer **out);

/* Says which of the flags have no effect, because the tokenizer is the one in `place`. */
void qkv__vocabulary_unused(qkv_context *ctx, const qkv_options *options, const char *why,
                            const char *place);

#endif
