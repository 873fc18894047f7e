/* words.c - judging BERT: by the words it guesses, or by the labels it gives. */
#include "eval/kinds.h"
#include "text/texts.h"
#include "io/file.h"
#include "qkv/bert.h"
#include "qkv/corpus.h"

bool eval_takes_mlm(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_bert_masked_type; }
bool eval_takes_classify(const qkv_model *m)
{
    return qkv_model_type_of(m) == &qkv_bert_classifier_type;
}

/* The names of all classes; freed with qkv_free. NULL when memory is out. */
static const char **labels_of(const eval *e, size_t classes)
{
    const char **names = qkv_calloc(e->c->ctx, classes, sizeof *names);
    for (size_t i = 0; i < classes && names; i++)
        names[i] = qkv_model_label(e->model, i) ? qkv_model_label(e->model, i) : "";
    return names;
}

static qkv_status add_text(eval *e, qkv_records_writer *w, const qkv_text_part *part)
{
    const qkv_bert_config *c = qkv_model_config(e->model);
    size_t cut = 0;
    if (eval_takes_mlm(e->model))
        return qkv_corpus_add_lines(w, e->c->ctx, e->tokenizer, part, c->positions, !e->lines);
    const char **names = labels_of(e, c->classes);
    qkv_status status = names ? qkv_corpus_add_labelled(w, e->c->ctx, e->tokenizer, part, names,
                                                        c->classes, c->positions, &cut)
                              : QKV_E_MEMORY;
    qkv_free(e->c->ctx, names);
    return status;
}

/* Records of the file, or those that training kept in the model's directory. */
static qkv_status open_records(eval *e, qkv_records **out)
{
    char *path = NULL;
    if (!e->file) {
        qkv_status status = eval_held_out(e, "valid-records.safetensors", &path);
        if (!status)
            status = qkv__records_open_of(out, e->c->ctx, path, eval_takes_mlm(e->model) ? 1 : 3,
                                      e->tokenizer);
        qkv_free(e->c->ctx, path);
        return status;
    }
    qkv_texts text = {0};
    qkv_records_writer *w = NULL;
    qkv_status status = qkv_texts_open_one(&text, e->c->ctx, e->file);
    if (!status)
        status = qkv_records_create(&w, e->c->ctx, NULL, eval_takes_mlm(e->model) ? 1 : 3);
    if (!status)
        status = add_text(e, w, &text.parts[0]);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, out);
    qkv_texts_close(&text);
    return status;
}

qkv_status eval_mlm(eval *e, qkv_measures *out)
{
    qkv_records *records = NULL;
    qkv_mlm_score s = {0};
    qkv_status status = open_records(e, &records);
    if (!status)
        status = qkv_mlm_evaluate(e->model, e->tape, records, e->tokenizer, NULL, 0, &s);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "perplexity", s.perplexity);
    qkv_measures_add(out, "accuracy", s.accuracy);
    out->scored = s.words;
    qkv_records_close(records);
    return status;
}

qkv_status eval_classify(eval *e, qkv_measures *out)
{
    qkv_records *records = NULL;
    qkv_classify_score s = {0};
    qkv_status status = open_records(e, &records);
    if (!status)
        status = qkv_classify_evaluate(e->model, e->tape, records, 0, &s);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "accuracy", s.accuracy);
    qkv_measures_add(out, "f1", s.f1);
    out->scored = s.texts;
    qkv_records_close(records);
    return status;
}
