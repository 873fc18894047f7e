/* vocabulary.h - tokenizers trained for a kind of model.
 * Layer: job */
#ifndef QKV_VOCABULARY_H
#define QKV_VOCABULARY_H

#include <qkv/texts.h>

QKV_BEGIN_DECLS

/* The kinds of models: their special tokens, and what a token is by default. */
typedef enum {
    QKV_VOCABULARY_LM,       /* none; BPE */
    QKV_VOCABULARY_MLM,      /* [PAD] [UNK] [CLS] [SEP] [MASK]; WordPiece */
    QKV_VOCABULARY_TRANSLATE /* </s> <pad> <unk>; SentencePiece's BPE */
} qkv_vocabulary_use;

typedef struct {
    int kind; /* a qkv_tokenizer_kind */
    size_t vocab;
    double coverage; /* as in qkv_tokenizer_options; 0: all */
    bool keep_case;
    const char *from; /* NULL, or a folder: nothing is learnt, its tokenizer is taken */
} qkv_vocabulary;

qkv_vocabulary qkv_vocabulary_defaults(qkv_vocabulary_use use);
const qkv_option_table *qkv_vocabulary_table(void); /* of such a struct, but for what use decides */

/* Trains on the spans; texts do not join. given: the options that v was filled from, so that notes
 * (qkv_context_on_event) say which of them have no effect; NULL: no notes. On failure *out is NULL,
 * and the sentence begins with the span's name. */
qkv_status qkv_train_tokenizer(qkv_tokenizer **out, qkv_context *ctx, const qkv_text_span *parts,
                               size_t count, qkv_vocabulary_use use, const qkv_vocabulary *v,
                               const qkv_options *given);

/* The same on files, saved to dir, which must be empty or missing, as Hugging Face's AutoTokenizer
 * reads it. */
qkv_status qkv_train_tokenizer_files(qkv_tokenizer **out, qkv_context *ctx,
                                     const qkv_strings *files, const char *dir,
                                     qkv_vocabulary_use use, const qkv_vocabulary *v,
                                     const qkv_options *given);

QKV_END_DECLS
#endif
