/* bag.c - the label of a text from a directory with a bag of words, and evaluating such a model. */
#include "qkv/bag.h"

#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"
#include "qkv/corpus.h"
#include "text/texts.h"

enum { LENGTH = 1024 }; /* tokens that are read of a text */

/* Probabilities of all classes of a text of `count` tokens. */
static qkv_status bag_ask(qkv_pipeline *p, const qkv_ids *ids, size_t *best,
                          qkv_real *probabilities)
{
    const qkv_bag_config *c = qkv_model_config(p->model);
    const int32_t offsets[] = {0, (int32_t)ids->count};
    qkv_tape_reset(p->tape);
    qkv_tape_mode(p->tape, false, false);
    qkv_tensor *y = qkv_bag_logits(p->model, p->tape, ids->data, offsets, 1);
    const qkv_real *from = qkv_data(p->tape, qkv_softmax(p->tape, y));
    *best = 0;
    for (size_t i = 0; from && i < c->classes; i++) {
        probabilities[i] = from[i];
        if (from[i] > from[*best])
            *best = i;
    }
    return qkv_tape_status(p->tape);
}

qkv_status qkv_pipeline_bag(qkv_pipeline *p, const char *text, size_t len, size_t *best,
                            qkv_real *probabilities)
{
    if (qkv_model_type_of(p->model) != qkv_bag_type())
        return qkv__pipeline_refuse(p, "label texts by their words");
    const qkv_text_pair pair = qkv_text_pair_of(text, len);
    qkv_ids ids = {0};
    size_t second;
    bool cut = false;
    qkv_status status = qkv__pipeline_text(p);
    if (!status)
        status = qkv_corpus_encode(p->tokenizer, p->ctx, &pair, LENGTH, &ids, &second, &cut);
    if (!status && !ids.count)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "the text has no tokens");
    if (!status)
        status = bag_ask(p, &ids, best, probabilities);
    qkv_ids_free(&ids, p->ctx);
    return status;
}

/* ---- evaluation -------------------------------------------------------------------------- */

/* The file's lines as records. */
static qkv_status read_file(qkv_pipeline *p, const char *file, qkv_records **out)
{
    size_t classes = qkv_model_label_count(p->model), cut = 0;
    const char **labels = qkv_calloc(p->ctx, classes + 1, sizeof *labels);
    qkv_texts text = {0};
    qkv_records_writer *w = NULL;
    qkv_status status = labels ? qkv_texts_open_one(&text, p->ctx, file) : QKV_E_MEMORY;
    for (size_t i = 0; i < classes && labels; i++)
        labels[i] = qkv_model_label(p->model, i);
    if (!status)
        status = qkv_records_create(&w, p->ctx, NULL, 3);
    if (!status)
        status = qkv_corpus_add_labelled(w, p->ctx, p->tokenizer, &text.spans[0], labels, classes,
                                         LENGTH, &cut);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, out);
    qkv_texts_close(&text);
    qkv_free(p->ctx, labels);
    return status;
}

static qkv_status bag_evaluate_file(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_metrics *out)
{
    qkv_records *records = NULL;
    qkv_bag_score s = {0};
    qkv_path path;
    qkv_status status = o->file ? read_file(p, o->file, &records)
                                : qkv__evaluate_held_out(p, QKV__VALID_RECORDS, &path);
    if (!status && !o->file)
        status = qkv_records_open(&records, p->ctx, path.text);
    if (!status)
        status = qkv_bag_evaluate(p->model, p->tape, records, 0, &s);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    qkv_metrics_add(out, "loss", s.loss);
    out->scored = s.texts;
    qkv_records_close(records);
    return status;
}

const qkv__evaluator qkv__evaluator_bag = {
    .type = qkv_bag_type, .evaluate = bag_evaluate_file, .unit = "texts", .text = true};
