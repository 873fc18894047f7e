/* vocabulary.h - training tokenizers for a kind of model.
 * Layer: job */
#ifndef QKV_VOCABULARY_H
#define QKV_VOCABULARY_H

#include <qkv/texts.h>

QKV_BEGIN_DECLS

/* Kinds of models: special tokens; default kind of tokenizer. */
typedef enum {
    QKV_VOCABULARY_LM,       /* none; BPE */
    QKV_VOCABULARY_MLM,      /* [PAD] [UNK] [CLS] [SEP] [MASK]; WordPiece */
    QKV_VOCABULARY_TRANSLATE /* </s> <pad> <unk>; SentencePiece's BPE */
} qkv_vocabulary_use;

typedef struct {
    int kind; /* a qkv_tokenizer_kind */
    size_t vocab;
    double coverage; /* as in qkv_tokenizer_options; 0: all characters */
    bool keep_case;
    const char *from; /* folder of a tokenizer to use instead of training one; NULL: train */
} qkv_vocabulary;

qkv_vocabulary qkv_vocabulary_defaults(qkv_vocabulary_use use);
const qkv_option_table *qkv_vocabulary_table(void); /* of qkv_vocabulary; defaults depend on use */

/* Trains a tokenizer on text spans, which are not joined. given: the options that v was filled
 * from; a note (qkv_context_on_event) reports options without effect; NULL: no notes. On failure
 * *out is NULL, and the message begins with the span's name. */
qkv_status qkv_train_tokenizer(qkv_tokenizer **out, qkv_context *ctx, const qkv_text_span *parts,
                               size_t count, qkv_vocabulary_use use, const qkv_vocabulary *v,
                               const qkv_options *given);

/* Trains a tokenizer on files and saves it to dir, which must be empty or new, in the format of
 * Hugging Face's AutoTokenizer. */
qkv_status qkv_train_tokenizer_files(qkv_tokenizer **out, qkv_context *ctx,
                                     const qkv_strings *files, const char *dir,
                                     qkv_vocabulary_use use, const qkv_vocabulary *v,
                                     const qkv_options *given);

QKV_END_DECLS
#endif
