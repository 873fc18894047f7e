/* pipelines_text.h - small model directories of text and series that know nothing, opened; over
 * fixture.h's set_up. */
#ifndef QKV_TESTS_PIPELINES_TEXT_H
#define QKV_TESTS_PIPELINES_TEXT_H

#include "fixture.h"
#include "learnt.h"
#include "qkv/bert.h"
#include "qkv/gpt.h"
#include "qkv/marian.h"
#include "qkv/pipeline_text.h"

static const char corpus[] = "the cat sat on the mat\nthe dog sat there on the mat\na cat, a dog\n";

enum { LM, TRANSLATOR, MASKED, CLASSIFIER, FORECASTER, KINDS };
static qkv_pipeline *pipelines[KINDS];

static inline qkv_tokenizer *learn_words(qkv_tokenizer_kind kind)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(kind);
    qkv_tokenizer *t;
    o.vocab = kind == QKV_TOKENIZER_BPE ? 270 : 60;
    assert_int_equal(learn_tokenizer(&t, ctx, &o, corpus), QKV_OK);
    return t;
}

/* A model of that configuration, with the tokenizer that is given away (or none), saved, opened. */
static inline qkv_pipeline *make(const char *name, const qkv_model_type *type, const void *config,
                                 qkv_tokenizer *t)
{
    qkv_model *m;
    qkv_pipeline *p = NULL;
    assert_int_equal(qkv_model_create(&m, ctx, type, config), QKV_OK);
    assert_int_equal(qkv_model_init(m, 1), QKV_OK);
    if (type == qkv_forecast_type() || type == qkv_bert_classifier_type())
        assert_int_equal(qkv_model_set_labels(m, (const char *const[]){"x", "y"}, 2), QKV_OK);
    assert_int_equal(qkv_hub_save(m, in(folder, name), NULL), QKV_OK);
    if (t)
        assert_int_equal(qkv_tokenizer_save(t, in(folder, name)), QKV_OK);
    qkv_tokenizer_destroy(t);
    qkv_model_destroy(m);
    if (qkv_pipeline_open(&p, ctx, in(folder, name)))
        fail_msg("%s", qkv_context_message(ctx));
    return p;
}

static inline qkv_pipeline *make_lm(void)
{
    qkv_gpt_config c;
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_BPE);
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(t);
    c.positions = 16;
    c.width = 8;
    c.layers = 1;
    c.heads = 2;
    c.eos = c.bos = -1;
    return make("lm", qkv_gpt2_type(), &c, t);
}

static inline qkv_pipeline *make_translator(void)
{
    qkv_marian_config c;
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_UNIGRAM);
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(t);
    c.positions = 12;
    c.width = 8;
    c.encoder_layers = c.decoder_layers = 1;
    c.encoder_heads = c.decoder_heads = 2;
    c.encoder_ff_width = c.decoder_ff_width = 16;
    c.eos = qkv_tokenizer_special(t, QKV_TOKEN_EOS);
    c.start = c.pad = qkv_tokenizer_special(t, QKV_TOKEN_PAD);
    return make("mt", qkv_marian_type(), &c, t);
}

static inline qkv_pipeline *make_bert(const char *name, const qkv_model_type *type)
{
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_WORDPIECE);
    const qkv_bert_config c = {.vocab = qkv_tokenizer_vocab_size(t), .positions = 12, .segments = 2,
                               .width = 8, .layers = 1, .heads = 2, .classes = 2, .norm_eps = 1e-5};
    return make(name, type, &c, t);
}

static inline qkv_pipeline *make_forecaster(void)
{
    qkv_forecast_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_forecast_type()), &c);
    c.columns = c.targets = 2;
    c.context = 4;
    c.horizon = 3;
    c.patch = 2;
    c.width = 8;
    c.layers = 1;
    c.heads = 2;
    return make("series", qkv_forecast_type(), &c, NULL);
}

/* Made when it is first asked for. */
static inline qkv_pipeline *of(int kind)
{
    if (!pipelines[kind])
        pipelines[kind] = kind == LM           ? make_lm()
                          : kind == TRANSLATOR ? make_translator()
                          : kind == MASKED     ? make_bert("words", qkv_bert_masked_type())
                          : kind == CLASSIFIER ? make_bert("classes", qkv_bert_classifier_type())
                                               : make_forecaster();
    return pipelines[kind];
}

/* Freed with qkv_ids_free. */
static inline qkv_ids encoded(qkv_pipeline *p, const char *text)
{
    qkv_ids ids = {0};
    assert_int_equal(qkv_tokenizer_encode(qkv_pipeline_tokenizer(p), text, strlen(text),
                                          QKV_ENCODE_ADD_SPECIAL, &ids), QKV_OK);
    return ids;
}

/* For evaluation. */
static inline qkv_tape *fresh_tape(void)
{
    qkv_tape *t;
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tape_mode(t, false, false);
    return t;
}

static inline int close_all(void **state)
{
    for (int i = 0; i < KINDS; i++) {
        qkv_pipeline_close(pipelines[i]);
        pipelines[i] = NULL;
    }
    return tear_down(state);
}

#endif
