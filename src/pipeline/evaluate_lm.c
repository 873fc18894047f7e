/* evaluate_lm.c - evaluating models that continue text. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"

#include <string.h>

#include "text/chat.h"
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

/* A file of this name holds conversations; others, text. */
static bool is_conversations(const char *file)
{
    static const char end[] = ".jsonl";
    size_t len = strlen(file);
    return len >= sizeof end - 1 && strcmp(file + len - (sizeof end - 1), end) == 0;
}

/* The conversations of a file, as the directory's template writes them. */
static qkv_status read_conversations(qkv_pipeline *p, const char *file, qkv_records **out)
{
    qkv_chat_template *template = NULL;
    qkv_texts text = {0};
    qkv_status status = qkv_texts_open_one(&text, p->ctx, file);
    if (!status)
        status = qkv_hub_load_chat_template(&template, p->ctx, p->dir);
    if (!status)
        status = qkv__chat_records(out, template, p->tokenizer, text.spans, 1,
                                   qkv_lm_positions(p->model), NULL);
    qkv_chat_template_close(template);
    qkv_texts_close(&text);
    return status;
}

/* On the answers of conversations: those of the file, else those at `held` of training. */
static qkv_status evaluate_chat(qkv_pipeline *p, const char *file, const char *held,
                                qkv_metrics *out)
{
    qkv_records *records = NULL;
    qkv_chat_score s = {0};
    qkv_status status = file ? read_conversations(p, file, &records)
                             : qkv__records_open_of(&records, p->ctx, held, 2, p->tokenizer);
    if (status)
        return status;
    status = qkv_chat_evaluate(p->model, p->tape, records, 0, &s);
    if (status)
        qkv_fail_prefix(p->ctx, file ? file : held);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    out->scored = s.tokens;
    qkv_records_close(records);
    return status;
}

static qkv_status evaluate_text(qkv_pipeline *p, const char *file, qkv_metrics *out)
{
    qkv_tokens *tokens = NULL;
    qkv_lm_score s = {0};
    qkv_status status = open_tokens(p, file, &tokens);
    if (status)
        return status;
    status = qkv_lm_evaluate(p->model, p->tape, tokens, qkv_lm_positions(p->model), 0, &s);
    if (status)
        qkv_fail_prefix(p->ctx, file ? file : p->dir);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    qkv_metrics_add(out, "bits_per_byte", s.bits_per_byte);
    out->scored = s.tokens;
    qkv_tokens_close(tokens);
    return status;
}

static qkv_status evaluate_lm(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                              qkv_metrics *out)
{
    const qkv_path held = qkv_path_in(p->dir, QKV__VALID_RECORDS);
    if (o->file ? is_conversations(o->file) : qkv_file_exists(held.text))
        return evaluate_chat(p, o->file, held.text, out);
    return evaluate_text(p, o->file, out);
}

const qkv__evaluator qkv__evaluator_lm = {
    .can = QKV_CAN_GENERATE, .unless = QKV_CAN_SAMPLE_CODES, .evaluate = evaluate_lm,
    .unit = "tokens", .text = true};
