/* bert.h - BERT: an encoder that reads both ways, with a head for masked words or for classes.
 * Devlin et al. 2019; Hugging Face's names and configuration.
 * Layer: model */
#ifndef QKV_BERT_H
#define QKV_BERT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "bert" with the architectures BertForMaskedLM and BertForSequenceClassification. The
 * configuration of both is qkv_bert_config; ranges and defaults: qkv_model_type_config. */
extern const qkv_model_type qkv_bert_masked_type;
extern const qkv_model_type qkv_bert_classifier_type;

typedef struct {
    size_t vocab, positions, segments, width, layers, heads;
    size_t ff_width; /* 0: 4 width */
    size_t classes;  /* of the classifier */
    qkv_activation act;
    double norm_eps, init_range; /* 0: 1 / sqrt(width) */
    double dropout, attention_dropout;
    double classifier_dropout; /* below 0: as dropout */
    int pad;                   /* token id; -1: none */
} qkv_bert_config;

/* What the encoder reads. Zero-initialise; set what applies. */
typedef struct {
    qkv_tensor *ids;      /* i32 (B, T) */
    qkv_tensor *segments; /* i32 (B, T): 0, or 1 in the second text of a pair; NULL: all 0 */
    /* Packed sequences, as in qkv_attention_options (B is 1 then), or 0 and NULL. */
    size_t sequences;
    const int32_t *offsets;
    const int32_t *lengths; /* (B) tokens of each sequence that are real; NULL: all */
} qkv_bert_input;

/* The encoder's output (B, T, width). NULL on failure (the tape says why). */
qkv_tensor *qkv_bert_hidden(qkv_model *m, qkv_tape *t, const qkv_bert_input *in);

/* Of the masked type. rows, i32 (n): which of hidden's B T rows to guess the word of. Logits are
 * (n, vocab); the loss never has them all in memory. */
qkv_tensor *qkv_bert_word_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *rows);
qkv_tensor *qkv_bert_word_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *rows,
                               qkv_tensor *targets, const qkv_cross_entropy_options *options);

/* Of the classifier type: logits (n, classes) from rows, i32 (n), where sequences begin. */
qkv_tensor *qkv_bert_class_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden,
                                  qkv_tensor *rows);

QKV_END_DECLS
#endif
