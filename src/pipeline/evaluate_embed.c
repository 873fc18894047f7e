/* evaluate_embed.c - evaluating vectors of texts: how often a text's partner is the nearest. */
#include "pipeline/evaluators.h"
#include "pipeline/held_out.h"
#include "qkv/corpus.h"
#include "qkv/embed.h"
#include "task/vectors.h"
#include "text/pairs.h"

/* The named files' lines: one file of pairs, or two of texts. */
static qkv_status add_files(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                            qkv_records_writer *w)
{
    size_t vocab, length;
    qkv_partners_count count = {0};
    qkv__pairs pairs = {0};
    qkv_texts lines = {0};
    qkv__vector_limits(p->model, &vocab, &length);
    qkv_status status = o->file ? qkv_texts_open_one(&lines, p->ctx, o->file)
                                : qkv__pairs_open(&pairs, p->ctx, o->source, o->target);
    if (!status)
        status = qkv_corpus_add_partners(w, p->ctx, p->tokenizer,
                                         o->file ? lines.spans : pairs.text[QKV__SOURCE].spans,
                                         o->file ? NULL : pairs.text[QKV__TARGET].spans, length,
                                         &count);
    if (!status && !count.pairs)
        status = qkv_fail(p->ctx, QKV_E_FORMAT, "%s: no pair of texts is there",
                          o->file ? o->file : o->source);
    qkv__pairs_close(&pairs);
    qkv_texts_close(&lines);
    return status;
}

static qkv_status open_pairs(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                             qkv_records **out)
{
    qkv_records_writer *w = NULL;
    qkv_path path;
    qkv_status status;
    if (!o->source != !o->target)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT,
                        "--source and --target: both or none expected, found one");
    if (o->file && o->source)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--file, or --source and --target: one of them "
                        "expected, found both");
    if (!o->file && !o->source) {
        status = qkv__evaluate_held_out(p, QKV__VALID_RECORDS, &path);
        return status ? status : qkv__records_open_of(out, p->ctx, path.text, QKV__SIDES,
                                                      p->tokenizer);
    }
    status = qkv_records_create(&w, p->ctx, NULL, QKV__SIDES);
    if (!status)
        status = add_files(p, o, w);
    if (!status)
        return qkv_records_finish(w, out);
    qkv_records_abandon(w);
    return status;
}

static qkv_status evaluate_embed(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv_metrics *out)
{
    qkv_records *records = NULL;
    qkv_recall_score s = {0};
    qkv_status status = open_pairs(p, o, &records);
    if (!status)
        status = qkv_embed_evaluate(p->model, p->tape, records, NULL, 0, &s);
    qkv__recall_add(out, &s);
    qkv_metrics_add(out, "to_target_1", s.recall1[0]);
    qkv_metrics_add(out, "to_target_5", s.recall5[0]);
    qkv_metrics_add(out, "to_source_1", s.recall1[1]);
    qkv_metrics_add(out, "to_source_5", s.recall5[1]);
    out->scored = s.pairs;
    qkv_records_close(records);
    return status;
}

const qkv__evaluator qkv__evaluator_embed = {
    .can = QKV_CAN_EMBED_TEXT, .evaluate = evaluate_embed, .unit = "pairs",
    .data = QKV__ON_TEXT_PAIRS, .text = true};
