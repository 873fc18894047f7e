/* evaluate_words.c - evaluating BERT: by the words it guesses, or by the labels it gives. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"

#include "text/texts.h"
#include "qkv/bert.h"
#include "qkv/corpus.h"

/* Records have the ids of a text; a classifier's have a second text and a label beside them. */
static bool labels(const qkv_pipeline *p)
{
    return qkv_model_can(p->model, QKV_CAN_CLASSIFY_TEXT);
}

static qkv_status evaluate_words_add_text(qkv_pipeline *p, const qkv_text_span *part, bool join,
                                          qkv_records_writer *w)
{
    size_t cut = 0, most = qkv_bert_longest(p->model);
    if (!labels(p))
        return qkv_corpus_add_lines(w, p->ctx, p->tokenizer, part, most, join);
    return qkv_corpus_add_labelled(w, p->ctx, p->tokenizer, part, qkv_model_labels(p->model),
                                   qkv_model_label_count(p->model), most, &cut);
}

/* Records of the file, or those that training kept in the model's directory. */
static qkv_status evaluate_words_open_records(qkv_pipeline *p,
                                              const qkv_pipeline_evaluate_options *o,
                                              qkv_records **out)
{
    const size_t fields = labels(p) ? 3 : 1;
    qkv_path path;
    if (!o->file) {
        qkv_status status = qkv__evaluate_held_out(p, QKV__VALID_RECORDS, &path);
        return status ? status
                      : qkv__records_open_of(out, p->ctx, path.text, fields, p->tokenizer);
    }
    qkv_texts text = {0};
    qkv_records_writer *w = NULL;
    qkv_status status = qkv_texts_open_one(&text, p->ctx, o->file);
    if (!status)
        status = qkv_records_create(&w, p->ctx, NULL, fields);
    if (!status)
        status = evaluate_words_add_text(p, &text.spans[0], !o->lines, w);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, out);
    qkv_texts_close(&text);
    return status;
}

static qkv_status evaluate_mlm(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                               qkv_metrics *out)
{
    qkv_records *records = NULL;
    qkv_mlm_score s = {0};
    qkv_status status = evaluate_words_open_records(p, o, &records);
    if (!status)
        status = qkv_mlm_evaluate(p->model, p->tape, records, p->tokenizer, NULL, 0, &s);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    out->scored = s.words;
    qkv_records_close(records);
    return status;
}

const qkv__evaluator qkv__evaluator_mlm = {
    .can = QKV_CAN_FILL_MASK, .evaluate = evaluate_mlm, .unit = "words", .text = true};

static qkv_status evaluate_classify(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_metrics *out)
{
    qkv_records *records = NULL;
    qkv_classify_score s = {0};
    qkv_status status = evaluate_words_open_records(p, o, &records);
    if (!status)
        status = qkv_classify_evaluate(p->model, p->tape, records, 0, &s);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    qkv_metrics_add(out, "f1", s.f1);
    out->scored = s.texts;
    qkv_records_close(records);
    return status;
}

const qkv__evaluator qkv__evaluator_classify = {
    .can = QKV_CAN_CLASSIFY_TEXT, .evaluate = evaluate_classify, .unit = "texts", .text = true};
