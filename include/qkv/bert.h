/* bert.h - BERT, RoBERTa and DistilBERT: a bidirectional encoder with a head for masked words or
 * for classes, or without a head, for vectors of texts. Devlin et al. 2019, Liu et al. 2019, Sanh
 * et al. 2019; Hugging Face's names and configuration.
 * Layer: model */
#ifndef QKV_BERT_H
#define QKV_BERT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "bert", architectures BertForMaskedLM, BertForSequenceClassification and BertModel;
 * "roberta" and "distilbert" likewise. Configuration of all: qkv_bert_config; ranges and defaults:
 * qkv_model_type_config. A directory of an encoder also has the files of sentence-transformers
 * (Reimers and Gurevych 2019). An encoder's pooler is loaded and saved, but frozen and not used. */
const qkv_model_type *qkv_bert_masked_type(void);
const qkv_model_type *qkv_bert_classifier_type(void);
const qkv_model_type *qkv_bert_encoder_type(void);
const qkv_model_type *qkv_roberta_masked_type(void);
const qkv_model_type *qkv_roberta_classifier_type(void);
const qkv_model_type *qkv_roberta_encoder_type(void);
const qkv_model_type *qkv_distilbert_masked_type(void);
const qkv_model_type *qkv_distilbert_classifier_type(void);
const qkv_model_type *qkv_distilbert_encoder_type(void);
/* The type of the same family as `of`, with the head that the type `head`, one of the above, has.
 * NULL: `of` is none of them. */
const qkv_model_type *qkv_bert_with_head(const qkv_model *of, const qkv_model_type *head);

/* How BertModel makes one vector of a text's outputs. */
typedef enum {
    QKV_POOL_MEAN, /* the mean over the text's tokens, special tokens among them */
    QKV_POOL_FIRST /* the output of the first token */
} qkv_pooling;

typedef struct {
    size_t vocab;
    size_t positions; /* rows of the table; RoBERTa uses those after `pad` */
    size_t segments;  /* not DistilBERT */
    size_t width, layers, heads;
    size_t ff_width; /* 0: 4 width */
    size_t classes;  /* classifier only */
    qkv_activation act;
    double norm_eps, init_range; /* 0: 1 / sqrt(width) */
    double dropout, attention_dropout;
    double classifier_dropout; /* < 0: dropout */
    int pad;                   /* token id; -1: none */
    /* BertModel only; in the files of sentence-transformers, not in config.json: */
    qkv_pooling pooling;
    size_t max_length; /* tokens that are read of a text; 0: positions */
} qkv_bert_config;

/* Tokens of the longest text. */
size_t qkv_bert_longest(const qkv_model *m);

/* Input of the encoder. Zero-initialise; set what applies. */
typedef struct {
    qkv_tensor *ids;      /* i32 (B, T) */
    qkv_tensor *segments; /* i32 (B, T): 0, or 1 for the second text of a pair; NULL: all 0 */
    /* Packed sequences, as in qkv_attention_options (then B is 1), or 0 and NULL. */
    size_t sequences;
    const int32_t *offsets;
    const int32_t *lengths; /* (B) number of tokens in each sequence; NULL: T */
} qkv_bert_input;

/* The encoder's output (B, T, width). NULL on failure, recorded on the tape. */
qkv_tensor *qkv_bert_hidden(qkv_model *m, qkv_tape *t, const qkv_bert_input *in);

/* Masked type only. rows i32 (n): indices into hidden's B T rows, the words to predict. Logits
 * (n, vocab). The loss never holds all logits in memory. */
qkv_tensor *qkv_bert_word_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *rows);
qkv_tensor *qkv_bert_word_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *rows,
                               qkv_tensor *targets, const qkv_cross_entropy_options *options);

/* Classifier type only. rows i32 (n): the first row of each sequence. Logits (n, classes). */
qkv_tensor *qkv_bert_class_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden,
                                  qkv_tensor *rows);

/* BertModel only. The texts' vectors (sequences, width), or (B, width) of texts that are not
 * packed, from hidden, the output of qkv_bert_hidden for in. They are not normalised. */
qkv_tensor *qkv_bert_vectors(qkv_model *m, qkv_tape *t, const qkv_bert_input *in,
                             qkv_tensor *hidden);

QKV_END_DECLS
#endif
