/* evaluate_lm.c - evaluating models that continue text. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"

#include "text/texts.h"

/* Tokens of the file, or those that training kept in the model's directory. */
static qkv_status open_tokens(qkv_pipeline *p, const char *file, qkv_tokens **out)
{
    qkv_path path;
    qkv_texts text = {0};
    if (!file) {
        qkv_status status = qkv__evaluate_held_out(p, QKV__VALID_TOKENS, &path);
        return status ? status : qkv_tokens_open(out, p->ctx, path.text);
    }
    qkv_status status = qkv_texts_open_one(&text, p->ctx, file);
    if (!status)
        status = qkv_tokens_pack(out, p->ctx, p->tokenizer, text.spans, 1, NULL, NULL, NULL);
    qkv_texts_close(&text);
    return status;
}

/* On the conversations that training held out. */
static qkv_status evaluate_chat(qkv_pipeline *p, const char *path, qkv_metrics *out)
{
    qkv_records *records;
    qkv_chat_score s = {0};
    qkv_status status = qkv__records_open_of(&records, p->ctx, path, 2, p->tokenizer);
    if (status)
        return status;
    status = qkv_chat_evaluate(p->model, p->tape, records, 0, &s);
    if (status)
        qkv_fail_prefix(p->ctx, path);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    out->scored = s.tokens;
    qkv_records_close(records);
    return status;
}

static qkv_status evaluate_lm(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                              qkv_metrics *out)
{
    const qkv_path talks = qkv_path_in(p->dir, QKV__VALID_RECORDS);
    if (!o->file && qkv_file_exists(talks.text))
        return evaluate_chat(p, talks.text, out);
    qkv_tokens *tokens = NULL;
    qkv_lm_score s = {0};
    qkv_status status = open_tokens(p, o->file, &tokens);
    if (status)
        return status;
    status = qkv_lm_evaluate(p->model, p->tape, tokens, qkv_lm_positions(p->model), 0, &s);
    if (status)
        qkv_fail_prefix(p->ctx, o->file ? o->file : p->dir);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    qkv_metrics_add(out, "bits_per_byte", s.bits_per_byte);
    out->scored = s.tokens;
    qkv_tokens_close(tokens);
    return status;
}

const qkv__evaluator qkv__evaluator_lm = {
    .can = QKV_CAN_GENERATE, .unless = QKV_CAN_SAMPLE_CODES, .evaluate = evaluate_lm,
    .unit = "tokens", .text = true};
